// What the ops of a plan do in memory (plan.hpp), each a few lines; layers, losses and updates have
// files of their own.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "runtime/numbers.hpp"
#include "runtime/train/layer_run.hpp"
#include "runtime/train/loss_run.hpp"
#include "runtime/train/trainer.hpp"
#include "runtime/train/update_run.hpp"

namespace stepcast::runtime {
namespace {

std::byte* at(const Activation& a, const OpContext& c) {
  return c.memory[a.view] + a.at * bytes_per_element(a.dtype);
}

std::int64_t elements(const Activation& a) { return a.bytes / bytes_per_element(a.dtype); }

void fill(const Activation& a, const OpContext& c, double value) {
  const std::vector<double> numbers(static_cast<std::size_t>(elements(a)), value);
  write(c.memory[a.view], a.dtype, a.at, numbers.data(), elements(a));
}

void check(const CheckPlan& plan, const OpContext& c, const std::string& name) {
  std::vector<double> numbers(static_cast<std::size_t>(elements(plan.numbers)));
  read(numbers.data(), c.memory[plan.numbers.view], plan.numbers.dtype, plan.numbers.at,
       elements(plan.numbers), name);
  for (const double x : numbers) {
    if (x < plan.least || x > plan.most) {
      throw std::runtime_error(name + " reads another number than the ranks must agree on");
    }
  }
}

void tensor_norms(const NormsPlan& plan, const OpContext& c, const std::string& name) {
  std::vector<double> squares(static_cast<std::size_t>(plan.slots), 0);
  for (const NormsPlan::From& from : plan.from) {
    std::vector<double> x(static_cast<std::size_t>(from.count));
    read(x.data(), c.memory[from.place.view], from.place.dtype, from.place.at, from.count, name);
    for (const double value : x) squares[static_cast<std::size_t>(from.slot)] += value * value;
  }
  for (double& x : squares) x = std::sqrt(x);
  write(c.memory[plan.to.view], plan.to.dtype, plan.to.at, squares.data(), plan.slots);
}

double number(const Place& place, const OpContext& c, const std::string& name) {
  double value = 0;
  read(&value, c.memory[place.view], place.dtype, place.at, 1, name);
  return value;
}

}  // namespace

void Trainer::run(const OpContext& c) {
  std::visit(
      [&](const auto& plan) {
        using Plan = std::decay_t<decltype(plan)>;
        if constexpr (std::is_same_v<Plan, AdamPlan>) {
          run_adam(plan, data_.adam, training_step_of(c) + 1, c.memory, name_of(c));
        } else if constexpr (std::is_same_v<Plan, SgdPlan>) {
          run_sgd(plan, data_.sgd, c.memory, name_of(c));
        } else if constexpr (std::is_same_v<Plan, NormsPlan>) {
          tensor_norms(plan, c, name_of(c));
        } else if constexpr (std::is_same_v<Plan, ScalePlan>) {
          run_moves(plan.moves, c.memory, name_of(c), number(plan.coefficient, c, name_of(c)));
        } else if constexpr (std::is_same_v<Plan, ZeroPlan>) {
          for (const Activation& a : plan.views) {
            std::memset(at(a, c), 0, static_cast<std::size_t>(a.bytes));
          }
        } else if constexpr (std::is_same_v<Plan, FillPlan>) {
          fill(plan.numbers, c, plan.value);
        } else if constexpr (std::is_same_v<Plan, CheckPlan>) {
          check(plan, c, name_of(c));
        } else if constexpr (!std::is_same_v<Plan, std::monostate> &&
                             !std::is_same_v<Plan, CollectivePlan>) {
          carry_out(plan, c);
        }
      },
      plan_of(c));
}

void Trainer::carry_out(const MovePlan& plan, const OpContext& c) {
  double factor = 1;
  if (plan.clipped) {
    const std::vector<double>& known = state_of(c).norms;
    if (known.empty()) throw std::runtime_error(name_of(c) + " clips before the norm is known");
    factor = clip_coefficient(known.back());
  }
  run_moves(plan.moves, c.memory, name_of(c), factor);
}

void Trainer::carry_out(const LayerPlan& plan, const OpContext& c) {
  const std::string name = name_of(c);
  const LayerRun run{shape_, c.memory, data_.micro_batch * data_.seq_len,
                     loss_scale_ / data_.micro_batches, name};
  const double loss = run_layer(plan, run);
  state_of(c).loss[static_cast<std::size_t>(training_step_of(c))] += loss;
}

void Trainer::carry_out(const LossPlan& plan, const OpContext& c) {
  const std::string name = name_of(c);
  const LossRun run{shape_.vocabulary, c.memory, loss_scale_ / data_.micro_batches, name};
  const double loss = run_loss(plan, run);
  if (plan.backward) return;
  // A loss over the batch of several ranks stands for each of them.
  const double covered = static_cast<double>(elements(plan.labels)) /
                         static_cast<double>(data_.micro_batch * data_.seq_len);
  state_of(c).last_loss = loss;
  state_of(c).loss[static_cast<std::size_t>(training_step_of(c))] += loss * covered;
}

void Trainer::carry_out(const NormPlan& plan, const OpContext& c) {
  double sum = 0;
  for (const auto& [place, count] : plan.from) {
    std::vector<double> x(static_cast<std::size_t>(count));
    read(x.data(), c.memory[place.view], place.dtype, place.at, count, name_of(c));
    for (const double value : x) sum += value * value;
  }
  write(c.memory[plan.to.view], plan.to.dtype, plan.to.at, &sum, 1);
}

double Trainer::clip_coefficient(double squares) const {
  return data_.max_norm > 0 ? std::min(1.0, data_.max_norm / (std::sqrt(squares) + 1e-6)) : 1;
}

void Trainer::carry_out(const CoefficientPlan& plan, const OpContext& c) {
  const double squares = number(plan.at, c, name_of(c));
  state_of(c).norms.push_back(squares);
  const double coefficient = clip_coefficient(squares);
  write(c.memory[plan.at.view], plan.at.dtype, plan.at.at, &coefficient, 1);
}

// Token ids, and the labels behind them; or where the loss is apart one of the two, the labels of
// all ranks if one of them computes everybody's loss.
std::vector<std::int64_t> Trainer::batch_of(const LoadPlan& plan, const OpContext& c) const {
  static const Name labels("labels");
  const std::int64_t tokens = data_.micro_batch * data_.seq_len;
  const std::int64_t rows = elements(plan.tokens);
  const bool ids = c.op->verb != labels;
  const bool everybodys = !ids && rows != tokens;
  STEPCAST_ASSERT(ids ? rows == tokens || rows == 2 * tokens
                      : rows == tokens || rows == tokens * static_cast<int>(ranks_.size()),
                  "ids, labels, or both, of a micro-batch");
  std::vector<std::int64_t> numbers;
  numbers.reserve(static_cast<std::size_t>(rows));
  const auto put = [&](int rank, auto&& number_of) {
    for (const std::int64_t sample : data_.samples(rank, training_step_of(c), c.op->micro_batch)) {
      for (std::int64_t i = 0; i < data_.seq_len; ++i) {
        numbers.push_back(number_of(shape_, sample, i));
      }
    }
  };
  if (ids) put(c.rank, token_of);
  if (ids && rows == tokens) return numbers;
  const int first = everybodys ? 0 : c.rank;
  const int last = everybodys ? static_cast<int>(ranks_.size()) - 1 : c.rank;
  for (int rank = first; rank <= last; ++rank) put(rank, label_of);
  return numbers;
}

void Trainer::carry_out(const LoadPlan& plan, const OpContext& c) {
  std::int64_t to = plan.tokens.at;
  for (const std::int64_t number : batch_of(plan, c)) {
    store<std::int64_t>(c.memory[plan.tokens.view], to++, number);
  }
}

void Trainer::carry_out(const OrderPlan& plan, const OpContext& c) {
  const auto count = static_cast<std::int32_t>(elements(plan.numbers));
  std::byte* memory = c.memory[plan.numbers.view];
  for (std::int32_t i = 0; i < count; ++i) {
    if (!plan.check) {
      store<std::int32_t>(memory, plan.numbers.at + i, c.rank == 0 ? 3 * i + 1 : 0);
    } else if (load<std::int32_t>(memory, plan.numbers.at + i) != 3 * i + 1) {
      throw std::runtime_error(name_of(c) + ": the bucket order of rank 0 has not arrived");
    }
  }
}

// ---- Collectives --------------------------------------------------------------------------------

std::vector<std::byte>& Trainer::staged(const OpContext& c) {
  return state_of(c).staged[static_cast<int>(c.op->comm)];
}

Operands Trainer::operands(const OpContext& c) {
  const auto& plan = std::get<CollectivePlan>(plan_of(c));
  run_moves(plan.before, c.memory, name_of(c));
  const Bytes size = bytes_per_element(c.op->dtype);
  if (plan.losses) {
    std::vector<std::byte>& loss = staged(c);
    loss.resize(static_cast<std::size_t>(size));
    write(loss.data(), c.op->dtype, 0, &state_of(c).last_loss, 1);
    return {loss.data(), plan.receive < 0 ? loss.data() : c.memory[plan.receive] + plan.receive_at};
  }
  if (plan.owned.empty()) {
    return {c.memory[plan.send] + plan.send_at, c.memory[plan.receive] + plan.receive_at};
  }
  std::vector<std::byte>& elements_of_root = staged(c);
  elements_of_root.clear();
  for (const auto& [place, count] : plan.owned) {
    const std::byte* from = c.memory[place.view] + place.at * size;
    elements_of_root.insert(elements_of_root.end(), from, from + count * size);
  }
  return {elements_of_root.data(), elements_of_root.data()};
}

void Trainer::finished(const OpContext& c) {
  const auto& plan = std::get<CollectivePlan>(plan_of(c));
  learn_norm(plan, c);
  if (plan.losses) begin_mean_of_losses(plan, c);
  if (plan.owned.empty() || c.rank != c.op->root) return;
  const Bytes size = bytes_per_element(c.op->dtype);
  const std::byte* from = staged(c).data();
  for (const auto& [place, count] : plan.owned) {
    std::memcpy(c.memory[place.view] + place.at * size, from,
                static_cast<std::size_t>(count * size));
    from += count * size;
  }
}

// ZeRO's host reads the norm that it reduces; with clip_grad_norm_ nobody does.
bool Trainer::learns_norm(const OpContext& c) const {
  static const Name norm("norm_all_reduce");
  static const Name clip("clip.no-host-read");
  if (std::holds_alternative<CoefficientPlan>(plan_of(c))) return true;
  return c.op->verb == norm && c.op->rule != clip;
}

void Trainer::learn_norm(const CollectivePlan& plan, const OpContext& c) {
  if (!learns_norm(c)) return;
  double value = 0;
  read(&value, c.memory[plan.receive] + plan.receive_at, c.op->dtype, 0, 1, name_of(c));
  state_of(c).norms.push_back(value / loss_scale_ / loss_scale_);
}

// GPU 0 calls .mean().backward() on the losses of all GPUs, three kernels of a few numbers that the
// schedule leaves out: each loss is replaced by its gradient.
void Trainer::begin_mean_of_losses(const CollectivePlan& plan, const OpContext& c) {
  if (c.rank != c.op->root) return;
  const std::vector<double> gradient(
      static_cast<std::size_t>(c.op->elements),
      loss_scale_ / data_.micro_batches / static_cast<double>(c.op->elements));
  write(c.memory[plan.receive] + plan.receive_at, c.op->dtype, 0, gradient.data(), c.op->elements);
}

}  // namespace stepcast::runtime

#include "runtime/train/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "runtime/numbers.hpp"
#include "runtime/train/layer_run.hpp"
#include "runtime/train/sampler.hpp"
#include "runtime/train/verbs.hpp"

namespace stepcast::runtime {

std::vector<std::vector<std::int64_t>> TrainingData::batches() const {
  std::vector<std::vector<std::int64_t>> list(static_cast<std::size_t>(steps));
  const auto a_step = static_cast<std::ptrdiff_t>(micro_batches * micro_batch);
  for (int s = 0; s < steps; ++s) {
    for (const std::vector<std::int64_t>& samples : of_rank) {
      const auto begin = samples.begin() + s * a_step;
      list[static_cast<std::size_t>(s)].insert(list[static_cast<std::size_t>(s)].end(), begin,
                                               begin + a_step);
    }
  }
  return list;
}

TrainingData make_data(int ranks, int steps, int micro_batches, std::int64_t micro_batch,
                       std::int64_t seq_len) {
  TrainingData data;
  data.steps = steps;
  data.micro_batches = micro_batches;
  data.micro_batch = micro_batch;
  data.seq_len = seq_len;
  Sampler sampler;
  sampler.samples = micro_batch * micro_batches * steps * ranks;
  sampler.ranks = ranks;
  for (int r = 0; r < ranks; ++r) data.of_rank.push_back(sampler.of_rank(r, 0));
  return data;
}

Trainer::~Trainer() = default;

Trainer::Trainer(const Schedule& schedule, const MlpShape& shape, TrainingData data)
    : schedule_(schedule),
      shape_(shape),
      data_(std::move(data)),
      loss_scale_(loss_scale_of(schedule)) {
  const auto world = static_cast<std::size_t>(schedule.mesh.world_size());
  STEPCAST_ASSERT(data_.of_rank.size() == world, "samples for every rank");
  ranks_.resize(world);
  static const Name construction("construction");
  before_ = schedule.roles.front().steps.front().name == construction ? 1 : 0;
  for (std::size_t r = 0; r < schedule.roles.size(); ++r) {
    const Role& role = schedule.roles[r];
    std::vector<std::vector<std::string>> names;
    for (const StepProgram& program : role.steps) names.push_back(op_names(schedule, program));
    names_.push_back(std::move(names));
    const int last = static_cast<int>(role.steps.size()) - 1;
    for (int i = 0; i < role.rank_count; ++i) {
      const int rank = static_cast<int>(role.rank(i));
      RankState& state = ranks_[static_cast<std::size_t>(rank)];
      Planner planner(schedule, shape, rank, static_cast<int>(r));
      state.parameters = planner.parameters();
      for (int s = 0; s < executed_steps(); ++s) {
        state.steps.push_back(planner.next_step(std::min(s, last)));
      }
      state.masters = planner.masters();
      state.loss.resize(static_cast<std::size_t>(data_.steps), 0);
    }
  }
}

void Trainer::start(int rank, std::byte* const* memory) {
  const RankState& state = ranks_[static_cast<std::size_t>(rank)];
  const Tensors initial = initial_parameters(shape_, data_.seed);
  const auto put = [&](BufferIndex buffer, const std::vector<Run>& runs) {
    const Dtype dtype = schedule_.buffers[static_cast<std::size_t>(buffer)].dtype;
    for (const Run& run : runs) {
      const double* from = initial[static_cast<std::size_t>(run.tensor)].data() + run.first;
      write(memory[buffer], dtype, run.at, from, run.count);
    }
  };
  for (const auto& [buffer, runs] : state.parameters) put(buffer, runs);
  for (std::size_t b = 0; b < schedule_.buffers.size(); ++b) {
    const Buffer& buffer = schedule_.buffers[b];
    if (buffer.kind != BufferKind::optimizer_state || memory[b] == nullptr) continue;
    std::memset(memory[b], 0, static_cast<std::size_t>(buffer.bytes));
  }
  for (const MasterCopy& master : state.masters) put(master.state, master.runs);
}

void Trainer::end(int rank, std::byte* const* memory) {
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  state.final_parameters.resize(static_cast<std::size_t>(shape_.tensors()));
  for (int t = 0; t < shape_.tensors(); ++t) {
    state.final_parameters[static_cast<std::size_t>(t)].assign(
        static_cast<std::size_t>(shape_.elements(t)), std::numeric_limits<double>::quiet_NaN());
  }
  for (const auto& [buffer, runs] : state.parameters) {
    const Dtype dtype = schedule_.buffers[static_cast<std::size_t>(buffer)].dtype;
    for (const Run& run : runs) {
      double* to = state.final_parameters[static_cast<std::size_t>(run.tensor)].data() + run.first;
      read(to, memory[buffer], dtype, run.at, run.count, "the end of the run");
      for (std::int64_t i = 0; i < run.count; ++i) {
        if (std::isnan(to[i])) to[i] = std::numeric_limits<double>::infinity();  // not "absent"
      }
    }
  }
}

std::vector<double> Trainer::result(int rank) const {
  const RankState& state = ranks_[static_cast<std::size_t>(rank)];
  std::vector<double> all = state.loss;
  for (const auto& tensor : state.final_parameters) {
    all.insert(all.end(), tensor.begin(), tensor.end());
  }
  return all;
}

void Trainer::adopt(int rank, const std::vector<double>& result) {
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  auto at = result.begin();
  const auto next = [&](std::int64_t count) {
    STEPCAST_ASSERT(result.end() - at >= count, "a result has losses and every tensor");
    const std::vector<double> values(at, at + count);
    at += count;
    return values;
  };
  state.loss = next(data_.steps);
  state.final_parameters.clear();
  for (int t = 0; t < shape_.tensors(); ++t) {
    state.final_parameters.push_back(next(shape_.elements(t)));
  }
}

const Tensors& Trainer::parameters(int rank) const {
  return ranks_[static_cast<std::size_t>(rank)].final_parameters;
}

std::vector<double> Trainer::losses() const {
  std::vector<double> mean(static_cast<std::size_t>(data_.steps), 0);
  for (const RankState& state : ranks_) {
    for (std::size_t s = 0; s < mean.size(); ++s) {
      mean[s] += state.loss[s] / static_cast<double>(ranks_.size()) / data_.micro_batches;
    }
  }
  return mean;
}

const std::vector<double>& Trainer::norms(int rank) const {
  return ranks_[static_cast<std::size_t>(rank)].norms;
}

const OpPlan& Trainer::plan_of(const OpContext& c) const {
  return ranks_[static_cast<std::size_t>(c.rank)]
      .steps[static_cast<std::size_t>(c.step)]
      ->ops[static_cast<std::size_t>(c.index)];
}

std::string Trainer::name_of(const OpContext& c) const {
  return names_[static_cast<std::size_t>(c.role)][static_cast<std::size_t>(c.program)]
               [static_cast<std::size_t>(c.index)];
}

// ---- Ops ----------------------------------------------------------------------------------------

void Trainer::run(const OpContext& c) {
  const OpPlan& plan = plan_of(c);
  if (const auto* move = std::get_if<MovePlan>(&plan)) {
    run_moves(move->moves, c.memory, name_of(c));
  } else if (const auto* layer = std::get_if<LayerPlan>(&plan)) {
    const std::string name = name_of(c);
    const LayerRun run{shape_, c.memory, data_.micro_batch * data_.seq_len,
                       loss_scale_ / data_.micro_batches, name};
    ranks_[static_cast<std::size_t>(c.rank)].loss[static_cast<std::size_t>(c.step - before_)] +=
        run_layer(*layer, run);
  } else if (const auto* adam = std::get_if<AdamPlan>(&plan)) {
    run_adam(*adam, c);
  } else if (const auto* norm = std::get_if<NormPlan>(&plan)) {
    double sum = 0;
    for (const auto& [place, count] : norm->from) {
      std::vector<double> x(static_cast<std::size_t>(count));
      read(x.data(), c.memory[place.view], place.dtype, place.at, count, name_of(c));
      for (const double value : x) sum += value * value;
    }
    write(c.memory[norm->to.view], norm->to.dtype, norm->to.at, &sum, 1);
  } else if (const auto* ids = std::get_if<LoadPlan>(&plan)) {
    const std::int64_t per_step = data_.micro_batches * data_.micro_batch;
    const auto& samples = data_.of_rank[static_cast<std::size_t>(c.rank)];
    const std::int64_t first =
        (c.step - before_) * per_step + c.op->micro_batch * data_.micro_batch;
    const std::int64_t tokens = data_.micro_batch * data_.seq_len;
    STEPCAST_ASSERT(ids->tokens.bytes == 16 * tokens, "ids and labels of a micro-batch");
    std::int64_t at = ids->tokens.at;
    for (std::int64_t i = 0; i < tokens; ++i, ++at) {
      const std::int64_t sample = samples[static_cast<std::size_t>(first + i / data_.seq_len)];
      std::byte* memory = c.memory[ids->tokens.view];
      store<std::int64_t>(memory, at, token_of(shape_, sample, i % data_.seq_len));
      store<std::int64_t>(memory, at + tokens, label_of(shape_, sample, i % data_.seq_len));
    }
  } else if (const auto* zero = std::get_if<ZeroPlan>(&plan)) {
    for (const Activation& view : zero->views) {
      std::memset(c.memory[view.view] + view.at * bytes_per_element(view.dtype), 0,
                  static_cast<std::size_t>(view.bytes));
    }
  } else if (const auto* order = std::get_if<OrderPlan>(&plan)) {
    const auto count = order->numbers.bytes / 4;
    std::byte* memory = c.memory[order->numbers.view];
    for (std::int32_t i = 0; i < count; ++i) {
      if (!order->check) {
        store<std::int32_t>(memory, order->numbers.at + i, c.rank == 0 ? 3 * i + 1 : 0);
      } else if (load<std::int32_t>(memory, order->numbers.at + i) != 3 * i + 1) {
        throw std::runtime_error(name_of(c) + ": the bucket order of rank 0 has not arrived");
      }
    }
  }
}

Operands Trainer::operands(const OpContext& c) {
  const auto& plan = std::get<CollectivePlan>(plan_of(c));
  run_moves(plan.before, c.memory, name_of(c));
  if (plan.owned.empty()) {
    return {c.memory[plan.send] + plan.send_at, c.memory[plan.receive] + plan.receive_at};
  }
  std::vector<std::byte>& staged =
      ranks_[static_cast<std::size_t>(c.rank)].staged[static_cast<int>(c.op->comm)];
  const Bytes size = bytes_per_element(c.op->dtype);
  staged.clear();
  for (const auto& [place, count] : plan.owned) {
    const std::byte* from = c.memory[place.view] + place.at * size;
    staged.insert(staged.end(), from, from + count * size);
  }
  return {staged.data(), staged.data()};
}

void Trainer::finished(const OpContext& c) {
  const auto& plan = std::get<CollectivePlan>(plan_of(c));
  static const Name norm("norm_all_reduce");
  if (c.op->verb == norm) {
    const std::byte* from = c.memory[plan.receive] + plan.receive_at;
    double value = 0;
    read(&value, from, c.op->dtype, 0, 1, name_of(c));
    ranks_[static_cast<std::size_t>(c.rank)].norms.push_back(value / loss_scale_ / loss_scale_);
  }
  if (plan.owned.empty() || c.rank != c.op->root) return;
  const std::vector<std::byte>& staged =
      ranks_[static_cast<std::size_t>(c.rank)].staged[static_cast<int>(c.op->comm)];
  const Bytes size = bytes_per_element(c.op->dtype);
  const std::byte* from = staged.data();
  for (const auto& [place, count] : plan.owned) {
    std::memcpy(c.memory[place.view] + place.at * size, from,
                static_cast<std::size_t>(count * size));
    from += count * size;
  }
}

void Trainer::run_adam(const AdamPlan& plan, const OpContext& c) {
  const AdamW& a = data_.adam;
  const double t = c.step - before_ + 1;
  const double correct1 = 1 - std::pow(a.beta1, t);
  const double correct2 = 1 - std::pow(a.beta2, t);
  const std::string name = name_of(c);
  for (const AdamPart& part : plan.parts) {
    const auto count = static_cast<std::size_t>(part.count);
    std::vector<double> g(count), m(count), v(count), p(count);
    const auto fetch = [&](std::vector<double>& to, const Place& from) {
      read(to.data(), c.memory[from.view], from.dtype, from.at, part.count, name);
    };
    const Place& home = part.master.view >= 0 ? part.master : part.parameter;
    fetch(g, part.gradient);
    fetch(m, part.first_moment);
    fetch(v, part.second_moment);
    fetch(p, home);
    for (std::size_t i = 0; i < count; ++i) {
      p[i] -= a.rate * a.decay * p[i];
      m[i] = a.beta1 * m[i] + (1 - a.beta1) * g[i];
      v[i] = a.beta2 * v[i] + (1 - a.beta2) * g[i] * g[i];
      p[i] -= a.rate * (m[i] / correct1) / (std::sqrt(v[i] / correct2) + a.epsilon);
    }
    const auto keep = [&](const Place& to, const std::vector<double>& from) {
      if (to.view >= 0) write(c.memory[to.view], to.dtype, to.at, from.data(), part.count);
    };
    keep(part.first_moment, m);
    keep(part.second_moment, v);
    keep(part.master, p);
    keep(part.parameter, p);
  }
}

double relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i])) continue;
    difference += (a[i] - b[i]) * (a[i] - b[i]);
  }
  for (const double x : b) norm += x * x;
  return std::sqrt(difference) / std::sqrt(norm);
}

}  // namespace stepcast::runtime

// What the ops of a plan (train/plan.hpp) enqueue on a GPU. Layers and losses have files of their
// own: gpu_layer_run.hpp, gpu_loss_run.hpp.

#include <cmath>
#include <stdexcept>

#include "runtime/cuda/gpu_layer_run.hpp"
#include "runtime/cuda/gpu_loss_run.hpp"
#include "runtime/cuda/gpu_trainer.hpp"
#include "runtime/numbers.hpp"

namespace stepcast::runtime {
namespace {

// A fault's number: the step above, the op below.
std::int64_t number_of(const OpContext& c) {
  return (static_cast<std::int64_t>(c.step) << 32) | (static_cast<std::int64_t>(c.index) + 1);
}

std::byte* memory_of(const Activation& a, const OpContext& c) {
  return c.memory[a.view] + a.at * bytes_per_element(a.dtype);
}
GpuPlace place_of(const Activation& a, const OpContext& c) {
  return {c.memory[a.view], a.dtype, a.at};
}
std::int64_t elements(const Activation& a) { return a.bytes / bytes_per_element(a.dtype); }

}  // namespace

void GpuTrainer::run(const OpContext& c, GpuStream* stream) {
  std::visit([&](const auto& plan) { carry_out(plan, c, stream); }, plans_.plan_of(c));
}

// ---- What ops need ------------------------------------------------------------------------------

Scratch& GpuTrainer::scratch(int rank, GpuStream* stream) {
  auto& mine = state(rank).scratch[stream];
  if (!mine) mine = std::make_unique<Scratch>(gpu_);
  mine->rewind();
  return *mine;
}

FaultCell GpuTrainer::fault(const OpContext& c) {
  return {reinterpret_cast<std::int64_t*>(state(c.rank).cells) + fault_cell, number_of(c)};
}

GpuPlace GpuTrainer::at(const OpContext& c, const Place& place) const {
  if (place.view < 0) return {};
  return {c.memory[place.view], place.dtype, place.at};
}

// What was in them is gone.
void GpuTrainer::spoil(const std::vector<Activation>& views, const OpContext& c,
                       GpuStream* stream) {
  for (const Activation& view : views) {
    gpu_.fill(stream, memory_of(view, c), poison_byte, view.bytes);
  }
}

void GpuTrainer::run_moves(const std::vector<Move>& moves, const OpContext& c, GpuStream* stream,
                           GpuPlace times) {
  for (const Move& m : moves) {
    math_.move(stream, at(c, m.from), at(c, m.to), m.count, {m.factor, times}, m.add, fault(c));
  }
}

// Host memory that a copy may read until the op is done.
std::byte* GpuTrainer::pinned(const OpContext& c, Bytes size) {
  RankState& mine = state(c.rank);
  STEPCAST_ASSERT(size <= pinned_size_, "a batch, or a bucket order, fits the host's buffers");
  if (mine.idle.empty()) {
    mine.pinned.push_back(gpu_.allocate_pinned(pinned_size_));
    mine.idle.push_back(mine.pinned.back());
  }
  std::byte* memory = mine.idle.back();
  mine.idle.pop_back();
  mine.sending[{c.step, c.index}] = memory;
  return memory;
}

void GpuTrainer::done(const OpContext& c) {
  RankState& mine = state(c.rank);
  const auto found = mine.sending.find({c.step, c.index});
  if (found == mine.sending.end()) return;
  mine.idle.push_back(found->second);
  mine.sending.erase(found);
}

// ---- Batches and agreements ---------------------------------------------------------------------

void GpuTrainer::carry_out(const LoadPlan& plan, const OpContext& c, GpuStream* stream) {
  const std::vector<std::int64_t> numbers = plans_.batch_of(plan, c);
  const Bytes size = 8 * static_cast<Bytes>(numbers.size());
  std::byte* host = pinned(c, size);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    store<std::int64_t>(host, static_cast<std::int64_t>(i), numbers[i]);
  }
  gpu_.copy(stream, memory_of(plan.tokens, c), host, size);
}

// Rank 0 sends the numbers 1, 4, 7, ...; who checks adds -1 times them, and so has zeros.
void GpuTrainer::carry_out(const OrderPlan& plan, const OpContext& c, GpuStream* stream) {
  const std::int64_t count = elements(plan.numbers);
  std::byte* host = pinned(c, plan.numbers.bytes);
  for (std::int64_t i = 0; i < count; ++i) {
    const bool known = plan.check || c.rank == 0;
    store<std::int32_t>(host, i, known ? static_cast<std::int32_t>(3 * i + 1) : 0);
  }
  if (!plan.check) {
    gpu_.copy(stream, memory_of(plan.numbers, c), host, plan.numbers.bytes);
    return;
  }
  const GpuPlace difference{scratch(c.rank, stream).take(4 * count), Dtype::int32, 0};
  gpu_.copy(stream, difference.memory, host, 4 * count);
  math_.move(stream, place_of(plan.numbers, c), difference, count, -1, true, {});
  math_.expect(stream, difference, count, 0, 0, fault(c));
}

void GpuTrainer::carry_out(const FillPlan& plan, const OpContext& c, GpuStream* stream) {
  math_.set(stream, place_of(plan.numbers, c), elements(plan.numbers), plan.value);
}

void GpuTrainer::carry_out(const CheckPlan& plan, const OpContext& c, GpuStream* stream) {
  math_.expect(stream, place_of(plan.numbers, c), elements(plan.numbers), plan.least, plan.most,
               fault(c));
}

void GpuTrainer::carry_out(const ZeroPlan& plan, const OpContext& c, GpuStream* stream) {
  for (const Activation& view : plan.views) gpu_.fill(stream, memory_of(view, c), 0, view.bytes);
}

// ---- Layers and losses --------------------------------------------------------------------------

void GpuTrainer::carry_out(const LayerPlan& plan, const OpContext& c, GpuStream* stream) {
  const TrainingData& data = plans_.data();
  const std::string name = plans_.name_of(c);
  run_layer(plan, {gpu_, math_, stream, scratch(c.rank, stream), plans_.shape(), c.memory,
                   data.micro_batch * data.seq_len, plans_.loss_scale() / data.micro_batches,
                   cell_of_loss(c.rank, first_loss + plans_.training_step_of(c)), fault(c), name});
}

void GpuTrainer::carry_out(const LossPlan& plan, const OpContext& c, GpuStream* stream) {
  const TrainingData& data = plans_.data();
  const std::string name = plans_.name_of(c);
  run_loss(plan, {gpu_, math_, stream, scratch(c.rank, stream), plans_.shape().vocabulary, c.memory,
                  plans_.loss_scale() / data.micro_batches, cell_of_loss(c.rank, last_loss),
                  fault(c), name});
  if (plan.backward) return;
  // A loss over the batch of several ranks stands for each of them.
  const double covered = static_cast<double>(elements(plan.labels)) /
                         static_cast<double>(data.micro_batch * data.seq_len);
  math_.move(stream, cell(c.rank, last_loss), cell(c.rank, first_loss + plans_.training_step_of(c)),
             1, covered, true, {});
}

// ---- Norms, clipping, updates -------------------------------------------------------------------

void GpuTrainer::learn_norm(GpuPlace squares, double factor, const OpContext& c,
                            GpuStream* stream) {
  math_.move(stream, squares, cell(c.rank, first_norm() + state(c.rank).norms++), 1, factor, false,
             fault(c));
}

void GpuTrainer::carry_out(const NormPlan& plan, const OpContext& c, GpuStream* stream) {
  std::byte* sum = scratch(c.rank, stream).take(8);
  gpu_.fill(stream, sum, 0, 8);
  for (const auto& [place, count] : plan.from) {
    math_.add_squares(stream, at(c, place), count, reinterpret_cast<double*>(sum), fault(c));
  }
  math_.move(stream, {sum, Dtype::fp64, 0}, at(c, plan.to), 1, 1, false, {});
}

void GpuTrainer::carry_out(const NormsPlan& plan, const OpContext& c, GpuStream* stream) {
  std::byte* room = scratch(c.rank, stream).take(8 * plan.slots);
  auto* squares = reinterpret_cast<double*>(room);
  gpu_.fill(stream, room, 0, 8 * plan.slots);
  for (const NormsPlan::From& from : plan.from) {
    math_.add_squares(stream, at(c, from.place), from.count, squares + from.slot, fault(c));
  }
  math_.square_roots(stream, squares, plan.slots);
  math_.move(stream, {room, Dtype::fp64, 0}, at(c, plan.to), plan.slots, 1, false, {});
}

// Without a norm to clip to, the coefficient is one.
void GpuTrainer::carry_out(const CoefficientPlan& plan, const OpContext& c, GpuStream* stream) {
  const GpuPlace place = at(c, plan.at);
  learn_norm(place, 1, c, stream);
  if (const double most = plans_.data().max_norm; most > 0) {
    math_.clip_coefficient(stream, place, most, fault(c));
  } else {
    math_.set(stream, place, 1, 1);
  }
}

void GpuTrainer::carry_out(const ScalePlan& plan, const OpContext& c, GpuStream* stream) {
  run_moves(plan.moves, c, stream, at(c, plan.coefficient));
}

// Clipped by the norm that the host has waited for before, so that its cell is written.
void GpuTrainer::carry_out(const MovePlan& plan, const OpContext& c, GpuStream* stream) {
  const double most = plans_.data().max_norm;
  if (!plan.clipped || most <= 0) return run_moves(plan.moves, c, stream);
  const int norms = state(c.rank).norms;
  if (norms == 0) throw std::runtime_error(plans_.name_of(c) + " clips before the norm is known");
  const GpuPlace coefficient{scratch(c.rank, stream).take(8), Dtype::fp64, 0};
  math_.move(stream, cell(c.rank, first_norm() + norms - 1), coefficient, 1, 1, false, fault(c));
  math_.clip_coefficient(stream, coefficient, most, fault(c));
  run_moves(plan.moves, c, stream, coefficient);
}

void GpuTrainer::carry_out(const AdamPlan& plan, const OpContext& c, GpuStream* stream) {
  const AdamW& a = plans_.data().adam;
  const double t = plans_.training_step_of(c) + 1;
  const AdamStep step{a.rate,
                      a.beta1,
                      a.beta2,
                      a.epsilon,
                      a.decay,
                      1 - std::pow(a.beta1, t),
                      1 - std::pow(a.beta2, t)};
  spoil(plan.scratch, c, stream);
  for (const AdamPart& part : plan.parts) {
    math_.adamw(stream, part.count, at(c, part.gradient), at(c, part.parameter),
                at(c, part.first_moment), at(c, part.second_moment), at(c, part.master), step,
                fault(c));
  }
}

void GpuTrainer::carry_out(const SgdPlan& plan, const OpContext& c, GpuStream* stream) {
  const Sgd& sgd = plans_.data().sgd;
  spoil(plan.scratch, c, stream);
  for (const AdamPart& part : plan.parts) {
    math_.sgd(stream, part.count, at(c, part.gradient), at(c, part.parameter),
              at(c, part.first_moment), at(c, part.master), {sgd.rate, sgd.momentum}, fault(c));
  }
}

// ---- Collectives --------------------------------------------------------------------------------

Operands GpuTrainer::operands(const OpContext& c, GpuStream* stream) {
  const auto& plan = std::get<CollectivePlan>(plans_.plan_of(c));
  run_moves(plan.before, c, stream);
  const Bytes size = bytes_per_element(c.op->dtype);
  if (plan.losses) {
    std::byte* loss = scratch(c.rank, stream).take(size);
    math_.move(stream, cell(c.rank, last_loss), {loss, c.op->dtype, 0}, 1, 1, false, {});
    return {loss, plan.receive < 0 ? loss : c.memory[plan.receive] + plan.receive_at};
  }
  if (plan.owned.empty()) {
    return {c.memory[plan.send] + plan.send_at, c.memory[plan.receive] + plan.receive_at};
  }
  std::byte* staged = scratch(c.rank, stream).take(c.op->elements * size);
  std::byte* to = staged;
  for (const auto& [place, count] : plan.owned) {
    gpu_.copy(stream, to, c.memory[place.view] + place.at * size, count * size);
    to += count * size;
  }
  return {staged, staged};
}

void GpuTrainer::after(const OpContext& c, GpuStream* stream) {
  const auto& plan = std::get<CollectivePlan>(plans_.plan_of(c));
  if (plans_.learns_norm(c)) {
    const double scale = plans_.loss_scale();
    learn_norm({c.memory[plan.receive] + plan.receive_at, c.op->dtype, 0}, 1 / scale / scale, c,
               stream);
  }
  if (c.rank != c.op->root) return;
  const Bytes size = bytes_per_element(c.op->dtype);
  // GPU 0 calls .mean().backward() on the losses of all (Trainer::begin_mean_of_losses).
  if (plan.losses) {
    math_.set(
        stream, {c.memory[plan.receive] + plan.receive_at, c.op->dtype, 0}, c.op->elements,
        plans_.loss_scale() / plans_.data().micro_batches / static_cast<double>(c.op->elements));
  }
  if (plan.owned.empty()) return;
  const std::byte* from = scratch(c.rank, stream).take(c.op->elements * size);  // as in operands()
  for (const auto& [place, count] : plan.owned) {
    gpu_.copy(stream, c.memory[place.view] + place.at * size, from, count * size);
    from += count * size;
  }
}

}  // namespace stepcast::runtime

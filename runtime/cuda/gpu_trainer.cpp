#include "runtime/cuda/gpu_trainer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/cpu/memory.hpp"
#include "runtime/cuda/frame.hpp"
#include "runtime/cuda/gpu_layer_run.hpp"
#include "runtime/numbers.hpp"
#include "runtime/train/verbs.hpp"

namespace stepcast::runtime {
namespace {

constexpr int most_norms = 4096;
constexpr Bytes pinned_size = 1 << 20;

// A fault's number: the step above, the op below.
std::int64_t number_of(const OpContext& c) {
  return (static_cast<std::int64_t>(c.step) << 32) | (static_cast<std::int64_t>(c.index) + 1);
}

}  // namespace

GpuTrainer::GpuTrainer(const Schedule& schedule, const MlpShape& shape, TrainingData data,
                       const GpuTables& tables)
    : schedule_(schedule),
      gpu_(*tables.gpu),
      math_(*tables.math),
      plans_(schedule, shape, std::move(data)),
      loss_scale_(loss_scale_of(schedule)),
      ranks_(static_cast<std::size_t>(schedule.mesh.world_size())),
      needed_(touched_bytes(schedule)) {
  refuse_unknown();
}

// Every kind of plan that run() and operands() have a branch for, and nothing else.
void GpuTrainer::refuse_unknown() const {
  const bool clips = plans_.data().max_norm > 0;  // else the coefficient is 1
  const auto known = [clips](const OpPlan& plan) {
    if (const auto* move = std::get_if<MovePlan>(&plan)) return !(move->clipped && clips);
    if (const auto* collective = std::get_if<CollectivePlan>(&plan)) {
      return !collective->losses && collective->send >= 0 && collective->receive >= 0;
    }
    return std::holds_alternative<std::monostate>(plan) ||
           std::holds_alternative<LayerPlan>(plan) || std::holds_alternative<AdamPlan>(plan) ||
           std::holds_alternative<NormPlan>(plan) || std::holds_alternative<LoadPlan>(plan) ||
           std::holds_alternative<OrderPlan>(plan) || std::holds_alternative<ZeroPlan>(plan);
  };
  for (const auto& samples : plans_.data().of_rank) {
    if (std::find(samples.begin(), samples.end(), no_sample) != samples.end()) {
      throw std::runtime_error("a batch that is not full is not trained on GPUs yet");
    }
  }
  for (std::size_t r = 0; r < schedule_.roles.size(); ++r) {
    const Role& role = schedule_.roles[r];
    const int programs = static_cast<int>(role.steps.size());
    for (int step = 0; step < std::min(executed_steps(), programs); ++step) {
      OpContext c;
      c.rank = static_cast<int>(role.rank(0));
      c.role = static_cast<int>(r);
      c.step = c.program = step;
      const auto ops = static_cast<OpIndex>(role.steps[static_cast<std::size_t>(step)].ops.size());
      for (c.index = 0; c.index < ops; ++c.index) {
        if (known(plans_.plan_of(c))) continue;
        throw std::runtime_error(plans_.name_of(c) + " is not trained on GPUs yet");
      }
    }
  }
}

GpuTrainer::~GpuTrainer() {
  try {
    for (RankState& state : ranks_) {
      if (state.cells != nullptr) gpu_.release(state.cells);
      for (std::byte* memory : state.pinned) gpu_.release_pinned(memory);
      state.scratch.clear();
    }
  } catch (const GpuError&) {
    // The device is broken, and why has been said.
  }
}

// ---- Beginning and end --------------------------------------------------------------------------

void GpuTrainer::start(int rank, std::byte* const* memory, GpuStream* stream) {
  RankState& mine = state(rank);
  const auto steps = static_cast<std::size_t>(plans_.data().steps);
  const Bytes cells = static_cast<Bytes>(1 + steps + most_norms) * 8;
  mine.cells = gpu_.allocate(cells);
  gpu_.fill(stream, mine.cells, 0, cells);
  // Trainer fills host memory; what it leaves stays poison, as on the device.
  std::vector<std::vector<std::byte>> host(needed_.size());
  std::vector<std::byte*> starts(needed_.size(), nullptr);
  for (std::size_t b = 0; b < host.size(); ++b) {
    if (memory[b] == nullptr || schedule_.buffers[b].view_of >= 0) continue;
    const bool state = schedule_.buffers[b].kind == BufferKind::optimizer_state;  // zeroed whole
    const Bytes size = state ? schedule_.buffers[b].bytes : needed_[b];
    host[b].assign(static_cast<std::size_t>(std::max<Bytes>(size, 1)),
                   static_cast<std::byte>(poison_byte));
    starts[b] = host[b].data();
  }
  for (std::size_t b = 0; b < host.size(); ++b) {  // views lie in their owners
    Bytes offset = 0;
    auto owner = static_cast<BufferIndex>(b);
    while (schedule_.buffers[static_cast<std::size_t>(owner)].view_of >= 0) {
      const Buffer& view = schedule_.buffers[static_cast<std::size_t>(owner)];
      offset += view.view_offset;
      owner = view.view_of;
    }
    if (owner != static_cast<BufferIndex>(b) &&
        starts[static_cast<std::size_t>(owner)] != nullptr) {
      starts[b] = starts[static_cast<std::size_t>(owner)] + offset;
    }
  }
  plans_.start(rank, starts.data());
  for (std::size_t b = 0; b < host.size(); ++b) {
    if (!host[b].empty()) gpu_.copy(stream, memory[b], host[b].data(), needed_[b]);
  }
  gpu_.synchronize(stream);
}

void GpuTrainer::end(int rank, std::byte* const* memory, GpuStream* stream) {
  RankState& mine = state(rank);
  const auto steps = static_cast<std::size_t>(plans_.data().steps);
  std::int64_t fault = 0;
  mine.loss.resize(steps);
  mine.norm.resize(static_cast<std::size_t>(mine.norms));
  const auto fetch = [&](void* to, Bytes at, Bytes size) {
    if (size > 0) gpu_.copy(stream, static_cast<std::byte*>(to), mine.cells + at, size);
  };
  fetch(&fault, 0, 8);
  fetch(mine.loss.data(), 8, static_cast<Bytes>(steps) * 8);
  fetch(mine.norm.data(), static_cast<Bytes>(1 + steps) * 8, static_cast<Bytes>(mine.norms) * 8);
  gpu_.synchronize(stream);
  for (double& norm : mine.norm) norm /= loss_scale_ * loss_scale_;
  if (fault != 0) {
    OpContext c;
    c.rank = rank;
    c.step = static_cast<int>(fault >> 32);
    c.index = static_cast<OpIndex>(fault & 0xffffffff) - 1;
    for (std::size_t r = 0; r < schedule_.roles.size(); ++r) {
      for (int i = 0; i < schedule_.roles[r].rank_count; ++i) {
        if (schedule_.roles[r].rank(i) == rank) c.role = static_cast<int>(r);
      }
    }
    const auto programs = schedule_.roles[static_cast<std::size_t>(c.role)].steps.size();
    c.program = std::min(c.step, static_cast<int>(programs) - 1);
    throw PoisonRead(plans_.name_of(c) + " reads memory that was freed or never written");
  }
  std::vector<std::vector<std::byte>> host(needed_.size());
  std::vector<std::byte*> starts(needed_.size(), nullptr);
  for (std::size_t b = 0; b < host.size(); ++b) {
    if (memory[b] == nullptr) continue;
    host[b].resize(static_cast<std::size_t>(std::max<Bytes>(needed_[b], 1)));
    starts[b] = host[b].data();
    gpu_.copy(stream, host[b].data(), memory[b], needed_[b]);
  }
  gpu_.synchronize(stream);
  plans_.end(rank, starts.data());
  const Tensors& held = plans_.parameters(rank);
  for (std::size_t t = 0; t < one_rank_.size(); ++t) {
    mine.difference = std::max(mine.difference, relative_difference(held[t], one_rank_[t]));
  }
}

std::string GpuTrainer::summary(int rank) const {
  const RankState& mine = ranks_[static_cast<std::size_t>(rank)];
  std::string bytes;
  put(bytes, mine.difference);
  put(bytes, static_cast<std::uint64_t>(mine.loss.size()));
  for (const double loss : mine.loss) put(bytes, loss);
  put(bytes, static_cast<std::uint64_t>(mine.norm.size()));
  for (const double norm : mine.norm) put(bytes, norm);
  return bytes;
}

GpuTrainer::Verdict GpuTrainer::verdict(const GpuExecution& run) const {
  Verdict verdict;
  const auto ranks = static_cast<double>(run.summaries.size());
  for (std::size_t r = 0; r < run.summaries.size(); ++r) {
    Reader reader(run.summaries[r]);
    const auto difference = reader.get<double>();
    // A NaN must not be lost in a comparison.
    if (!(difference <= verdict.difference)) verdict.difference = difference;
    verdict.losses.resize(reader.get<std::uint64_t>(), 0);
    for (double& loss : verdict.losses) {
      loss += reader.get<double>() / ranks / plans_.data().micro_batches;
    }
    for (auto n = reader.get<std::uint64_t>(); n > 0; --n) {
      const auto norm = reader.get<double>();
      if (r == 0) verdict.norms.push_back(norm);
    }
  }
  return verdict;
}

// ---- Ops ----------------------------------------------------------------------------------------

Scratch& GpuTrainer::scratch(int rank, GpuStream* stream) {
  auto& mine = state(rank).scratch[stream];
  if (!mine) mine = std::make_unique<Scratch>(gpu_);
  mine->rewind();
  return *mine;
}

FaultCell GpuTrainer::fault(const OpContext& c) {
  return {reinterpret_cast<std::int64_t*>(state(c.rank).cells), number_of(c)};
}

GpuPlace GpuTrainer::at(const OpContext& c, const Place& place) const {
  if (place.view < 0) return {};
  return {c.memory[place.view], place.dtype, place.at};
}

void GpuTrainer::run_moves(const std::vector<Move>& moves, const OpContext& c, GpuStream* stream) {
  for (const Move& m : moves) {
    math_.move(stream, at(c, m.from), at(c, m.to), m.count, m.factor, m.add, fault(c));
  }
}

void GpuTrainer::run(const OpContext& c, GpuStream* stream) {
  const OpPlan& plan = plans_.plan_of(c);
  if (const auto* move = std::get_if<MovePlan>(&plan)) {
    run_moves(move->moves, c, stream);
  } else if (const auto* layer = std::get_if<LayerPlan>(&plan)) {
    const TrainingData& data = plans_.data();
    const std::string name = plans_.name_of(c);
    double* losses = reinterpret_cast<double*>(state(c.rank).cells) + 1;
    run_layer(*layer, {math_, stream, scratch(c.rank, stream), plans_.shape(), c.memory,
                       data.micro_batch * data.seq_len, loss_scale_ / data.micro_batches,
                       losses + plans_.training_step_of(c), fault(c), name});
  } else if (const auto* step = std::get_if<AdamPlan>(&plan)) {
    adam(*step, c, stream);
  } else if (const auto* norm = std::get_if<NormPlan>(&plan)) {
    auto* sum = reinterpret_cast<double*>(scratch(c.rank, stream).take(8));
    gpu_.fill(stream, reinterpret_cast<std::byte*>(sum), 0, 8);
    for (const auto& [place, count] : norm->from) {
      math_.add_squares(stream, at(c, place), count, sum, fault(c));
    }
    math_.move(stream, {reinterpret_cast<std::byte*>(sum), Dtype::fp64, 0}, at(c, norm->to), 1, 1,
               false, {});
  } else if (const auto* ids = std::get_if<LoadPlan>(&plan)) {
    load(*ids, c, stream);
  } else if (const auto* zero = std::get_if<ZeroPlan>(&plan)) {
    for (const Activation& view : zero->views) {
      gpu_.fill(stream, c.memory[view.view] + view.at * bytes_per_element(view.dtype), 0,
                view.bytes);
    }
  } else if (const auto* numbers = std::get_if<OrderPlan>(&plan)) {
    order(*numbers, c, stream);
  }
}

// Host memory that a copy may read until the op is done.
std::byte* GpuTrainer::pinned(const OpContext& c, Bytes size) {
  RankState& mine = state(c.rank);
  STEPCAST_ASSERT(size <= pinned_size, "a batch of the trainer's model fits its pinned buffers");
  if (mine.idle.empty()) {
    mine.pinned.push_back(gpu_.allocate_pinned(pinned_size));
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

void GpuTrainer::load(const LoadPlan& plan, const OpContext& c, GpuStream* stream) {
  const TrainingData& data = plans_.data();
  const std::vector<std::int64_t> samples =
      data.samples(c.rank, plans_.training_step_of(c), c.op->micro_batch);
  const std::int64_t tokens = data.micro_batch * data.seq_len;
  STEPCAST_ASSERT(plan.tokens.bytes == 16 * tokens, "ids and labels of a micro-batch");
  std::byte* host = pinned(c, plan.tokens.bytes);
  for (std::int64_t i = 0; i < tokens; ++i) {
    const std::int64_t sample = samples[static_cast<std::size_t>(i / data.seq_len)];
    const std::int64_t position = i % data.seq_len;
    store<std::int64_t>(host, i, token_of(plans_.shape(), sample, position));
    store<std::int64_t>(host, i + tokens, label_of(plans_.shape(), sample, position));
  }
  gpu_.copy(stream, c.memory[plan.tokens.view] + plan.tokens.at * 8, host, plan.tokens.bytes);
}

// Rank 0 sends the numbers 1, 4, 7, ...; who checks adds -1 times them, squares what is left, and
// so has zero. What is not zero makes the fault: the square is moved through a token id.
void GpuTrainer::order(const OrderPlan& plan, const OpContext& c, GpuStream* stream) {
  const std::int64_t count = plan.numbers.bytes / 4;
  std::byte* there = c.memory[plan.numbers.view] + plan.numbers.at * 4;
  std::byte* host = pinned(c, plan.numbers.bytes);
  for (std::int32_t i = 0; i < count; ++i) {
    store<std::int32_t>(host, i, plan.check || c.rank == 0 ? 3 * i + 1 : 0);
  }
  if (!plan.check) {
    gpu_.copy(stream, there, host, plan.numbers.bytes);
    return;
  }
  Scratch& room = scratch(c.rank, stream);
  std::byte* difference = room.take(4 * count);
  std::byte* sum = room.take(8);
  std::byte* token = room.take(8);
  std::byte* nothing = room.take(8);
  gpu_.copy(stream, difference, host, 4 * count);
  math_.move(stream, {there, Dtype::int32, 0}, {difference, Dtype::int32, 0}, count, -1, true, {});
  gpu_.fill(stream, sum, 0, 8);
  math_.add_squares(stream, {difference, Dtype::int32, 0}, count, reinterpret_cast<double*>(sum),
                    {});
  math_.move(stream, {sum, Dtype::fp64, 0}, {token, Dtype::int64, 0}, 1, 1, false, {});
  math_.embed(stream, true, nothing, 1, 1, reinterpret_cast<std::int64_t*>(token), 1, nothing,
              fault(c));
}

void GpuTrainer::adam(const AdamPlan& plan, const OpContext& c, GpuStream* stream) {
  const AdamW& a = plans_.data().adam;
  const double t = plans_.training_step_of(c) + 1;
  const AdamStep step{a.rate,
                      a.beta1,
                      a.beta2,
                      a.epsilon,
                      a.decay,
                      1 - std::pow(a.beta1, t),
                      1 - std::pow(a.beta2, t)};
  for (const Activation& temporary : plan.scratch) {  // what was in it is gone
    gpu_.fill(stream, c.memory[temporary.view] + temporary.at * bytes_per_element(temporary.dtype),
              poison_byte, temporary.bytes);
  }
  for (const AdamPart& part : plan.parts) {
    math_.adamw(stream, part.count, at(c, part.gradient), at(c, part.parameter),
                at(c, part.first_moment), at(c, part.second_moment), at(c, part.master), step,
                fault(c));
  }
}

Operands GpuTrainer::operands(const OpContext& c, GpuStream* stream) {
  const auto& plan = std::get<CollectivePlan>(plans_.plan_of(c));
  run_moves(plan.before, c, stream);
  if (plan.owned.empty()) {
    return {c.memory[plan.send] + plan.send_at, c.memory[plan.receive] + plan.receive_at};
  }
  const Bytes size = bytes_per_element(c.op->dtype);
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
  static const Name norm("norm_all_reduce");
  RankState& mine = state(c.rank);
  if (c.op->verb == norm && mine.norms < most_norms) {
    const std::int64_t to = 1 + plans_.data().steps + mine.norms++;
    math_.move(stream, {c.memory[plan.receive] + plan.receive_at, c.op->dtype, 0},
               {mine.cells, Dtype::fp64, to}, 1, 1, false, fault(c));
  }
  if (plan.owned.empty() || c.rank != c.op->root) return;
  const Bytes size = bytes_per_element(c.op->dtype);
  const std::byte* from = scratch(c.rank, stream).take(c.op->elements * size);  // as in operands()
  for (const auto& [place, count] : plan.owned) {
    gpu_.copy(stream, c.memory[place.view] + place.at * size, from, count * size);
    from += count * size;
  }
}

}  // namespace stepcast::runtime

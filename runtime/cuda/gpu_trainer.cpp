#include "runtime/cuda/gpu_trainer.hpp"

#include <algorithm>

#include "runtime/cpu/memory.hpp"
#include "runtime/cuda/frame.hpp"
#include "runtime/numbers.hpp"

namespace stepcast::runtime {
namespace {

// The smallest host buffer: room for a bucket order.
constexpr Bytes least_pinned = 1 << 16;

}  // namespace

GpuTrainer::GpuTrainer(const Schedule& schedule, const MlpShape& shape, TrainingData data,
                       const GpuTables& tables)
    : schedule_(schedule),
      gpu_(*tables.gpu),
      math_(*tables.math),
      plans_(schedule, shape, std::move(data)),
      ranks_(static_cast<std::size_t>(schedule.mesh.world_size())),
      needed_(touched_bytes(schedule)) {
  // The largest batch: the labels of all ranks, or one rank's ids and labels.
  const TrainingData& d = plans_.data();
  const std::int64_t ranks = std::max(schedule.mesh.world_size(), 2);
  pinned_size_ = std::max(least_pinned, 8 * ranks * d.micro_batch * d.seq_len);
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
  const Bytes cells = (first_norm() + norms_of(rank)) * 8;
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

// How many ops of a rank's run make a norm known.
int GpuTrainer::norms_of(int rank) const {
  OpContext c = context_of(rank, 0);
  const Role& role = schedule_.roles[static_cast<std::size_t>(c.role)];
  int norms = 0;
  for (int step = 0; step < executed_steps(); ++step) {
    c = context_of(rank, step);
    const auto& ops = role.steps[static_cast<std::size_t>(c.program)].ops;
    for (const Op& op : ops) {
      c.index = static_cast<OpIndex>(&op - ops.data());
      c.op = &op;
      norms += plans_.learns_norm(c) ? 1 : 0;
    }
  }
  return norms;
}

// A place in a rank's run, without memory.
OpContext GpuTrainer::context_of(int rank, int step) const {
  OpContext c;
  c.rank = rank;
  c.step = step;
  for (std::size_t r = 0; r < schedule_.roles.size(); ++r) {
    for (int i = 0; i < schedule_.roles[r].rank_count; ++i) {
      if (schedule_.roles[r].rank(i) == rank) c.role = static_cast<int>(r);
    }
  }
  const auto programs = schedule_.roles[static_cast<std::size_t>(c.role)].steps.size();
  c.program = std::min(step, static_cast<int>(programs) - 1);
  return c;
}

void GpuTrainer::throw_fault(int rank, std::int64_t fault) const {
  OpContext c = context_of(rank, static_cast<int>(fault >> 32));
  c.index = static_cast<OpIndex>(fault & 0xffffffff) - 1;
  const OpPlan& plan = plans_.plan_of(c);
  if (std::holds_alternative<CheckPlan>(plan)) {
    throw std::runtime_error(plans_.name_of(c) +
                             " reads another number than the ranks must agree on");
  }
  if (std::holds_alternative<OrderPlan>(plan)) {
    throw std::runtime_error(plans_.name_of(c) + ": the bucket order of rank 0 has not arrived");
  }
  throw PoisonRead(plans_.name_of(c) + " reads memory that was freed or never written");
}

void GpuTrainer::end(int rank, std::byte* const* memory, GpuStream* stream) {
  RankState& mine = state(rank);
  const auto steps = static_cast<std::size_t>(plans_.data().steps);
  std::int64_t fault = 0;
  mine.loss.resize(steps);
  mine.norm.resize(static_cast<std::size_t>(mine.norms));
  const auto fetch = [&](void* to, std::int64_t from, std::size_t count) {
    if (count == 0) return;
    gpu_.copy(stream, static_cast<std::byte*>(to), mine.cells + 8 * from,
              8 * static_cast<Bytes>(count));
  };
  fetch(&fault, fault_cell, 1);
  fetch(mine.loss.data(), first_loss, steps);
  fetch(mine.norm.data(), first_norm(), mine.norm.size());
  gpu_.synchronize(stream);
  if (fault != 0) throw_fault(rank, fault);
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
  if (!shares_.empty() && shares_[static_cast<std::size_t>(rank)].weight == 0) return;
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
  for (std::size_t r = 0; r < run.summaries.size(); ++r) {
    Reader reader(run.summaries[r]);
    const auto difference = reader.get<double>();
    // A NaN must not be lost in a comparison.
    if (!(difference <= verdict.difference)) verdict.difference = difference;
    verdict.losses.resize(reader.get<std::uint64_t>(), 0);
    for (double& loss : verdict.losses) {
      loss += reader.get<double>() / plans_.takers() / plans_.data().micro_batches;
    }
    for (auto n = reader.get<std::uint64_t>(); n > 0; --n) {
      const auto norm = reader.get<double>();
      if (r == 0) verdict.norms.push_back(norm);
    }
  }
  return verdict;
}

}  // namespace stepcast::runtime

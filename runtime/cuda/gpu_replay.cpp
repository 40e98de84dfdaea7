#include "runtime/cuda/gpu_replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace stepcast::runtime {
namespace {

constexpr Bytes longest_copy = 1 << 26;  // of host memory; longer ones go in pieces

std::string_view kind_of(KernelKind kind) {
  switch (kind) {
    case KernelKind::gemm: return "GEMM";
    case KernelKind::attention_forward: return "attention forward";
    case KernelKind::attention_backward: return "attention backward";
    case KernelKind::convolution: return "convolution";
    case KernelKind::memory: return "memory-bound";
  }
  return "";
}

Bytes largest_tensor(const Schedule& schedule) {
  Bytes largest = 0;
  for (const Role& role : schedule.roles) {
    for (const StepProgram& program : role.steps) {
      for (const Op& op : program.ops) {
        if (op.kind == OpKind::collective) largest = std::max(largest, bytes_of(op));
      }
    }
  }
  return largest;
}

}  // namespace

GpuKernels::Room GpuKernels::room_of(const Kernel& kernel) {
  const Bytes size = bytes_per_element(kernel.dtype);
  switch (kernel.kind) {
    case KernelKind::gemm:
    case KernelKind::convolution:
      return {size * kernel.batch * (kernel.m * kernel.k + kernel.k * kernel.n),
              size * kernel.batch * kernel.m * kernel.n};
    case KernelKind::attention_forward:
    case KernelKind::attention_backward: {
      const Bytes queries = kernel.batch * kernel.heads * kernel.m * kernel.k * size;
      const Bytes keys = kernel.batch * kernel.kv_heads * kernel.n * kernel.k * size;
      const Bytes rows = kernel.batch * kernel.heads * kernel.m * 4;
      const bool forward = kernel.kind == KernelKind::attention_forward;
      if (forward) return {queries + 2 * keys, queries + rows};
      return {3 * queries + 2 * keys + rows, queries + 2 * keys};
    }
    case KernelKind::memory: return {kernel.bytes_read, kernel.bytes_written};
  }
  return {};
}

std::size_t GpuReplay::Shape::operator()(const Kernel& k) const {
  std::size_t hash = static_cast<std::size_t>(k.kind);
  for (const std::int64_t value :
       {k.m, k.n, k.k, k.batch, k.heads, k.bytes_read, k.bytes_written}) {
    hash = hash * 1000003 + static_cast<std::size_t>(value);
  }
  return hash;
}

GpuReplay::GpuReplay(const Schedule& schedule, Durations durations, const GpuTables& tables)
    : schedule_(schedule),
      gpu_(*tables.gpu),
      kernels_(*tables.kernels),
      costs_(schedule, std::move(durations)),
      ranks_(static_cast<std::size_t>(schedule.mesh.world_size())) {}

GpuReplay::~GpuReplay() {
  try {
    for (const RankState& mine : ranks_) {
      if (mine.spare != nullptr) gpu_.release(mine.spare);
      if (mine.host != nullptr) gpu_.release_pinned(mine.host);
    }
  } catch (const GpuError&) {
    // The device is broken, and why has been said.
  }
}

void GpuReplay::start(int rank, std::byte* const*, GpuStream* stream) {
  RankState& mine = ranks_[static_cast<std::size_t>(rank)];
  // Of a memory-bound kernel: beyond a few times the L2 cache it is all the same.
  constexpr Bytes enough = 2 * gib;
  GpuKernels::Room room;
  for (const Kernel& kernel : schedule_.kernels) {
    const GpuKernels::Room needs = GpuKernels::room_of(kernel);
    const Bytes most =
        kernel.kind == KernelKind::memory ? enough : std::numeric_limits<Bytes>::max();
    room.read = std::max(room.read, std::min(needs.read, most));
    room.written = std::max(room.written, std::min(needs.written, most));
  }
  kernels_.room(room);
  for (const Kernel& kernel : schedule_.kernels) {
    if (mine.kernels.find(kernel) != mine.kernels.end()) continue;
    GpuKernel* prepared = kernels_.prepare(kernel);
    mine.kernels.emplace(kernel, prepared);
    kernels_.launch(prepared, stream);  // the first launch of anything takes longer
    const std::lock_guard<std::mutex> lock(mutex_);
    labels_.insert(fmt::format("{}: {}", kind_of(kernel.kind), kernels_.label(prepared)));
  }
  const Bytes largest = largest_tensor(schedule_);
  if (largest > 0) {
    mine.spare = gpu_.allocate(2 * largest);
    gpu_.fill(stream, mine.spare, 0, 2 * largest);
  }
  mine.host = gpu_.allocate_pinned(longest_copy);
  gpu_.synchronize(stream);
}

void GpuReplay::run(const OpContext& c, GpuStream* stream) {
  RankState& mine = ranks_[static_cast<std::size_t>(c.rank)];
  const Op& op = *c.op;
  if (op.kind == OpKind::storage) return;  // its time is the lane's
  if (op.kind == OpKind::compute) {
    for (const Kernel& kernel : schedule_.at_kernels(op.kernels)) {
      kernels_.launch(mine.kernels.at(kernel), stream);
    }
    return;
  }
  const auto reads = schedule_.at_views(op.reads);
  const auto writes = schedule_.at_views(op.writes);
  const bool from_host = op.copy == CopyKind::host_to_device;
  const bool to_host = op.copy == CopyKind::device_to_host;
  Bytes left = op.bytes;
  // The bytes of the copy, as far as the views have room; what is over goes round again.
  while (left > 0) {
    Bytes piece = from_host || to_host ? std::min(left, longest_copy) : left;
    std::byte* from = mine.host;
    std::byte* to = mine.host;
    if (!from_host && !reads.empty()) {
      from = c.memory[0] + reads[0].offset;
      piece = std::min(piece, reads[0].bytes);
    }
    if (!to_host && !writes.empty()) {
      to = c.memory[op.reads.count] + writes[0].offset;
      piece = std::min(piece, writes[0].bytes);
    }
    if (piece <= 0) return;
    gpu_.copy(stream, to, from, piece);
    left -= piece;
  }
}

// As the views say, where they hold the whole tensor; NCCL's places for working in place.
Operands GpuReplay::operands(const OpContext& c, GpuStream*) {
  const Op& op = *c.op;
  const Axis axis = schedule_.communicators[static_cast<std::size_t>(op.comm)].axis;
  const int ranks = schedule_.mesh.size(axis);
  const int index = index_in_group(schedule_.mesh, axis, c.rank);
  const Bytes whole = bytes_of(op);
  const Bytes part = whole / ranks;
  Bytes sends = whole;
  Bytes receives = whole;
  if (op.collective == CollectiveKind::all_gather || op.collective == CollectiveKind::gather) {
    sends = part;
  }
  if (op.collective == CollectiveKind::reduce_scatter || op.collective == CollectiveKind::scatter) {
    receives = part;
  }
  const auto reads = schedule_.at_views(op.reads);
  const auto writes = schedule_.at_views(op.writes);
  std::byte* spare = ranks_[static_cast<std::size_t>(c.rank)].spare;
  const bool in_place = !reads.empty() && !writes.empty() && reads[0].buffer == writes[0].buffer;
  std::byte* to = spare;
  if (!writes.empty() && writes[0].bytes >= receives) {
    to = c.memory[op.reads.count] + writes[0].offset;
  }
  const std::byte* from = spare + whole;
  if (!reads.empty() && reads[0].bytes >= sends) from = c.memory[0] + reads[0].offset;
  if (in_place && op.collective == CollectiveKind::all_gather) from = to + index * part;
  if (in_place && op.collective == CollectiveKind::reduce_scatter) {
    to = const_cast<std::byte*>(from) + index * part;
  }
  return {from, to};
}

Seconds GpuReplay::host_duration(const OpContext& c) const {
  // A storage op's own time is its lane's.
  return c.op->kind == OpKind::storage ? costs_.duration(c) : costs_.host_duration(c);
}

std::vector<std::string> GpuReplay::labels() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {labels_.begin(), labels_.end()};
}

}  // namespace stepcast::runtime

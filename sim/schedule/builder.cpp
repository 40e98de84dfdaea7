#include "sim/schedule/builder.hpp"

#include <utility>

#include "base/error.hpp"

namespace stepcast {
namespace {

template <typename Index, typename List>
Index index_of_last(const List& list) {
  return static_cast<Index>(list.size() - 1);
}

}  // namespace

ScheduleBuilder::ScheduleBuilder(std::string name, Mesh mesh) {
  schedule_.name = std::move(name);
  schedule_.mesh = mesh;
}

LaneIndex ScheduleBuilder::lane(Name name, Name lock, int sharers) {
  for (std::size_t i = 0; i < schedule_.lanes.size(); ++i) {
    if (schedule_.lanes[i].name == name) return static_cast<LaneIndex>(i);
  }
  schedule_.lanes.push_back({name, lock, sharers});
  return index_of_last<LaneIndex>(schedule_.lanes);
}

StreamIndex ScheduleBuilder::stream(Name name, int priority) {
  for (std::size_t i = 0; i < schedule_.streams.size(); ++i) {
    if (schedule_.streams[i].name == name) return static_cast<StreamIndex>(i);
  }
  schedule_.streams.push_back({name, priority});
  return index_of_last<StreamIndex>(schedule_.streams);
}

CommIndex ScheduleBuilder::communicator(Name name, Axis axis) {
  for (std::size_t i = 0; i < schedule_.communicators.size(); ++i) {
    if (schedule_.communicators[i].name == name) return static_cast<CommIndex>(i);
  }
  schedule_.communicators.push_back({name, axis});
  return index_of_last<CommIndex>(schedule_.communicators);
}

UnitIndex ScheduleBuilder::unit(Name name) {
  for (std::size_t i = schedule_.units.size(); i-- > 0;) {
    if (schedule_.units[i] == name) return static_cast<UnitIndex>(i);
  }
  schedule_.units.push_back(name);
  return index_of_last<UnitIndex>(schedule_.units);
}

BufferIndex ScheduleBuilder::persistent(Name name, BufferKind kind, Dtype dtype, Bytes bytes) {
  const BufferIndex index = buffer(name, kind, dtype, bytes, 0);
  schedule_.buffers.back().persistent = true;
  return index;
}

BufferIndex ScheduleBuilder::buffer(Name name, BufferKind kind, Dtype dtype, Bytes bytes,
                                    StreamIndex pool) {
  STEPCAST_ASSERT(bytes >= 0, "a buffer of negative size: " + name.str());
  Buffer buffer;
  buffer.name = name;
  buffer.kind = kind;
  buffer.dtype = dtype;
  buffer.bytes = bytes;
  buffer.pool = pool;
  schedule_.buffers.push_back(buffer);
  return index_of_last<BufferIndex>(schedule_.buffers);
}

BufferIndex ScheduleBuilder::view_of(Name name, BufferIndex whole, Bytes offset, Bytes bytes) {
  Buffer view = schedule_.buffers[static_cast<std::size_t>(whole)];
  STEPCAST_ASSERT(offset >= 0 && offset + bytes <= view.bytes, "a view beyond its buffer");
  view.name = name;
  view.bytes = bytes;
  view.view_of = whole;
  view.view_offset = offset;
  schedule_.buffers.push_back(view);
  return index_of_last<BufferIndex>(schedule_.buffers);
}

Range ScheduleBuilder::kernels(std::span<const Kernel> list) {
  const Range range{static_cast<std::int32_t>(schedule_.kernels.size()),
                    static_cast<std::int32_t>(list.size())};
  schedule_.kernels.insert(schedule_.kernels.end(), list.begin(), list.end());
  return range;
}

void ScheduleBuilder::layout(BufferIndex buffer, Cut cut, Axis axis, std::int64_t part,
                             std::span<const Placed> placed) {
  const Range range{static_cast<std::int32_t>(schedule_.placed.size()),
                    static_cast<std::int32_t>(placed.size())};
  schedule_.placed.insert(schedule_.placed.end(), placed.begin(), placed.end());
  schedule_.layouts.push_back({buffer, cut, axis, part, range});
}

void ScheduleBuilder::note(std::string text) { schedule_.notes.push_back(std::move(text)); }

void ScheduleBuilder::role(Name name, int first_rank, int rank_count, int rank_stride) {
  Role role;
  role.name = name;
  role.first_rank = first_rank;
  role.rank_count = rank_count;
  role.rank_stride = rank_stride;
  schedule_.roles.push_back(std::move(role));
}

void ScheduleBuilder::step(Name name) {
  STEPCAST_ASSERT(!schedule_.roles.empty(), "a step needs a role");
  schedule_.roles.back().steps.push_back({name, {}});
  at(Phase::setup);
}

void ScheduleBuilder::at(Phase phase, UnitIndex unit, int micro_batch) {
  phase_ = phase;
  unit_ = unit;
  micro_batch_ = micro_batch;
  rule_ = Name();
}

View ScheduleBuilder::whole(BufferIndex buffer) const {
  return {buffer, 0, schedule_.buffers[static_cast<std::size_t>(buffer)].bytes};
}

Op& ScheduleBuilder::append(OpKind kind, Name verb) {
  STEPCAST_ASSERT(!schedule_.roles.empty() && !schedule_.roles.back().steps.empty(),
                  "an op needs a step");
  Op& op = schedule_.roles.back().steps.back().ops.emplace_back();
  op.kind = kind;
  op.verb = verb;
  op.phase = phase_;
  op.unit = unit_;
  op.micro_batch = static_cast<std::int16_t>(micro_batch_);
  op.lane = lane_;
  op.rule = rule_;
  return op;
}

OpIndex ScheduleBuilder::last() const {
  return static_cast<OpIndex>(schedule_.roles.back().steps.back().ops.size()) - 1;
}

Range ScheduleBuilder::add_views(std::span<const View> views) {
  const Range range{static_cast<std::int32_t>(schedule_.views.size()),
                    static_cast<std::int32_t>(views.size())};
  schedule_.views.insert(schedule_.views.end(), views.begin(), views.end());
  return range;
}

Range ScheduleBuilder::add_refs(std::span<const OpRef> refs) {
  const Range range{static_cast<std::int32_t>(schedule_.refs.size()),
                    static_cast<std::int32_t>(refs.size())};
  schedule_.refs.insert(schedule_.refs.end(), refs.begin(), refs.end());
  return range;
}

OpIndex ScheduleBuilder::compute(Name verb, StreamIndex stream, Range kernels,
                                 std::span<const View> reads, std::span<const View> writes) {
  int launches = 0;
  for (const Kernel& kernel : schedule_.at_kernels(kernels)) launches += kernel.launches;
  Op& op = append(OpKind::compute, verb);
  op.stream = stream;
  op.kernels = kernels;
  op.launches = launches;
  op.reads = add_views(reads);
  op.writes = add_views(writes);
  return last();
}

OpIndex ScheduleBuilder::one_kernel(Name verb, StreamIndex stream, const Kernel& kernel,
                                    std::span<const View> reads, std::span<const View> writes) {
  return compute(verb, stream, kernels(std::span<const Kernel>(&kernel, 1)), reads, writes);
}

OpIndex ScheduleBuilder::collective(Name verb, CollectiveKind kind, CommIndex comm,
                                    StreamIndex stream, Dtype dtype, std::int64_t elements,
                                    Reduction reduction, std::span<const View> reads,
                                    std::span<const View> writes, int root) {
  Op& op = append(OpKind::collective, verb);
  op.stream = stream;
  op.collective = kind;
  op.comm = comm;
  op.dtype = dtype;
  op.elements = elements;
  op.reduction = reduction;
  op.root = root;
  op.reads = add_views(reads);
  op.writes = add_views(writes);
  return last();
}

OpIndex ScheduleBuilder::copy(Name verb, CopyKind kind, StreamIndex stream, Bytes bytes,
                              std::span<const View> reads, std::span<const View> writes) {
  Op& op = append(OpKind::copy, verb);
  op.stream = stream;
  op.copy = kind;
  op.bytes = bytes;
  op.reads = add_views(reads);
  op.writes = add_views(writes);
  return last();
}

OpIndex ScheduleBuilder::storage(Name verb, Bytes bytes, std::span<const View> reads,
                                 std::span<const View> writes) {
  Op& op = append(OpKind::storage, verb);
  op.launches = 0;
  op.bytes = bytes;
  op.reads = add_views(reads);
  op.writes = add_views(writes);
  return last();
}

OpIndex ScheduleBuilder::stream_wait(StreamIndex stream, std::span<const OpRef> awaited) {
  static const Name wait("wait");
  Op& op = append(OpKind::stream_wait, wait);
  op.stream = stream;
  op.launches = 0;
  op.waits = add_refs(awaited);
  return last();
}

OpIndex ScheduleBuilder::stream_wait(StreamIndex stream, OpIndex awaited) {
  const OpRef ref{awaited, 0};
  return stream_wait(stream, std::span<const OpRef>(&ref, 1));
}

OpIndex ScheduleBuilder::host_work(Name cost, int count) {
  Op& op = append(OpKind::host_work, cost);
  op.launches = 0;
  op.cost = cost;
  op.count = count;
  return last();
}

OpIndex ScheduleBuilder::host_wait(std::span<const OpRef> awaited) {
  static const Name host_wait("host_wait");
  Op& op = append(OpKind::host_wait, host_wait);
  op.launches = 0;
  op.waits = add_refs(awaited);
  return last();
}

OpIndex ScheduleBuilder::host_wait_stream(StreamIndex stream) {
  const OpIndex index = host_wait({});
  Op& op = schedule_.roles.back().steps.back().ops.back();
  op.wait_target = WaitTarget::stream;
  op.wait_stream = stream;
  return index;
}

OpIndex ScheduleBuilder::host_wait_device() {
  const OpIndex index = host_wait({});
  schedule_.roles.back().steps.back().ops.back().wait_target = WaitTarget::device;
  return index;
}

OpIndex ScheduleBuilder::alloc(BufferIndex buffer) {
  static const Name alloc("alloc");
  Op& op = append(OpKind::alloc, alloc);
  op.launches = 0;
  op.buffer = buffer;
  return last();
}

OpIndex ScheduleBuilder::free(BufferIndex buffer) {
  static const Name free("free");
  Op& op = append(OpKind::free, free);
  op.launches = 0;
  op.buffer = buffer;
  return last();
}

OpIndex ScheduleBuilder::free_after_streams(BufferIndex buffer,
                                            std::span<const StreamIndex> streams) {
  const OpIndex index = free(buffer);
  Op& op = schedule_.roles.back().steps.back().ops.back();
  op.free_rule = FreeRule::after_streams;
  op.free_streams = {static_cast<std::int32_t>(schedule_.stream_lists.size()),
                     static_cast<std::int32_t>(streams.size())};
  schedule_.stream_lists.insert(schedule_.stream_lists.end(), streams.begin(), streams.end());
  return index;
}

OpIndex ScheduleBuilder::free_after(BufferIndex buffer, OpRef awaited) {
  const OpIndex index = free(buffer);
  Op& op = schedule_.roles.back().steps.back().ops.back();
  op.free_rule = FreeRule::after_op;
  op.waits = add_refs(std::span<const OpRef>(&awaited, 1));
  return index;
}

OpIndex ScheduleBuilder::find(Phase phase, Name verb, UnitIndex unit, int micro_batch) const {
  const std::vector<Op>& ops = schedule_.roles.back().steps.back().ops;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].phase == phase && ops[i].verb == verb && ops[i].unit == unit &&
        ops[i].micro_batch == micro_batch) {
      return static_cast<OpIndex>(i);
    }
  }
  return -1;
}

void ScheduleBuilder::set_ref(std::int32_t index, OpRef ref) {
  schedule_.refs[static_cast<std::size_t>(index)] = ref;
}

void ScheduleBuilder::drop_first_step() {
  std::vector<StepProgram>& steps = schedule_.roles.back().steps;
  steps.erase(steps.begin());
}

Schedule ScheduleBuilder::take() { return std::exchange(schedule_, Schedule{}); }

}  // namespace stepcast

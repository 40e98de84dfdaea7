#pragma once
// Writes a Schedule op by op in host issue order: the vocabulary of the strategies.
//
//   ScheduleBuilder b("ddp", Mesh{8, 1});
//   auto compute = b.stream("compute");
//   auto world = b.communicator("world", Axis::world);
//   b.role("all", 0, 8);
//   b.step("steady");
//   b.at(Phase::forward, b.unit("layers.0"));
//   OpIndex f = b.compute("compute", compute, kernels, {reads}, {writes});
//   b.stream_wait(compute, {f});
//
// Every call appends one op to the current step of the current role and returns its index there.

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace stepcast {

class ScheduleBuilder {
 public:
  ScheduleBuilder(std::string name, Mesh mesh);

  // ---- declarations (idempotent by name, except buffers)
  LaneIndex lane(Name name, Name lock = {}, int sharers = 1);
  StreamIndex stream(Name name, int priority = 0);
  CommIndex communicator(Name name, Axis axis);
  UnitIndex unit(Name name);
  BufferIndex persistent(Name name, BufferKind kind, Dtype dtype, Bytes bytes);
  // A buffer that lives between an alloc and a free op. Declares only; see alloc().
  BufferIndex buffer(Name name, BufferKind kind, Dtype dtype, Bytes bytes, StreamIndex pool);
  BufferIndex view_of(Name name, BufferIndex whole, Bytes offset, Bytes bytes);
  // Stores kernels once; the returned range may be used by any number of ops.
  Range kernels(std::span<const Kernel> list);
  // What lies in a buffer that was declared before (layout.hpp).
  void layout(BufferIndex buffer, Cut cut, Axis axis, std::int64_t part,
              std::span<const Placed> placed);
  void note(std::string text);

  // ---- where the next ops stand
  void role(Name name, int first_rank, int rank_count, int rank_stride = 1);
  void step(Name name);
  void on_lane(LaneIndex lane) { lane_ = lane; }
  void at(Phase phase, UnitIndex unit = -1, int micro_batch = 0);
  // The rule that the next ops stand for, until the next call of rule() or at().
  void rule(Name name) { rule_ = name; }

  // ---- ops
  View whole(BufferIndex buffer) const;
  OpIndex compute(Name verb, StreamIndex stream, Range kernels, std::span<const View> reads,
                  std::span<const View> writes);
  // A compute op of one kernel that no other op shares.
  OpIndex one_kernel(Name verb, StreamIndex stream, const Kernel& kernel,
                     std::span<const View> reads, std::span<const View> writes);
  OpIndex collective(Name verb, CollectiveKind kind, CommIndex comm, StreamIndex stream,
                     Dtype dtype, std::int64_t elements, Reduction reduction,
                     std::span<const View> reads, std::span<const View> writes, int root = -1);
  OpIndex copy(Name verb, CopyKind kind, StreamIndex stream, Bytes bytes,
               std::span<const View> reads, std::span<const View> writes);
  OpIndex storage(Name verb, Bytes bytes, std::span<const View> reads,
                  std::span<const View> writes);  // files, on the lane
  OpIndex stream_wait(StreamIndex stream, std::span<const OpRef> awaited);
  OpIndex stream_wait(StreamIndex stream, OpIndex awaited);
  OpIndex host_work(Name cost, int count);
  OpIndex host_wait(std::span<const OpRef> awaited);
  OpIndex host_wait_stream(StreamIndex stream);
  OpIndex host_wait_device();
  OpIndex alloc(BufferIndex buffer);
  OpIndex free(BufferIndex buffer);
  OpIndex free_after_streams(BufferIndex buffer, std::span<const StreamIndex> streams);
  OpIndex free_after(BufferIndex buffer, OpRef op);

  OpIndex last() const;  // index of the op appended last
  const Schedule& peek() const { return schedule_; }
  // An op of the current step.
  const Op& op(OpIndex index) const {
    return schedule_.roles.back().steps.back().ops[static_cast<std::size_t>(index)];
  }
  // The first op of the current step with this key, or -1.
  OpIndex find(Phase phase, Name verb, UnitIndex unit, int micro_batch) const;
  // A wait on the step before, known only once this step is complete: `index` into Schedule::refs.
  void set_ref(std::int32_t index, OpRef ref);
  // Forgets the first StepProgram of the current role: it was only walked for what it leaves
  // behind.
  void drop_first_step();
  Schedule take();  // the finished schedule; the builder is empty then

 private:
  Op& append(OpKind kind, Name verb);
  Range add_views(std::span<const View> views);
  Range add_refs(std::span<const OpRef> refs);

  Schedule schedule_;
  Phase phase_ = Phase::setup;
  UnitIndex unit_ = -1;
  int micro_batch_ = 0;
  LaneIndex lane_ = 0;
  Name rule_;
};

}  // namespace stepcast

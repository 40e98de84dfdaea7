#include "sim/strategies/hsdp/replicate.hpp"

#include "sim/strategies/common/view_list.hpp"

namespace stepcast::hsdp {

OpIndex replicate(ScheduleBuilder& builder, const TrainingStep& step, const fsdp2::Streams& streams,
                  const fsdp2::Unit& unit, OpIndex scattered, BufferIndex shard) {
  static const Name verb("all_reduce");
  static const Name rule("hsdp.all-reduce-on-its-own-communicator");
  builder.rule(rule);
  builder.stream_wait(streams.all_reduce, scattered);
  const View view = builder.whole(shard);
  return builder.collective(verb, CollectiveKind::all_reduce, streams.replicate, streams.all_reduce,
                            step.precision.reduce, unit.size.shard_elements(step.mesh.shard),
                            Reduction::avg, ViewList(view), ViewList(view));
}

}  // namespace stepcast::hsdp

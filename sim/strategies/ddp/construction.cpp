#include "sim/strategies/ddp/construction.hpp"

#include "sim/strategies/common/view_list.hpp"
#include "sim/strategies/ddp/broadcast_coalesced.hpp"

namespace stepcast::ddp {
namespace {

const Name verb_count("parameter_count");
const Name verb_shapes("shapes");
const Name verb_upload("upload");
const Name verb_download("download");
const Name rule_verify("ddp.constructor-compares-shapes");
const Name cost_construction("ddp_construction");

// A small int64 tensor of the host's is sent and read back.
void exchange(ScheduleBuilder& builder, Streams streams, Name verb, CollectiveKind kind,
              std::int64_t elements, std::int64_t own, const std::string& label) {
  const BufferIndex buffer = builder.buffer(verb.str() + label, BufferKind::other, Dtype::int64,
                                            8 * elements, streams.compute);
  builder.alloc(buffer);
  const View whole = builder.whole(buffer);
  const View mine{buffer, 0, 8 * own};
  const OpIndex up = builder.copy(verb_upload, CopyKind::host_to_device, streams.compute,
                                  mine.bytes, {}, ViewList(mine));
  builder.stream_wait(streams.nccl, up);
  const int root = kind == CollectiveKind::broadcast ? 0 : -1;
  const OpIndex sent =
      builder.collective(verb, kind, streams.world, streams.nccl, Dtype::int64, elements,
                         Reduction::none, ViewList(mine), ViewList(whole), root);
  builder.stream_wait(streams.compute, sent);
  const OpRef down{builder.copy(verb_download, CopyKind::device_to_host, streams.compute,
                                whole.bytes, ViewList(whole), {}),
                   0};
  builder.host_wait(std::span<const OpRef>(&down, 1));
  builder.free(buffer);
}

}  // namespace

void construct(ScheduleBuilder& builder, const TrainingStep& step, LayerWalk& walk, Streams streams,
               const std::vector<Tensor>& tensors, const std::vector<View>& views,
               const std::string& label) {
  builder.at(Phase::setup);
  builder.host_work(cost_construction, static_cast<int>(step.model.parameters.size()));
  builder.rule(rule_verify);
  exchange(builder, streams, verb_count, CollectiveKind::all_gather, step.mesh.world_size(), 1,
           label);
  std::int64_t sizes_and_strides = 0;
  for (const Parameter& parameter : step.model.parameters) {
    sizes_and_strides += 2 * static_cast<std::int64_t>(parameter.shape.size());
  }
  exchange(builder, streams, verb_shapes, CollectiveKind::broadcast, sizes_and_strides,
           sizes_and_strides, label);
  BroadcastCoalesced broadcast(builder, streams, "parameters" + label, tensors, views);
  broadcast.declare_layouts(step.model);
  broadcast.issue(walk);
}

}  // namespace stepcast::ddp

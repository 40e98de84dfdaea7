#include "sim/strategies/ddp/rebuild.hpp"

#include <fmt/format.h>

#include "sim/strategies/common/view_list.hpp"

namespace stepcast::ddp {
namespace {

const Name verb_rebuild("rebuild_broadcast");
const Name verb_upload("rebuild_upload");
const Name verb_download("rebuild_download");
const Name rule_rebuild("ddp.rebuild-in-second-forward");

}  // namespace

void rebuild_buckets(ScheduleBuilder& builder, const TrainingStep& step, Streams streams,
                     const std::string& label, Reducer& whole, Reducer& rebuilt) {
  builder.at(Phase::setup);
  builder.rule(rule_rebuild);
  const auto broadcast = [&](std::int64_t elements) {
    const BufferIndex buffer =
        builder.buffer(fmt::format("rebuild.{}{}", label, elements), BufferKind::other,
                       Dtype::int32, 4 * elements, streams.compute);
    builder.alloc(buffer);
    const View view = builder.whole(buffer);
    const OpIndex up = builder.copy(verb_upload, CopyKind::host_to_device, streams.compute,
                                    view.bytes, {}, ViewList(view));
    builder.stream_wait(streams.nccl, up);
    const OpIndex sent = builder.collective(verb_rebuild, CollectiveKind::broadcast, streams.world,
                                            streams.nccl, Dtype::int32, elements, Reduction::none,
                                            ViewList(view), ViewList(view), 0);
    builder.stream_wait(streams.compute, sent);
    const OpRef down{builder.copy(verb_download, CopyKind::device_to_host, streams.compute,
                                  view.bytes, ViewList(view), {}),
                     0};
    builder.host_wait(std::span<const OpRef>(&down, 1));
    builder.free(buffer);
  };
  broadcast(static_cast<std::int64_t>(step.model.parameters.size()) + 1);
  broadcast(static_cast<std::int64_t>(rebuilt.buckets().size()));
  whole.free_buckets();
  rebuilt.alloc_buckets();
  rebuilt.take_over(whole);
}

}  // namespace stepcast::ddp

#include "sim/strategies/ddp/join.hpp"

#include "sim/strategies/common/layouts.hpp"
#include "sim/strategies/common/view_list.hpp"
#include "sim/strategies/ddp/buffer_sync.hpp"
#include "sim/strategies/ddp/reducer.hpp"

namespace stepcast::ddp {
namespace {

const Name verb_fill("join_fill");
const Name verb_count("join_count");
const Name verb_sync("join_sync");
const Name verb_source("join_source");
const Name verb_download("join_download");
const Name verb_zeros("join_zeros");
const Name rule_notice("ddp.join-counts-ranks-at-work");
const Name rule_shadow("ddp.joined-ranks-reduce-zeros");
const Name rule_divide("ddp.join-divides-by-ranks-at-work");
const Name cost_join("ddp_join");

constexpr Bytes number_bytes = 4;  // torch.ones(1), fp32

}  // namespace

JoinNotice::JoinNotice(ScheduleBuilder& builder, const std::string& label, Streams streams)
    : builder_(builder),
      streams_(streams),
      count_(builder.buffer("join_count" + label, BufferKind::other, Dtype::fp32, number_bytes,
                            streams.compute)),
      sync_(builder.buffer("join_sync" + label, BufferKind::other, Dtype::fp32, number_bytes,
                           streams.compute)),
      source_(builder.buffer("join_source" + label, BufferKind::other, Dtype::int64,
                             2 * number_bytes, streams.compute)) {}

OpIndex JoinNotice::number(Name verb, BufferIndex buffer, Reduction reduction, LayerWalk& walk) {
  const View view = builder_.whole(buffer);
  const Dtype dtype = builder_.peek().buffers[static_cast<std::size_t>(buffer)].dtype;
  builder_.rule(rule_notice);
  builder_.alloc(buffer);
  walk.ran_on_compute(builder_.one_kernel(verb_fill, streams_.compute,
                                          memory_bound(verb_fill, dtype, 0, view.bytes), {},
                                          ViewList(view)));
  builder_.stream_wait(streams_.nccl, walk.last_compute());
  return builder_.collective(verb, CollectiveKind::all_reduce, streams_.world, streams_.nccl, dtype,
                             1, reduction, ViewList(view), ViewList(view));
}

void JoinNotice::notify(LayerWalk& walk, int micro_batch) {
  builder_.at(Phase::forward, -1, micro_batch);
  builder_.host_work(cost_join, 1);
  counted_ = number(verb_count, count_, Reduction::sum, walk);
}

void JoinNotice::will_sync(LayerWalk& walk, int micro_batch) {
  builder_.at(Phase::forward, -1, micro_batch);
  const StreamIndex users[] = {streams_.nccl};
  number(verb_sync, sync_, Reduction::sum, walk);
  builder_.free_after_streams(sync_, users);
  builder_.free_after_streams(count_, users);
}

void JoinNotice::await_count() {
  builder_.rule(rule_divide);
  builder_.stream_wait(streams_.compute, counted_);
  const OpRef ref{counted_, 0};
  builder_.host_wait(std::span<const OpRef>(&ref, 1));
}

void JoinNotice::read(OpIndex reduced, BufferIndex buffer, LayerWalk& walk) {
  builder_.stream_wait(streams_.compute, reduced);
  const OpRef down{
      builder_.copy(verb_download, CopyKind::device_to_host, streams_.compute,
                    builder_.whole(buffer).bytes, ViewList(builder_.whole(buffer)), {}),
      0};
  walk.ran_on_compute(down.op);
  builder_.host_wait(std::span<const OpRef>(&down, 1));
  builder_.free(buffer);
}

void JoinNotice::choose_source(LayerWalk& walk) {
  read(number(verb_source, source_, Reduction::max, walk), source_, walk);
}

void JoinNotice::shadow_count(LayerWalk& walk, int micro_batch) {
  builder_.at(Phase::forward, -1, micro_batch);
  builder_.host_work(cost_join, 1);
  read(number(verb_count, count_, Reduction::sum, walk), count_, walk);
}

void JoinNotice::shadow_sync(LayerWalk& walk) {
  read(number(verb_sync, sync_, Reduction::sum, walk), sync_, walk);
}

JoinedRank::JoinedRank(const HookPlace& place, const std::vector<Bucket>& buckets, CommHook hook,
                       std::vector<View> held, UsedMap* used_map, BroadcastCoalesced* buffers,
                       int source)
    : place_(place),
      notice_(place.builder, "." + place.label + "shadow", place.streams),
      reduction_(make_reduction(hook, place, buckets)),
      held_(std::move(held)),
      used_map_(used_map),
      module_buffers_(buffers),
      source_(source) {
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    zeros_.push_back(place.builder.buffer("zeros." + place.label + std::to_string(b),
                                          BufferKind::bucket, place.step.precision.reduce,
                                          buckets[b].bytes, place.streams.compute));
    whole_layout(place.builder, zeros_.back(),
                 one_after_another(place.step.model, buckets[b].tensors));
  }
}

void JoinedRank::iteration(LayerWalk& walk, int micro_batch) {
  ScheduleBuilder& builder = place_.builder;
  notice_.shadow_count(walk, micro_batch);
  if (syncs_buffers(place_.step, micro_batch)) {
    notice_.choose_source(walk);
    module_buffers_->issue(walk, source_);
  }
  notice_.shadow_sync(walk);
  if (!reduces(place_.step, micro_batch)) return;
  builder.at(Phase::backward, -1, micro_batch);
  builder.rule(rule_shadow);
  Bytes bytes = 0;
  std::vector<View> zeros;
  for (const BufferIndex buffer : zeros_) {
    builder.alloc(buffer);
    zeros.push_back(builder.whole(buffer));
    bytes += zeros.back().bytes;
  }
  // zeros_like of every bucket. It reads nothing; the views say what the rank holds meanwhile, as a
  // buffer belongs to the roles that name it.
  const Kernel fill = memory_bound(verb_zeros, place_.step.precision.reduce, 0, bytes,
                                   static_cast<int>(zeros.size()));
  walk.ran_on_compute(builder.one_kernel(verb_zeros, place_.streams.compute, fill, held_, zeros));
  std::vector<OpIndex> reduced;
  for (std::size_t b = 0; b < zeros_.size(); ++b) {
    builder.at(Phase::backward, builder.unit("bucket" + std::to_string(b)), micro_batch);
    reduced.push_back(reduction_->launch(static_cast<int>(b), zeros_[b], walk));
  }
  for (const OpIndex op : reduced) builder.stream_wait(place_.streams.compute, op);
  builder.at(Phase::backward, -1, micro_batch);
  builder.rule(rule_shadow);
  for (const BufferIndex buffer : zeros_) builder.free(buffer);
  if (used_map_ != nullptr) used_map_->reduce_zeros(walk);
}

}  // namespace stepcast::ddp

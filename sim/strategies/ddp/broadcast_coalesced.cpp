#include "sim/strategies/ddp/broadcast_coalesced.hpp"

#include <algorithm>
#include <numeric>

#include "sim/strategies/common/layouts.hpp"
#include "sim/strategies/common/view_list.hpp"

namespace stepcast::ddp {
namespace {

const Name verb_flatten("flatten");
const Name verb_broadcast("broadcast");
const Name verb_unflatten("unflatten");
const Name rule_in_flight("ddp.two-broadcasts-in-flight");

constexpr std::size_t most_in_flight = 2;

}  // namespace

BroadcastCoalesced::BroadcastCoalesced(ScheduleBuilder& builder, Streams streams,
                                       const std::string& what, std::vector<Tensor> tensors,
                                       std::vector<View> views)
    : builder_(builder), streams_(streams), views_(std::move(views)) {
  std::vector<int> order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  buckets_ = assign(tensors, order, {broadcast_bucket});
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    flat_.push_back(builder.buffer("flat_" + what + "." + std::to_string(b), BufferKind::other,
                                   buckets_[b].dtype, buckets_[b].bytes, streams.compute));
  }
}

void BroadcastCoalesced::declare_layouts(const Model& model) {
  const auto parameters = static_cast<int>(model.parameters.size());
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const std::vector<int>& tensors = buckets_[b].tensors;
    const bool all = std::all_of(tensors.begin(), tensors.end(),
                                 [&](int tensor) { return tensor < parameters; });
    if (all) whole_layout(builder_, flat_[b], one_after_another(model, tensors));
  }
}

std::vector<View> BroadcastCoalesced::views_of(std::size_t bucket) const {
  std::vector<View> views;
  for (const int tensor : buckets_[bucket].tensors) {
    views.push_back(views_[static_cast<std::size_t>(tensor)]);
  }
  return views;
}

OpIndex BroadcastCoalesced::send(std::size_t bucket, int root, LayerWalk& walk) {
  const Bucket& b = buckets_[bucket];
  const View flat = builder_.whole(flat_[bucket]);
  builder_.alloc(flat_[bucket]);
  walk.ran_on_compute(builder_.one_kernel(verb_flatten, streams_.compute,
                                          memory_bound(verb_flatten, b.dtype, b.bytes, b.bytes),
                                          views_of(bucket), ViewList(flat)));
  builder_.stream_wait(streams_.nccl, walk.last_compute());
  return builder_.collective(verb_broadcast, CollectiveKind::broadcast, streams_.world,
                             streams_.nccl, b.dtype, b.bytes / bytes_per_element(b.dtype),
                             Reduction::none, ViewList(flat), ViewList(flat), root);
}

void BroadcastCoalesced::finish(std::size_t bucket, OpIndex sent, LayerWalk& walk) {
  const Bucket& b = buckets_[bucket];
  builder_.stream_wait(streams_.compute, sent);
  walk.ran_on_compute(builder_.one_kernel(
      verb_unflatten, streams_.compute,
      memory_bound(verb_unflatten, b.dtype, b.bytes, b.bytes, static_cast<int>(b.tensors.size())),
      ViewList(builder_.whole(flat_[bucket])), views_of(bucket)));
  builder_.free(flat_[bucket]);
}

void BroadcastCoalesced::issue(LayerWalk& walk, int root) {
  builder_.rule(rule_in_flight);
  std::vector<OpIndex> sent;
  std::size_t finished = 0;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    sent.push_back(send(b, root, walk));
    while (sent.size() - finished >= most_in_flight) {
      finish(finished, sent[finished], walk);
      ++finished;
    }
  }
  for (; finished < sent.size(); ++finished) finish(finished, sent[finished], walk);
}

}  // namespace stepcast::ddp

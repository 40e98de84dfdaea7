#include "sim/strategies/ddp/used_map.hpp"

#include "sim/strategies/common/view_list.hpp"

namespace stepcast::ddp {
namespace {

const Name verb_upload("used_map_upload");
const Name verb_download("used_map_download");
const Name verb_zero("used_map_zero");
const Name verb_reduce("used_map");
const Name rule_walk("ddp.find-unused-walks-the-graph");
const Name rule_map("ddp.used-map-after-last-bucket");
const Name rule_read("ddp.unused-parameter-reads-the-map");
const Name cost_node("ddp_graph_node");

}  // namespace

int graph_nodes(const Model& model, const LayerWalk& walk) {
  int nodes = static_cast<int>(model.parameters.size());
  for (int layer = 0; layer < walk.layers(); ++layer) {
    nodes += static_cast<int>(walk.work(layer).backward.size());
  }
  return nodes;
}

UsedMap::UsedMap(ScheduleBuilder& builder, std::int64_t parameters, const std::string& label,
                 Streams streams)
    : builder_(builder),
      parameters_(parameters),
      streams_(streams),
      map_(builder.persistent("used_map" + label, BufferKind::other, Dtype::int32,
                              4 * parameters)) {}

void UsedMap::walk_graph(int nodes, int micro_batch) {
  builder_.at(Phase::forward, -1, micro_batch);
  builder_.rule(rule_walk);
  builder_.host_work(cost_node, nodes);
}

void UsedMap::all_reduce(OpIndex after) {
  const View view = builder_.whole(map_);
  builder_.stream_wait(streams_.nccl, after);
  reduced_ = builder_.collective(verb_reduce, CollectiveKind::all_reduce, streams_.world,
                                 streams_.nccl, Dtype::int32, parameters_, Reduction::sum,
                                 ViewList(view), ViewList(view));
}

void UsedMap::reduce(LayerWalk& walk, int micro_batch) {
  builder_.at(Phase::backward, -1, micro_batch);
  builder_.rule(rule_map);
  const View view = builder_.whole(map_);
  walk.ran_on_compute(builder_.copy(verb_upload, CopyKind::host_to_device, streams_.compute,
                                    view.bytes, {}, ViewList(view)));
  all_reduce(walk.last_compute());
}

void UsedMap::reduce_zeros(LayerWalk& walk) {
  builder_.rule(rule_map);
  const View view = builder_.whole(map_);
  walk.ran_on_compute(builder_.one_kernel(verb_zero, streams_.compute,
                                          memory_bound(verb_zero, Dtype::int32, 0, view.bytes), {},
                                          ViewList(view)));
  all_reduce(walk.last_compute());
  wait();
}

void UsedMap::read(LayerWalk& walk) {
  builder_.rule(rule_read);
  wait();
  const View view = builder_.whole(map_);
  const OpIndex down = builder_.copy(verb_download, CopyKind::device_to_host, streams_.compute,
                                     view.bytes, ViewList(view), {});
  walk.ran_on_compute(down);
  const OpRef awaited{down, 0};
  builder_.host_wait(std::span<const OpRef>(&awaited, 1));
}

void UsedMap::wait() { builder_.stream_wait(streams_.compute, reduced_); }

}  // namespace stepcast::ddp

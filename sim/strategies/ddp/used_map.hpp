#pragma once
// find_unused_parameters: which parameters somebody used, counted on the device.
//
//   forward    after it the host walks the autograd graph from the outputs, to find the parameters
//              that no gradient will reach: a cost a graph node, on the main thread
//   backward   behind the last bucket: the map (one int32 a parameter) is copied to the device
//              without blocking and all-reduced (SUM). GPT-2's 148 tensors: 592 bytes (E-28)
//   finalize   a rank that used all its parameters never looks at the sum: its compute stream waits
//              for it at the end. A rank with an unused one must know whether others used it, so
//              the compute stream waits and the host reads the map back, blocking.
// Source: PyTorch reducer.cpp, all_reduce_local_used_map and finalize_bucket_dense (docs/sources.md
// 1.2). Tested by tests/unit/strategies/ddp_unused_test.cpp.

#include <string>

#include "sim/schedule/builder.hpp"
#include "sim/strategies/common/layer_walk.hpp"
#include "sim/strategies/ddp/streams.hpp"

namespace stepcast::ddp {

// Nodes of the autograd graph: one a backward kernel and one a parameter (AccumulateGrad).
int graph_nodes(const Model& model, const LayerWalk& walk);

class UsedMap {
 public:
  UsedMap(ScheduleBuilder& builder, std::int64_t parameters, const std::string& label,
          Streams streams);

  // After forward, on the host.
  void walk_graph(int nodes, int micro_batch);
  void reduce(LayerWalk& walk, int micro_batch);
  // The collective alone: what a rank that has joined contributes is zeros.
  void reduce_zeros(LayerWalk& walk);
  // Either read() once where an unused parameter is met, or wait() at the end.
  void read(LayerWalk& walk);
  void wait();

 private:
  void all_reduce(OpIndex after);

  ScheduleBuilder& builder_;
  std::int64_t parameters_;
  Streams streams_;
  BufferIndex map_;
  OpIndex reduced_ = -1;
};

}  // namespace stepcast::ddp

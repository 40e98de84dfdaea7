#pragma once
// dist._broadcast_coalesced: many tensors from rank 0 in a few broadcasts.
//
// Tensors are put into buckets of 250 MiB by the rule of gradient buckets (buckets.hpp: one open
// bucket a dtype, closed by the tensor that reaches the limit). A bucket is flattened into a new
// tensor, broadcast, and copied back tensor by tensor. At most two broadcasts are in flight:
//
//   flatten 0, broadcast 0, flatten 1, broadcast 1, | wait 0, copy back 0, flatten 2, broadcast 2,
//   | wait 1, copy back 1, ... at the end the rest
//
// so two flat tensors of about 250 MiB are alive. DDP's constructor sends the parameters this way,
// and a forward its buffers. Source: PyTorch c10d/comm.cpp (docs/sources.md 1.2).
// Tested by tests/unit/strategies/ddp_first_steps_test.cpp.

#include <string>
#include <vector>

#include "sim/schedule/builder.hpp"
#include "sim/strategies/common/layer_walk.hpp"
#include "sim/strategies/ddp/buckets.hpp"
#include "sim/strategies/ddp/streams.hpp"

namespace stepcast::ddp {

inline constexpr Bytes broadcast_bucket = 250 * mib;

class BroadcastCoalesced {
 public:
  // `views[i]` is where tensor i lives. `what` names the flat buffers: "parameters".
  BroadcastCoalesced(ScheduleBuilder& builder, Streams streams, const std::string& what,
                     std::vector<Tensor> tensors, std::vector<View> views);

  // Appends the ops at the current phase, unit and micro-batch.
  void issue(LayerWalk& walk, int root = 0);
  std::size_t broadcasts() const { return buckets_.size(); }

  // The first tensors are the model's parameters, in order: what lies where in the flat buffers.
  void declare_layouts(const Model& model);

 private:
  OpIndex send(std::size_t bucket, int root, LayerWalk& walk);
  void finish(std::size_t bucket, OpIndex sent, LayerWalk& walk);
  std::vector<View> views_of(std::size_t bucket) const;

  ScheduleBuilder& builder_;
  Streams streams_;
  std::vector<View> views_;
  std::vector<Bucket> buckets_;
  std::vector<BufferIndex> flat_;  // by bucket
};

}  // namespace stepcast::ddp

#pragma once
// The gradients of each layer as backward produces them, before a unit's are reduced together: one
// tensor a layer, alive from its backward to the unit's post-backward. FSDP1 and FSDP2 share it.

#include <span>
#include <string>
#include <vector>

#include "sim/schedule/builder.hpp"
#include "sim/strategies/common/view_list.hpp"
#include "sim/strategies/strategy.hpp"

namespace stepcast {

class LayerGradients {
 public:
  LayerGradients(ScheduleBuilder& builder, const TrainingStep& step, StreamIndex pool,
                 const std::string& prefix = "gradients.");

  BufferIndex buffer(int layer) const { return buffers_[static_cast<std::size_t>(layer)]; }
  void alloc(int layer);
  ViewList of(int layer) const;  // empty for a layer without parameters
  ViewList of(std::span<const int> layers) const;
  void free(std::span<const int> layers);

 private:
  ScheduleBuilder& builder_;
  std::vector<BufferIndex> buffers_;  // by layer, -1 without parameters
};

}  // namespace stepcast

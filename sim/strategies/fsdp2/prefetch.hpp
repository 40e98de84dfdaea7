#pragma once
// Which unit FSDP2 gathers ahead of need, without being told to.
//
// Forward: none is issued ahead explicitly. The host runs ahead of the device, so the gather of the
// next unit is in the queue long before its compute; only when the host is late does it vanish.
// Backward: in pre-backward of a unit, after its own wait, the unit before it in the order in which
// forwards ended (the root last) is gathered. The root's pre-backward therefore gathers the last
// block before the head's backward runs:
//
//   issue order, units 0 1 2 and the root:  ... head | AG2 | B head | AG1 | B2 RS2 | AG0 | B1 RS1
//   ...
//
// Source: PyTorch _fsdp_param_group.py, _backward_prefetch (docs/sources.md 1.4).
// Tested by tests/unit/strategies/fsdp2_test.cpp (E-10).

#include <vector>

namespace stepcast::fsdp2 {

class BackwardPrefetch {
 public:
  void forward_begins() { order_.clear(); }
  void forward_ended(int unit) { order_.push_back(unit); }

  // The unit to gather in the pre-backward of `unit`, or -1.
  int target_of(int unit) const {
    for (std::size_t i = order_.size(); i-- > 0;) {
      if (order_[i] == unit) return i == 0 ? -1 : order_[i - 1];
    }
    return -1;
  }

 private:
  std::vector<int> order_;  // units by the end of their forward
};

}  // namespace stepcast::fsdp2

#pragma once
// Which units FSDP2 gathers ahead of need.
//
// Forward: without a list none is issued ahead. The host runs ahead of the device, so the gather of
// the next unit is in the queue long before its compute; only when the host is late does it vanish.
// Backward: in pre-backward of a unit, after its own wait, the unit before it in the order in which
// forwards ended (the root last) is gathered. The root's pre-backward therefore gathers the last
// block before the head's backward runs:
//
//   issue order, units 0 1 2 and the root:  ... head | AG2 | B head | AG1 | B2 RS2 | AG0 | B1 RS1
//
// set_modules_to_forward_prefetch and set_modules_to_backward_prefetch replace that by lists; here
// every unit lists the k that follow it in forward, or the k before it, nearest first. A list of
// two gathers two units ahead: one more flat output is alive. The root has no list. Three units
// with gathers of 5 (E-12 without lists: 50), two units in backward:
//
//   all_gather  ... AG2 16-21 | AG1 22-27 | AG0 27-32 | RS2 32-37 | RS1 37-42 |   ends at 49
//
// Source: PyTorch _fsdp_state.py, _fsdp_param_group.py (docs/sources.md 1.4).
// Tested by tests/unit/strategies/fsdp2_test.cpp (E-10), fsdp2_knobs_test.cpp.

#include <algorithm>
#include <utility>
#include <vector>

namespace stepcast::fsdp2 {

class Prefetch {
 public:
  // `order`: the units as forward enters them, the root left out.
  Prefetch(std::vector<int> order, int forward_units, int backward_units)
      : order_(std::move(order)), forward_units_(forward_units), backward_units_(backward_units) {}

  void forward_begins() { ended_.clear(); }
  void forward_ended(int unit) { ended_.push_back(unit); }

  // In the pre-forward of `unit`.
  std::vector<int> forward_targets(int unit) const {
    const auto at = std::find(order_.begin(), order_.end(), unit);
    std::vector<int> targets;
    for (int k = 1; k <= forward_units_ && order_.end() - at > k; ++k) targets.push_back(at[k]);
    return targets;
  }
  // In its pre-backward.
  std::vector<int> backward_targets(int unit) const {
    const auto at = std::find(order_.begin(), order_.end(), unit);
    if (backward_units_ == 0 || at == order_.end()) return implicit_target(unit);
    std::vector<int> targets;
    for (int k = 1; k <= backward_units_ && at - order_.begin() >= k; ++k) {
      targets.push_back(at[-k]);
    }
    return targets;
  }

 private:
  std::vector<int> implicit_target(int unit) const {
    for (std::size_t i = ended_.size(); i-- > 1;) {
      if (ended_[i] == unit) return {ended_[i - 1]};
    }
    return {};
  }

  std::vector<int> order_;
  std::vector<int> ended_;  // units by the end of their forward
  int forward_units_;
  int backward_units_;
};

}  // namespace stepcast::fsdp2

#pragma once
// Which unit FSDP1 gathers ahead of need.
//
//   BACKWARD_PRE   in pre-backward of a unit, after its own wait and before its kernels: the unit
//                  before it in the order in which forwards ended. The gather is then queued ahead
//                  of this unit's reduce-scatter on the one communicator they share.
//   BACKWARD_POST  in post-backward of a unit, before its reduce-scatter is issued
//   none           the gather is issued in its own pre-backward, behind the reduce-scatter of the
//                  unit above: both are exposed
//   forward_prefetch  in pre-forward of a unit, after its wait: the next unit in the order recorded
//                  in the first iteration. It helps only where the host is the bottleneck.
//
// Three units, gather 2, reduce-scatter 2: PRE and POST end at 36, none at 44 (E-11).
// Source: PyTorch _runtime_utils.py, _exec_order_utils.py (docs/sources.md 1.3).
// Tested by tests/unit/strategies/fsdp1_test.cpp.

#include <algorithm>
#include <vector>

namespace stepcast::fsdp1 {

// Unit orders: forward_order is that of pre-forwards (recorded in the first iteration),
// ended_order that of post-forwards.
class ExecutionOrder {
 public:
  void forward_begins() { ended_.clear(); }
  void pre_forward(int unit) {
    if (!recorded_) pre_forward_.push_back(unit);
  }
  void post_forward(int unit) { ended_.push_back(unit); }
  void iteration_ended() { recorded_ = true; }

  int next_forward(int unit) const {
    if (!recorded_) return -1;
    const auto at = std::find(pre_forward_.begin(), pre_forward_.end(), unit);
    return at == pre_forward_.end() || at + 1 == pre_forward_.end() ? -1 : *(at + 1);
  }
  int next_backward(int unit) const {
    const auto at = std::find(ended_.begin(), ended_.end(), unit);
    return at == ended_.end() || at == ended_.begin() ? -1 : *(at - 1);
  }

 private:
  std::vector<int> pre_forward_;
  std::vector<int> ended_;
  bool recorded_ = false;
};

}  // namespace stepcast::fsdp1

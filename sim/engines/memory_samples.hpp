#pragma once
// The memory samples of a timeline: allocated bytes of a role after each alloc and free, in program
// (host issue) order. Persistent buffers count from the start; views own nothing.
//
// A free counts where the host issues it, whatever its FreeRule: for record_stream frees
// (after_streams, after_op) this is the lower bound, the program's own accounting.
//
// With several roles a persistent buffer belongs to the roles that read or write it, and to all of
// them when none does. Internal to sim/engines. Tested by tests/unit/engines/memory_test.cpp.

#include "sim/engines/run_plan.hpp"

namespace stepcast {

class MemorySamples {
 public:
  MemorySamples(const RunPlan& plan, int role);

  // Appends the samples of the role's next step. host_times[i]: when the host had issued op i.
  void add_step(int step, const Seconds* host_times, std::vector<MemorySample>& samples);

 private:
  const RunPlan& plan_;
  int role_;
  Bytes allocated_ = 0;
};

}  // namespace stepcast

#pragma once
// Two traces of one step held against each other, usually a simulated one and a real one: which
// part of the step is longer, which collective, and where the two issue other collectives.
//
// Parts are those of trace_split.hpp, of the typical step of each. Collectives are compared kind by
// kind, in the order in which they ran: one communicator runs them in the order of issue, so there
// the order is the schedule's; how an all-gather and a reduce-scatter of two communicators
// interleave is timing. Where a trace says no sizes (older PyTorch, RCCL), kinds are counted only.
// Tested by tests/unit/interop/trace_test.cpp.

#include <string>
#include <vector>

#include "sim/interop/trace_summary.hpp"

namespace stepcast {

struct TraceComparison {
  struct Part {
    std::string name;  // "gemm", "exposed all_gather", "host", "idle"
    double a_us = 0, b_us = 0;
  };
  std::vector<Part> parts;  // largest difference first; add up to the steps
  double step_a_us = 0, step_b_us = 0;

  // Equal calls of both; where only one has them, the other's calls are 0.
  struct Collective {
    std::string kind, dtype;
    int ranks = 0;
    Bytes bytes = 0;
    int calls_a = 0, calls_b = 0;
    double mean_a_us = 0, mean_b_us = 0;
  };
  std::vector<Collective> collectives;  // by time in both, longest first
  bool sizes = true;                    // compared; else kinds only

  // A stretch of one kind's calls that is not the same.
  struct Difference {
    std::string kind;
    std::int64_t after = 0;  // calls of that kind that both have before it
    std::vector<TraceCall> only_a, only_b;
  };
  std::vector<Difference> differences;  // of the schedules; none: the same calls in the same order
  std::vector<std::string> uncompared;  // kinds with too many differing calls to be aligned
};

TraceComparison compare_traces(const TraceSummary& a, const TraceSummary& b);

}  // namespace stepcast

#pragma once
// What a profiler's trace says about its steps: where each step's time went, what was sent, what of
// it was not hidden. Read from PyTorch's traces and from stepcast's own (sim/report/trace.hpp), by
// the same rules, so that the two can be held against each other (trace_compare.hpp).
//
//   TraceSummary s = summary_of_trace("rank0.json.gz");
//   s.steps[s.typical].exposed_us
//
// A step is a ProfilerStep#N, of the host or, where only those are there, of the GPU; without such
// marks the whole trace is one. A kernel belongs to the step in which its host launched it
// (trace_marks.hpp). A step lasts from the end of the last kernel of the step
// before to the end of its own last kernel: that is the period at which steps follow each other,
// whatever the host's lead.
//
// The split of a step looks at the main stream, the one with the most time in kernels that are no
// collectives (trace_split.hpp). Besides stand the usual figures over all streams: how long any
// collective ran, and how much of that beside other kernels.
//
// The file is streamed (kineto.hpp); kept are some 60 bytes a kernel and 40 a launch.
// Tested by tests/unit/interop/trace_test.cpp and, on traces of simulated steps,
// tests/cli/trace_test.cpp.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "sim/interop/kernel_class.hpp"
#include "sim/interop/kineto.hpp"

namespace stepcast {

// One collective as one rank ran it. What a trace does not say is "" or 0.
struct TraceCall {
  std::string kind;     // "all_gather", "send_recv"; "unknown"
  std::string dtype;    // "bf16"
  int ranks = 0;        // of its group
  Bytes bytes = 0;      // nccl-tests' size
  double start_us = 0;  // from the beginning of its step
  double us = 0;        // waiting for other ranks included, as in a trace
};

struct TraceStep {
  std::string name;  // "ProfilerStep#12", "trace"
  double begin_us = 0, end_us = 0;
  // Of the main stream; the following add up to end - begin.
  std::array<double, kernel_classes> class_us = {};  // of KernelClass; collective: always 0
  std::map<std::string, double> exposed_by_kind_us;  // by TraceCall::kind, and "loader"
  double host_us = 0;                                // nothing was launched
  double idle_us = 0;                                // launched, and waiting for what is not seen
  // Of all streams.
  double collective_us = 0;  // any collective ran
  double hidden_us = 0;      // of it: another kernel ran, too
  std::int64_t kernels = 0;
  std::vector<TraceCall> calls;  // by start

  double length_us() const { return end_us - begin_us; }
  double compute_us() const;  // all classes
  double exposed_us() const;  // all kinds
};

struct TraceSummary {
  std::string file;
  KinetoInfo info;
  int device = 0;            // whose kernels were read ...
  std::vector<int> devices;  // ... of those that the trace has kernels of
  int main_stream = 0;
  std::vector<TraceStep> steps;  // by time
  std::size_t typical = 0;       // of median length among all but the first, the later of two
  struct Kernel {
    std::string name;
    std::int64_t calls = 0;
    double us = 0;
  };
  std::vector<Kernel> kernels;     // longest first, all steps together, at most 20
  std::vector<std::string> notes;  // what could not be read off this trace
};

struct TraceSummaryOptions {
  int device = -1;  // -1: the first that has kernels
};

// Throws InputError where the file cannot be read or has no kernels.
TraceSummary summary_of_trace(const std::string& file, const TraceSummaryOptions& options = {});
// The same of an open stream.
TraceSummary summary_of_trace(std::istream& in, const std::string& name,
                              const TraceSummaryOptions& options = {});

// Of several ranks of one job: how long each waited inside collectives for the last one, in the
// typical step; by summary. A rank that others wait for has the least. Empty where the ranks'
// collectives are not the same ones.
std::vector<double> waited_for_others_us(const std::vector<TraceSummary>& ranks);

}  // namespace stepcast

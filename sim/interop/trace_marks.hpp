#pragma once
// Which step of a trace a kernel belongs to. PyTorch's profiler marks a step twice:
//
//   user_annotation      the host within `with ProfilerStep#N`: a kernel belongs to the step in
//                        which its launch was called
//   gpu_user_annotation  a mark a stream, from the first of the step's kernels there to the last: a
//                        kernel belongs to the mark of its own stream in which it starts
//
//   stream 7    |#1 gemm      gemm|#2 gemm  |
//   stream 13          |#2 copy|               the next step's input, while step 1 computes
//
// The host's marks count where they are there. Traces without the host's side
// (ProfilerActivity.CUDA alone, or with the CPU's events filtered out) have the GPU's only, and
// where no kernel has its launch the GPU's say more. A stream without marks goes by the main
// stream's. Without any mark the whole trace is one step, "trace".
//
// Internal to trace_steps.cpp. Tested by tests/unit/interop/trace_test.cpp.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/interop/trace_events.hpp"

namespace stepcast {

class TraceMarks {
 public:
  // Of events that were joined for this device.
  TraceMarks(const TraceEvents& events, int device, int main_stream);

  std::size_t size() const { return steps_.size(); }
  const std::string& name(std::size_t step) const { return names_[step]; }
  // -1: none, before the first began or after the last had ended.
  std::int32_t step_of(const TraceSlice& slice) const;

 private:
  struct Span {
    double begin_us = 0, end_us = 0;
    std::int32_t step = 0;
  };

  void take_host(const TraceEvents& events);
  void take_gpu(std::vector<TraceMark> marks, int main_stream);

  std::vector<std::string> names_;  // of steps, by time
  std::vector<Span> steps_;         // by time; of the main stream where there is one
  std::map<std::int32_t, std::vector<Span>> streams_;  // the GPU's, by begin
  bool on_gpu_ = false;
  bool one_ = false;  // no mark: the whole trace
};

}  // namespace stepcast

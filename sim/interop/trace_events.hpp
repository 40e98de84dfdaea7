#pragma once
// The events of a trace that a summary needs, gathered as they come by: kernels and copies, their
// launches, what the host waited for, the marks of steps. About 90 bytes a kernel and 40 a launch.
//
//   TraceEvents events(file);
//   read_kineto(file, [&](const KinetoEvent& event) { events.take(event); });
//   events.join(device, out);   // each kernel has its launch, each collective what it moved
//
// Internal to trace_summary.cpp, trace_steps.cpp and trace_marks.cpp.

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/interop/trace_split.hpp"
#include "sim/interop/trace_summary.hpp"

namespace stepcast {

struct TraceCollective;

// A ProfilerStep, as the host or a stream has it.
struct TraceMark {
  double begin_us = 0, end_us = 0;
  std::string name;
  std::int64_t pid = 0;                  // of the host's
  std::int32_t device = 0, stream = -1;  // of a GPU's
};

class TraceEvents {
 public:
  struct Named {
    std::int64_t calls = 0;
    double us = 0;
    std::int32_t what = 0;
  };

  explicit TraceEvents(std::string file) : file_(std::move(file)) {}

  // Throws InputError for what is out of range or too much.
  void take(const KinetoEvent& event);

  // Leaves the kernels of one device (-1: the first) in the order of their start, with their
  // launches and calls. Throws InputError where there are none.
  void join(int device, TraceSummary& out);

  std::vector<TraceSlice> slices;
  std::vector<TraceCall> calls;             // of slices that are collectives, by TraceSlice::call
  std::vector<TraceMark> marks, gpu_marks;  // in the order of the file
  TraceHost host;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int32_t> threads;  // by pid and tid
  std::unordered_map<std::string, Named> names;                           // of kernels
  std::size_t unlaunched = 0;

 private:
  struct Launch {
    std::int64_t correlation = -1;
    std::int64_t external_id = -1;
    double begin_us = 0, end_us = 0;
    std::int32_t thread = -1;
  };

  void kernel(const KinetoEvent& event);
  void runtime(const KinetoEvent& event);
  void op(const KinetoEvent& event);
  std::int32_t thread_of(const KinetoEvent& event);
  void choose_device(int asked, TraceSummary& out);
  void join_launches();
  void order_host();

  std::string file_;
  std::vector<std::int64_t> correlations_, external_ids_;  // of slices, until they are joined
  std::vector<Launch> launches_;
  std::unordered_map<std::int64_t, TraceCall> call_of_id_;
};

// More kernels' names than this are not told apart.
inline constexpr std::size_t most_kernel_names = 20'000;

}  // namespace stepcast

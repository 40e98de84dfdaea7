// Traces, summed up and held against themselves: the parts of every step add up to it.

#include "sim/interop/trace_summary.hpp"

#include <cmath>
#include <sstream>

#include "sim/interop/trace_compare.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stepcast;
  return fuzz::run(data, size, [](const std::string& text) {
    std::istringstream in(text);
    const TraceSummary s = summary_of_trace(in, "fuzz");
    for (const TraceStep& step : s.steps) {
      const double parts = step.compute_us() + step.exposed_us() + step.host_us + step.idle_us;
      const double scale = std::abs(step.begin_us) + std::abs(step.end_us) + 1;
      if (!(std::abs(parts - step.length_us()) <= 1e-9 * scale)) std::abort();
    }
    compare_traces(s, s);
    waited_for_others_us({s, s});
  });
}

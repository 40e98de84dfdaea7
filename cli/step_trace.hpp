#pragma once
// What `simulate` writes for other tools to read: the step as PyTorch's profiler would have traced
// it, in one file or a rank a file, and as Chakra execution traces.

#include <string>
#include <vector>

#include "sim/forecast/forecast.hpp"
#include "sim/report/trace.hpp"

namespace CLI {
class App;
}

namespace stepcast::cli {

struct StepTrace {
  std::string file;    // --trace
  std::string ranks;   // --trace-ranks: "0,8-15" or "all"; empty: one file for all
  std::string chakra;  // --chakra: a prefix
};

// Adds --trace, --trace-ranks and --chakra.
void add_to(CLI::App& command, StepTrace& trace);
// What can be refused before anything is simulated. Throws InputError.
void check(const StepTrace& trace);
// Writes what was asked for; of a perturbed forecast the perturbed step.
void write(const StepTrace& trace, const Forecast& f);

// The machine and the kernels of a forecast, as a trace tells them.
TraceOptions trace_options(const Forecast& f);

}  // namespace stepcast::cli

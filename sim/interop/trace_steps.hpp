#pragma once
// The steps of a trace: which kernels belong to which mark, where each step begins and ends, and
// what its time went to. Internal to trace_summary.cpp.

#include "sim/interop/trace_events.hpp"

namespace stepcast {

// Fills main_stream, steps and typical. Throws InputError where no step has kernels.
void make_trace_steps(TraceEvents& events, TraceSummary& out);

}  // namespace stepcast

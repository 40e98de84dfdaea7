#pragma once
// A timeline as a Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing show and
// which people know from PyTorch's profiler: a process for each role, a track for each stream,
// named and numbered as the profiler does (the default stream is 7), a track for each host lane,
// and the allocated memory as a counter, with a replay (sim/memory/replay.hpp) also the active and
// the reserved memory. Times are microseconds from the start of the first step.
//
// Each slice carries what a question about it needs: bytes, dtype and group size of a collective,
// what it waited for, what it would take alone, and where its cost comes from.
// Tested by tests/unit/report/trace_test.cpp.

#include <string>
#include <vector>

#include "sim/engines/cost_table.hpp"
#include "sim/memory/replay.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/schedule/timeline.hpp"

namespace stepcast {

// `memory`: a replay a role, or none.
std::string to_trace(const Schedule& schedule, const CostTable& costs, const Timeline& timeline,
                     const std::vector<RoleReplay>& memory = {});

// 7 for the first stream, then 16, 20, 24, ...: the numbers a PyTorch trace shows on NVIDIA GPUs.
int trace_stream_number(StreamIndex stream);

}  // namespace stepcast

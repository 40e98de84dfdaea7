#pragma once
// How a step of a trace is divided without overlap.
//
// While the main stream runs a kernel, its time is that kernel's class; a collective on the main
// stream itself is exposed. While it runs none, there is a gap, before a kernel K or before the end
// of the step:
//
//   K was launched only then    the gap is the host's, back to the last time when the host's thread
//                               was held by a synchronisation (or to the gap's beginning); within a
//                               data loader's mark it is the loader's;
//   K had been launched         it waited for other streams: where one of them runs a collective,
//                               the gap is exposed communication of that kind; a copy around a
//                               collective in the same gap counts with it; where no stream runs
//                               anything, it is the host's if what ran next had not been launched,
//                               else idle.
//
//   main      | F1 |.......gap.......| F2 |      exposed 4 (all-gather, with its copy-in), idle 0
//   gather         |copy|--AG--|out|
//
// These are the rules of sim/report/summary.hpp for what can be seen from outside: a simulated
// timeline knows why an op waited, a trace shows only what ran then. Where they differ: a
// collective that runs in a gap by chance, while K waits for something that is no kernel, counts as
// exposed.

#include <cstdint>
#include <string>
#include <vector>

#include "sim/interop/trace_summary.hpp"
#include "sim/schedule/timeline.hpp"

namespace stepcast {

// A kernel, memcpy or memset; 72 bytes, since a trace has millions.
struct TraceSlice {
  double start_us = 0, end_us = 0;
  double called_us = 0, launched_us = -1;  // the runtime call; -1: not in the trace
  std::int32_t thread = -1;                // that launched it, an index
  std::int32_t stream = 0;
  std::int32_t device = 0;
  std::int32_t call = -1;  // of a collective: into the calls' list
  std::int32_t step = 0;   // -1: of none
  KernelClass what = KernelClass::other;
};

// What the host did besides launching, by thread; sorted by begin.
struct TraceHost {
  std::vector<std::vector<Interval>> synced;  // a thread was held by the GPU; microseconds
  std::vector<Interval> loading;              // merged; microseconds
};

// Fills the split of `step`, whose begin and end are known. `slices` are those of one device, by
// start; `kinds` names TraceSlice::call.
void split_step(TraceStep& step, const std::vector<TraceSlice>& slices, int main_stream,
                const TraceHost& host, const std::vector<std::string>& kinds);

}  // namespace stepcast

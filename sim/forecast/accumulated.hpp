#pragma once
// Steps of many micro-batches, worked out from two of few.
//
// From its second or third micro-batch on a step repeats itself: the same ops on the same streams,
// one period later, until the last micro-batch reduces gradients and the optimizer runs. So a step
// of n micro-batches takes
//
//   t(n) = t(16) + (n - 16) (t(16) - t(8)) / 8
//
// and all that adds up over a step (the parts of its time, calls, ops) does the same. Allocated
// memory is that of 16, since the third micro-batch finds what the second left; reserved memory may
// grow along the line, where the host runs ahead of the GPU and blocks wait for streams. Example: 8
// take 1.00 s, 16 1.92 s: 128 take 1.92 + 112 x 0.115 = 14.80 s.
//
// What bends the line: a host or a loader that needs a little longer a micro-batch than the GPU.
// The optimizer of the step before gives it a lead, which lasts for some micro-batches; then it
// binds. What a lane or a stream has to do in a micro-batch is known, so this is seen: while one of
// them has more to do than the period found, the two steps are taken from further on, 24 and 32,
// then 56 and 64. If the lead lasts beyond that, the step is what the line says, or what the lane
// has to do where that is more; then it may be too short by the lead's end, less than one optimizer
// step.
//
// Taken where a step has more than 32 micro-batches and nobody asks for its timeline: `simulate`,
// `plan`, `sweep`, `tune`; by the formula and the fluid engine. First and perturbed steps are run
// whole. The report has a note that says so.
//
// Tested by tests/unit/forecast/accumulated_test.cpp: against the whole step, within 0.1 %.

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/engines/cost_table.hpp"
#include "sim/forecast/resolve.hpp"
#include "sim/report/report.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast {

inline constexpr int most_whole_micro_batches = 32;
inline constexpr int enough_for_memory = 16;  // micro-batches

// Whether the step has so many micro-batches that it is worked out.
bool is_worked_out(const Resolved& resolved);

// What has to be done by every lane (by those that share a lock together) and stream in the last
// program of every role, in seconds.
struct Busy {
  enum class Who : std::uint8_t { host, loader, stream };
  struct Part {
    Who who = Who::stream;
    Seconds seconds = 0;
  };
  std::vector<Part> parts;
};
Busy busy(const Schedule& schedule, const CostTable& costs);

struct ShortStep {
  Report report;
  Busy busy;
};

// The report of `micro_batches`, more than 32; its rates (samples a second, MFU) are still those of
// a shorter step. `run`: the step of so many.
Report worked_out(int micro_batches, const std::function<ShortStep(int)>& run);

}  // namespace stepcast

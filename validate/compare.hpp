#pragma once
// A forecast beside what was measured: one schedule, two timelines, number by number, and which
// cost is to blame for the difference of the step.
//
//   error = forecast / measured - 1
//
// Blame by trying: the costs of one group (a collective of one size, the kernels of a phase) are
// scaled by what its ops took in the run over what they took in the forecast, and the step is
// forecast once more. What the step then moves towards the measured one is that group's part. With
// all groups scaled at once, what is left is no cost: the time between ops, order, waking up.
//
// Example: forecast 100 ms, measured 110; with the all-reduces as they were measured the forecast
// is 108.5: they explain 8.5 of the 10.
//
// Tested by tests/unit/validate/compare_test.cpp.

#include <string>
#include <vector>

#include "sim/forecast/forecast.hpp"

namespace stepcast {

// What a run of the forecast's schedule gave.
struct Measured {
  Timeline timeline;
  std::vector<Bytes> peak;   // by rank: allocated at once; empty where it was not counted
  std::vector<Bytes> pools;  // of rank 0 by stream: the same of its pool alone; or empty
};

struct ComparedNumber {
  std::string name;
  double forecast = 0;
  double measured = 0;
  // Of the measured; 0 where that is 0.
  double error() const { return measured > 0 ? forecast / measured - 1 : 0; }
};

struct ComparedCollective {
  CollectiveRow forecast;
  Seconds measured = 0;  // mean of its calls
  double error() const { return measured > 0 ? forecast.mean_seconds / measured - 1 : 0; }
};

struct Blame {
  std::string what;  // "all_reduce of 25.0 MiB, world"
  int calls = 0;     // a step
  double ratio = 1;  // measured over forecast, of the seconds of its ops
  Seconds step = 0;  // the step's forecast with this group as it was measured
};

struct Comparison {
  std::string title;  // "ddp gpt2, 4 ranks, cpu threads"
  std::string model, strategy, executor;
  int ranks = 0;
  int steps = 0;        // that were measured
  double spread = 0;    // (longest - shortest) / median of them
  ComparedNumber step;  // seconds: the median of the measured steps but the first
  double samples_per_step = 0;
  std::vector<ComparedNumber> parts;  // seconds: where the step's time went, then phases
  std::vector<ComparedCollective> collectives;
  std::vector<ComparedNumber> memory;  // bytes
  std::vector<Blame> blame;            // largest part of the error first
  Seconds step_all = 0;                // with every group as it was measured
  std::vector<std::string> notes;
};

// The forecast's schedule must be the one that was run.
Comparison compare(const Forecast& forecast, const Measured& measured);

// The step whose length is the median of all but the first, and nothing after it.
Timeline typical_step(const Timeline& timeline);

// One sentence: what is to blame, or that nothing is.
std::string verdict(const Comparison& comparison);

std::string to_text(const Comparison& comparison);
std::string to_json(const Comparison& comparison);  // schema stepcast.validation/1

// Both as one Chrome/Perfetto trace: processes "forecast" and "measured", the reported step of each
// from the same zero.
std::string both_as_trace(const Forecast& forecast, const Timeline& measured);

}  // namespace stepcast

#pragma once
// Many forecasts in a row: what forecast() says of a scenario, as one small structure, and with all
// that scenarios have in common worked out once.
//
//   Evaluator evaluator;
//   for (const Scenario& s : scenarios) {
//     const Evaluation e = evaluator.evaluate(s);
//     if (e.state == Evaluation::State::fits) best = std::min(best, e.step_time);
//   }
//
// Every figure equals forecast()'s to the last bit, in whatever order scenarios come
// (tests/unit/forecast/evaluator_test.cpp plays the two against each other over a grid). What is
// kept from one scenario to the next, and what it is kept by, stands in evaluator.cpp.
//
// Nothing is thrown for a scenario that is wrong or cannot run: that is a result too, with its
// sentence. Our own mistakes (STEPCAST_ASSERT) still are.
//
// One thread at a time; the fluid engine is one a process, so many cores are many processes.

#include <cstdint>
#include <memory>
#include <string>

#include "sim/forecast/interval.hpp"
#include "sim/forecast/scenario.hpp"
#include "sim/kernels/profile.hpp"
#include "sim/report/report.hpp"

namespace stepcast {

struct Evaluation {
  enum class State : std::uint8_t {
    fits,          // runs, in the memory there is
    does_not_fit,  // has a step time, but not the memory: Report::fits is false
    infeasible,    // no step time: InfeasibleError, `why` says it
    refused,       // no scenario: InputError, `why` says it
  };

  State state = State::refused;
  std::string why;  // one sentence; of what does not fit, shortage()

  // ---- what was forecast, 0 and empty where there is no step time
  std::string strategy;
  std::string engine;
  int nodes = 0;
  int gpus = 0;
  Mesh mesh;

  // ---- speed, as Report has it
  Seconds step_time = 0;
  StepInterval interval;        // that holds the step 8 times in 10 (interval.hpp)
  bool fitted_profile = false;  // otherwise nobody knows the profile's residual
  double samples_per_step = 0;
  double samples_per_second = 0;
  double tokens_per_step = 0;  // 0 for images
  double tokens_per_second = 0;
  double tflops_per_gpu = 0;
  double mfu = 0;
  double hfu = 0;
  TimeSplit split;
  std::string binding;              // what the step mostly waits for: see binding() below
  Seconds perturbed_step_time = 0;  // with `perturb`; 0: without, or the job ends

  // ---- memory of the fullest role
  Bytes memory_peak = 0;      // CUDA context and NCCL included
  Bytes memory_reserved = 0;  // by the caching allocator, for the tensors
  Bytes memory_capacity = 0;

  bool has_time() const { return state == State::fits || state == State::does_not_fit; }
};

std::string_view to_string(Evaluation::State state);  // "fits", "does not fit", ...

// What more of would help most: the largest part of the step.
//   compute    kernels, copies, interference and the optimizer
//   host       the stream was empty because nothing was issued
//   loader     ... because no batch was there
//   nvlink, pcie, nic, fabric   exposed communication, by the fullest link of the collective that
//                               is exposed most
//   latency    the same where that collective takes longer to start than to send
std::string binding(const Report& report);

// Whether schedules depend on the key; points that differ in others only share theirs, most of all
// when they follow each other.
bool changes_schedule(const std::string& key);

// The same from one whole forecast.
Evaluation evaluation_of(const Report& report, const SoftwareProfile& profile);

// For those who need more of the report than an Evaluation has.
struct EvaluatedReport {
  Report report;  // forecast()'s, without the note of interval_of()
  SoftwareProfile profile;
};

class Evaluator {
 public:
  Evaluator();
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  Evaluation evaluate(const Scenario& scenario);

  // These throw what forecast() throws.
  EvaluatedReport report(const Scenario& scenario);
  // Peak of the GPU that holds most, by the replay of allocations; no time is simulated.
  Bytes memory_peak(const Scenario& scenario);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepcast

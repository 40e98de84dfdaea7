#pragma once
// What a sweep keeps of every point: the columns of its table beside the keys of the scenario.

#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "sim/forecast/evaluator.hpp"

namespace stepcast {

struct Output {
  std::string_view name;   // column, with its unit: "step_time_s"
  std::string_view label;  // of a printed table: "step time"
  std::string_view unit;   // "s", "B", "1/s", "fraction", "1"
  int better = 0;          // 1: more is better, -1: less, 0: neither
};

inline constexpr std::array<Output, 23> outputs{{
    {"world_size", "GPUs", "1", 0},
    {"step_time_s", "step time", "s", -1},
    {"step_time_low_s", "8 in 10 from", "s", 0},
    {"step_time_high_s", "8 in 10 to", "s", 0},
    {"samples_per_s", "samples/s", "1/s", 1},
    {"tokens_per_s", "tokens/s", "1/s", 1},
    {"tokens_per_s_per_gpu", "tokens/s/GPU", "1/s", 1},
    {"samples_per_s_per_gpu", "samples/s/GPU", "1/s", 1},
    {"tflops_per_gpu", "TFLOP/s/GPU", "TFLOP/s", 1},
    {"mfu", "MFU", "fraction", 1},
    {"hfu", "HFU", "fraction", 0},
    {"compute_s", "compute", "s", 0},
    {"copies_s", "copies", "s", -1},
    {"interference_s", "interference", "s", -1},
    {"optimizer_s", "optimizer", "s", 0},
    {"host_s", "host", "s", -1},
    {"other_s", "other", "s", -1},
    {"exposed_s", "exposed", "s", -1},
    {"perturbed_step_time_s", "perturbed", "s", -1},
    {"memory_peak_bytes", "memory", "B", -1},
    {"memory_reserved_bytes", "reserved", "B", -1},
    {"memory_capacity_bytes", "capacity", "B", 0},
    {"memory_free", "memory free", "fraction", 0},
}};

// -1: no output of that name.
int output_index(std::string_view name);

// One point, worked out. Numbers that are not known are NaN.
struct Result {
  // "ok"; "does_not_fit" in memory, with its step time all the same; "infeasible": no step time;
  // "refused": no scenario; "failed": a fault of stepcast's own
  std::string state;
  std::string why;      // of all but the first
  std::string binding;  // what the step waits for (evaluator.hpp)
  std::array<double, outputs.size()> numbers{};

  Result() { numbers.fill(std::numeric_limits<double>::quiet_NaN()); }
};

Result result_of(const Evaluation& evaluation);

}  // namespace stepcast

#pragma once
// One configuration of a plan and what a forecast says of it: numbers only, so that a worker can
// send it as bytes.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/units.hpp"
#include "sim/forecast/evaluator.hpp"
#include "sim/forecast/scenario.hpp"
#include "sim/report/report.hpp"

namespace stepcast {

// What a step's time goes into: the largest is called the binding constraint.
//   compute  kernels, what collectives beside them cost them, the optimizer
//   memory   recomputation, which is done to save memory only
//   nvlink, pcie, nic, fabric   exposed communication, by the link that its collectives load most
//   host     the GPU waits for its host to issue
//   loader   and for its data
enum class Limit : std::uint8_t { compute, memory, nvlink, pcie, nic, fabric, host, loader };
inline constexpr std::size_t limits = 8;
std::string_view to_string(Limit limit);

using Shares = std::array<double, limits>;  // of the step, by Limit; they add up to 1
Shares shares_of(const Report& report);
Limit largest(const Shares& shares, Limit except);
Limit largest(const Shares& shares);

// The strategies that are tried, under the names of `stepcast advise`.
struct PlanStrategy {
  std::string_view name;       // "full_shard"
  std::string_view strategy;   // of the scenario: "fsdp2"
  bool several_nodes = false;  // makes no sense on one
};
const std::vector<PlanStrategy>& plan_strategies();
inline constexpr int asked_strategy = -1;  // the one that the scenario names, with its options

struct Choice {
  std::int32_t machine = 0;  // index
  std::int32_t nodes = 1;
  std::int32_t strategy = 0;       // index into plan_strategies(), or asked_strategy
  std::int32_t checkpointing = 0;  // checkpointing_name()
  std::int64_t micro_batch = 1;
  std::int64_t accumulation = 1;
  bool expandable = false;  // expandable_segments, where its blocks do not fit, or retry
};

struct Trial {
  Choice choice;
  bool fits = false;
  Bytes peak = 0, capacity = 0;         // of the GPU that holds most
  Seconds step = 0, low = 0, high = 0;  // low to high holds 8 steps in 10
  double samples = 0;                   // a step, all GPUs
  double mfu = 0, hfu = 0;
  Shares shares{};
  std::int32_t retries = 0;  // of the caching allocator, a step
};
static_assert(std::is_trivially_copyable_v<Trial>, "a worker sends it as bytes");

// Levels of checkpointing: those that are tried, then those that are only asked for.
inline constexpr std::int32_t tried_levels = 3, asked_levels = 4;
std::string_view checkpointing_name(int level);

// The user's scenario with a choice made. `machine`: its name or path.
Scenario scenario_of(const Scenario& asked, const Choice& choice, const std::string& machine);

// The whole forecast with an engine ("formula", "fluid").
Trial timed(Evaluator& evaluator, const Scenario& asked, const Choice& choice,
            const std::string& machine, const std::string& engine);

}  // namespace stepcast

#pragma once
// Which machines, how many and how: a model and an amount of training, against all machines of the
// catalog with their prices.
//
//   PlanQuestion q;
//   q.scenario = parse_scenario("model = \"llama-3-8b\"\nseq_len = 8192\n", "here");
//   q.amount = 1e12;                     // tokens
//   std::cout << to_text(plan(q));
//
// From a step to a job:
//   days     = amount / (amount a step / step time) / goodput      goodput: checkpoints.hpp
//   cost     = days * 24 * nodes * GPUs a node * price of a GPU-hour
//   energy   = days * 24 * nodes * (GPUs * board limit + overhead) * PUE
// All GPUs of a node are paid for, and restarts are paid like training.
//
// Without an amount, a deadline or a budget says when to stop, and what is asked is how much
// training that makes. Tested by tests/unit/plan: a case by hand, and the winner against
// `simulate`.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/plan/checkpoints.hpp"
#include "sim/plan/failures.hpp"
#include "sim/plan/prices.hpp"
#include "sim/plan/search.hpp"
#include "sim/plan/trial.hpp"

namespace stepcast {

enum class Rank : std::uint8_t { days, cost, amount };
std::string_view to_string(Rank rank);

struct FailureOptions {
  bool none = false;
  // Of a node, hours; 0: from the rate of GPUs below.
  double node_mtbf_hours = 0;
  double restart_minutes = 15;
  CheckpointWriter writer = CheckpointWriter::sharded;
  bool background = true;
  double checkpoint_bytes = 0;  // 0: 12 a parameter with AdamW, fp32 weights and two moments
  double begin_seconds = 1;     // of every checkpoint, before anything is copied
  double node_gbps = 2;         // GB/s to the storage
  double storage_gbps = 100;
  int runs = 0;  // of the event simulation of the best plan
  std::uint64_t seed = 1;
};

// 419 unexpected interruptions in 54 days on 16,384 H100: 54 * 24 * 16384 / 419 (The Llama 3 Herd
// of Models, 2024, section 3.3.4).
inline constexpr double gpu_mtbf_hours = 54.0 * 24 * 16384 / 419;

struct PlanQuestion {
  Scenario scenario;  // the model; what it fixes (strategy, micro_batch, ...) is not searched
  std::optional<double> amount;  // tokens, or images ...
  bool of_images = false;        // ... as the user meant it
  std::optional<double> deadline_days, budget_usd;
  std::vector<std::string> machines;  // names or paths; empty: the catalog
  std::int32_t most_nodes = 64;
  std::int64_t most_gpus = 0;  // in all; 0: no limit
  double headroom = 0.1;
  std::optional<double> global_batch_tokens;   // a step, at most, filled up by accumulation ...
  std::optional<double> global_batch_samples;  // ... or the same in sequences or images
  std::optional<double> tuned_batch_tokens;    // the batch that a learning rate was found for
  std::optional<Rank> rank;
  std::string prices_file;
  FailureOptions failures;
  int workers = 0;                         // 0: all cores
  std::function<void(int, int)> progress;  // machines done, of how many
};

// What a further node brings, the configuration kept.
struct NextNode {
  std::int32_t nodes = 0;  // 0: nothing to say
  double rate_gain = 0;    // tokens (images) a second
  double share = 0;        // of what a node brings on average so far
  double days_saved = 0;
  double amount_added = 0;           // where no amount is asked for
  std::optional<double> cost_added;  // USD; below 0: saved
  std::string why_not;               // a world that the strategy refuses, the global batch
};

struct PlanPoint {
  Trial trial;
  std::string machine, machine_name, gpu;
  std::int32_t gpus = 1;
  std::string strategy;  // plan_strategies()' name, or the scenario's
  std::string command;   // to simulate it
  double rate = 0;       // tokens (images) a second, without failures
  double amount = 0;     // trained in all
  double amount_a_step = 0;
  double days = 0, days_low = 0, days_high = 0;  // failures included; low to high: 8 in 10
  double days_without_failures = 0;
  std::optional<double> cost, cost_low, cost_high;  // USD
  std::optional<double> kwh;
  double headroom = 0;  // of the GPU's memory
  CheckpointCost checkpoint;
  CheckpointPlan interval;
  FailureRates rates;
  NextNode next;
  bool on_front = false;
  bool meets = true;  // deadline and budget
};

struct PlannedMachine {
  std::string name, full_name, gpu;
  int gpus_per_node = 1;
  MachinePrice price;
  double node_watts = 0;  // GPUs and overhead; 0: not known
  int best = -1;          // into points
  std::string why_not;
};

// One way to write checkpoints of the best plan.
struct CheckpointWay {
  CheckpointWriter writer = CheckpointWriter::sharded;
  bool background = true;
  CheckpointCost cost;
  CheckpointPlan plan;
};

struct Plan {
  PlanQuestion asked;
  std::string model;
  std::int64_t parameters = 0;
  bool images = false;
  std::int64_t seq_len = 0;
  Rank rank = Rank::days;
  Bytes checkpoint_bytes = 0;
  std::vector<PlannedMachine> machines;
  std::vector<PlanPoint> points;  // one a machine and number of nodes, ranked
  std::vector<int> front;         // into points, fastest first
  SearchCounts counts;
  std::vector<CheckpointWay> ways;   // of points[0]
  std::optional<JobRuns> simulated;  // where runs were asked for
  std::vector<std::string> assumptions;
  const char* unit() const { return images ? "images" : "tokens"; }
};

// Throws InputError. Nothing that fits is a Plan without points.
Plan plan(const PlanQuestion& question);

// One point from its trial; for plan() and for tests by hand. Fills everything but `next`.
PlanPoint point_of(const Plan& plan, const PlannedMachine& machine, const Trial& trial,
                   const Machine& node, double pue);

std::string to_text(const Plan& plan);
std::string to_json(const Plan& plan);  // schema "stepcast.plan/1"

}  // namespace stepcast

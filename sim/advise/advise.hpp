#pragma once
// Which data-parallel strategy to use, decided with the numbers of this model on this machine.
//
//   Advice advice = advise(read_scenario("job.toml"));   // the scenario's own strategy is ignored
//   std::cout << to_text(advice);
//
// The questions, in this order (decide.hpp holds the rule without the numbers' origin):
//
//   1  does everything fit one GPU under DDP?  -> ddp: sharding would only add traffic
//   2  one node: is DDP short by less than gradients and optimizer free when they are sharded?
//                                              -> shard_grad_op (ZeRO-2), else full_shard (ZeRO-3)
//   3  several nodes: does the state fit a group of one node's GPUs, and would the all-gathers
//      between nodes be exposed?               -> hybrid_shard, else full_shard
//   4  does one unit not fit a GPU?            -> exhausted: tensor or pipeline parallelism
//   5  are activations what does not fit?      -> more checkpointing, and the questions again
//
// Every number comes from the same replay of the schedule that `simulate` reports. Where the rule's
// own arithmetic and the replay differ (transient buffers), the replay decides and both are shown.
//
// Cost: about 20 schedules and replays, and one simulated step for each candidate that fits: tens
// of milliseconds. Tested by tests/unit/advise, a scenario a leaf.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "sim/advise/candidate.hpp"
#include "sim/advise/decide.hpp"
#include "sim/advise/largest_model.hpp"
#include "sim/advise/scaling.hpp"
#include "sim/forecast/scenario.hpp"

namespace stepcast {

struct Advice {
  // ---- what was asked
  std::string model;
  std::int64_t parameters = 0;
  std::string machine, gpu;
  int nodes = 1, gpus = 1;
  Bytes capacity = 0;
  std::int64_t micro_batch = 1;
  std::string checkpointing;  // as asked

  // ---- the answer
  Leaf leaf = Leaf::ddp;
  std::string with_checkpointing;    // differs from `checkpointing` where question 5 decided
  std::vector<std::string> reasons;  // one sentence a question, each with its deciding number
  std::string answer;                // one sentence
  std::string remark;                // where the forecast prefers another candidate; else empty
  // Flags to give to `simulate`; empty when nothing fits.
  std::string command;
  bool feasible = true;

  // ---- beside it
  std::vector<Candidate> candidates;  // ddp, shard_grad_op, full_shard, hybrid_shard: as decided on
  // 16 bytes a parameter times 1.2 to 1.5, which people use for "what a GPU must hold".
  Bytes rule_low = 0, rule_high = 0;
  double real_factor = 0;  // DDP's replayed peak over those 16 bytes: what the factor really is
  std::vector<LargestModel> largest;
  std::optional<ScalingLimit> scaling;  // from 512 GPUs on
};

// Throws InputError. A question that no strategy answers is an Advice with feasible == false.
Advice advise(const Scenario& scenario);

std::string to_text(const Advice& advice);
// Schema "stepcast.advice/1".
std::string to_json(const Advice& advice);

}  // namespace stepcast

#pragma once
// All configurations of one machine: numbers of nodes x strategies x checkpointing x micro-batch.
//
// For each number of nodes, strategy and level of checkpointing:
//   1  the largest micro-batch (1, 2, 4, ...) that fits with the wanted headroom and keeps to the
//      global batch, by the replay of allocations. Memory does not depend on the machine beyond its
//      GPUs a node, so replays are remembered across machines.
//   2  a step of it and of half of it, with the formula engine. Accumulation beyond 4 is a line
//      through 3 and 4 micro-batches.
// Then for each number of nodes the best few by throughput, those within 5 % of the best and at
// least two, run through the fluid engine, whole, the caching allocator included: the figures of a
// plan are those of `stepcast simulate`. Where the allocator's blocks refuse all that were tried,
// they are tried once more with expandable segments, as is each that retries. `stepcast simulate`
// works steps of more than 32 micro-batches out from two of few (sim/forecast/accumulated.hpp). A
// batch that would take more than 32,000 of them is left to larger micro-batches and clusters.
//
// Example: 30 machines x 7 sizes x 5 strategies x 3 levels: 3,150 questions of memory, twice as
// many steps at most; about 7 s of processor time. Tested by tests/unit/plan/plan_test.cpp,
// against trying everything.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/forecast/scenario.hpp"
#include "sim/plan/trial.hpp"

namespace stepcast {

struct Space {
  Scenario asked;  // the model and what else is fixed; no cluster, nodes or gpus
  std::vector<std::int32_t> nodes;
  std::int64_t most_gpus = 0;            // in all; 0: no limit
  std::vector<std::int32_t> strategies;  // Choice::strategy
  std::vector<std::int32_t> levels;      // Choice::checkpointing
  double headroom = 0.1;                 // of the GPU's memory
  double global_batch = 0;               // samples a step at most, filled up; 0: no limit
  std::int64_t most_micro_batch = 256;
};

struct SearchCounts {
  std::int64_t configurations = 0;  // asked about: machine, nodes, strategy, level, micro-batch
  std::int64_t replays = 0;         // of memory; the others were remembered
  std::int64_t screened = 0;        // steps by the formula engine
  std::int64_t confirmed = 0;       // by fluid
};

struct MachineSearch {
  std::vector<Trial>
      best;  // confirmed, one a number of nodes; those at which nothing fits are left out
  Bytes least_peak = 0;  // where nothing fits: the smallest peak, of `capacity`
  Bytes capacity = 0;
  std::string why_not;  // a sentence; empty where something fits
  SearchCounts counts;
};

class Searcher {
 public:
  // The evaluator outlives it: what that has kept of a machine serves all of its trials.
  Searcher(Space space, Evaluator& evaluator) : space_(std::move(space)), evaluator_(evaluator) {}
  // Throws InputError for what no choice can cure (an unknown model).
  MachineSearch search(const std::string& machine, std::int32_t index);

 private:
  struct Sized;
  Bytes peak(const Scenario& scenario, const Choice& choice, int gpus_per_node, bool has_bf16,
             SearchCounts& counts);
  std::vector<Choice> choices(const std::string& machine, const Choice& base, const Sized& sized,
                              MachineSearch& result);
  Seconds screened(const std::string& machine, const Choice& choice, SearchCounts& counts);

  Space space_;
  Evaluator& evaluator_;
  std::map<std::string, Bytes> peaks_;  // of what memory depends on; -1: refused
};

// How many micro-batches of `micro_batch` samples on `gpus` fill the global batch; 0: one is
// already too much.
std::int64_t accumulation_for(double global_batch, std::int64_t micro_batch, std::int64_t gpus);

// A search as bytes and back, for workers.
std::string packed(const MachineSearch& search);
MachineSearch unpacked_search(const std::string& bytes);
std::string packed(const std::vector<Trial>& trials);
std::vector<Trial> unpacked_trials(const std::string& bytes);

}  // namespace stepcast

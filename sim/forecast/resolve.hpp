#pragma once
// From what the user said to what is simulated: names are looked up, defaults are filled in, and
// what contradicts itself is refused with the place where it was said.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/collectives/collective_cost.hpp"
#include "sim/forecast/bind.hpp"
#include "sim/forecast/perturbation.hpp"
#include "sim/forecast/replica.hpp"
#include "sim/forecast/scenario.hpp"
#include "sim/kernels/profile.hpp"
#include "sim/memory/caching_allocator.hpp"
#include "sim/strategies/strategy.hpp"
#include "topologies/topology.hpp"

namespace stepcast {

struct Resolved {
  TrainingStep step;
  Cluster cluster;
  Replica replica;                           // GPUs that share a model, and their given time
  std::shared_ptr<const Model> whole_model;  // where they do: step.model is one GPU's share
  SoftwareProfile profile;
  std::string engine = "fluid";
  bool go_on = false;     // by messages with more than 64 ranks too
  bool to_run = false;    // not only forecast: no retries of the allocator in the schedule
  LoaderRates loader;     // where step.loader.modelled
  MeasuredDevice device;  // of the calibration
  std::vector<Perturbation> perturbations;
  std::map<std::string, Cluster> other_machines;  // the cluster if it were of that machine
  Seconds nccl_timeout = 600;                     // PyTorch's default of process groups with NCCL
  AllocatorOptions allocator;                     // its capacity is not set here
  CollectiveOptions collectives;                  // NCCL's version and variables, measured times
  bool first_step = false;                        // report the first step, not the steady one
  std::vector<std::string> notes;                 // what was mapped or chosen for the user

  const Model& model() const { return whole_model ? *whole_model : step.model; }
};

class Sources;  // sources.hpp: for many scenarios, what they name is read once

// Throws InputError.
Resolved resolve(const Scenario& scenario);
Resolved resolve(const Scenario& scenario, Sources& sources);

// What `said` names: a catalog's name as it is, a path of a scenario file from the file's folder.
std::string scenario_path(const Scenario& scenario, const char* key, const std::string& said);

// Parts of it, for callers that need no schedule.
Cluster resolve_cluster(const Scenario& scenario);
Cluster resolve_cluster(const Scenario& scenario, Sources& sources);
CollectiveOptions resolve_collectives(const Scenario& scenario);
CollectiveOptions resolve_collectives(const Scenario& scenario, Sources& sources);

// The strategy that the scenario names; a sharding strategy alone means fsdp1.
struct StrategyChoice {
  StrategyKind kind = StrategyKind::ddp;
  ShardingStrategy sharding = ShardingStrategy::full_shard;  // fsdp1
};
StrategyChoice resolve_strategy(const Scenario& scenario);

// Whether the strategy knows the key at all; resolve() refuses a key that it does not.
bool strategy_takes(const std::string& key, const StrategyChoice& strategy);

// Of these levels of `checkpointing` those that the scenario's model has, for searches that try
// several; all of them where the model cannot be read, which resolve() says better.
std::vector<std::string> levels_of_model(const Scenario& scenario,
                                         const std::vector<std::string>& levels);

// All strategies by name, comma-separated.
std::string strategy_names();

// GPUs that share one copy under HSDP when nobody says: a whole node, or as many of it as divide
// the world (12 GPUs on nodes of 8: groups of 4, so that no group spans nodes).
int default_shard_group(int world_size, int gpus_per_node);

}  // namespace stepcast

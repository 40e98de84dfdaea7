#pragma once
// The facts of all job files together, and the keys of the scenario that follow from them once
// model, GPUs and strategy are known. Internal to combine.cpp; the rules are in combine.hpp.

#include "sim/jobs/combine.hpp"

namespace stepcast::jobs {

struct Facts {
  std::vector<std::string> files;  // their names
  std::optional<Fact<std::int64_t>> micro_batch, accumulation, global_batch, world, replicas;
  std::string batch_words = "global batch";
  std::optional<Fact<std::string>> model, dtype;
  std::optional<Fact<bool>> pure_16;
  std::map<std::string, Fact<std::int64_t>> degrees;  // Job::degrees
  bool gpus_are_replicas = false;
  std::map<std::string, Fact<AutoRule>> autos;
  std::map<std::string, Fact<std::int64_t>> sizes;
  bool through_deepspeed = false;
  bool checkpoint_outside_unit = false;
};

// Sets keys of all.scenario that flags do not say, and adds to all.asked what stays open.
void settle(const Facts& facts, const Scenario& flags, Combined& all);

}  // namespace stepcast::jobs

#pragma once
// A scenario as the configuration that runs it: DeepSpeed's JSON, accelerate's YAML or torchtitan's
// TOML. What is emitted reads back (detect.hpp, combine.hpp) as the same settings; what the format
// cannot say is named, so that nobody runs something else than was forecast.
//
//   Emitted e = emitted(scenario, "deepspeed");
//   e.text;       // {"train_micro_batch_size_per_gpu": 4, ...
//   e.left_out;   // "seq_len = 4096"
//
//   format      strategies
//   deepspeed   zero1, zero2, zero3, and ddp as stage 0
//   accelerate  ddp, fsdp1, fsdp2, hsdp, zero1, zero2, zero3
//   torchtitan  ddp, fsdp2, hsdp
//
// Keys of the cluster and of the forecast are no job's and are passed over. Throws InputError for a
// format that is not known and a strategy that it does not have. Tested by
// tests/unit/jobs/emit_test.cpp: emitted and read back over hundreds of scenarios.

#include <string>
#include <vector>

#include "sim/forecast/scenario.hpp"

namespace stepcast::jobs {

struct Emitted {
  std::string text;
  std::vector<std::string> left_out;  // "bucket_cap_mb = 50"
};

const std::vector<std::string>& emit_formats();
// The strategies that a format has. Throws InputError for a format that is not known.
const std::vector<std::string>& emit_strategies(const std::string& format);
// Words of `checkpointing` that it can say, or that leave the choice to a script.
std::vector<std::string> emit_checkpointing(const std::string& format);
// Throws InputError where the format has not got the scenario's strategy.
void check_emits(const Scenario& scenario, const std::string& format);
Emitted emitted(const Scenario& scenario, const std::string& format);
// The text alone.
std::string emit(const Scenario& scenario, const std::string& format);

}  // namespace stepcast::jobs

#pragma once
// Job files and flags into one scenario.
//
//   Combined c = combine(read_jobs({"ds.json", "config.json"}), flags, {});
//   forecast(c.scenario);
//
// What two files say of one thing must agree; a file beats a framework's default, a flag beats
// both. A flag that chooses another strategy takes the file's settings of the old one along. Then
// what needs the whole is worked out:
//
//   batch sizes   global = micro-batch x accumulation x GPUs, checked or solved for the one missing
//   precision     the recipe of the strategy for bf16, fp16 or fp32
//   "auto"        Hugging Face's rules: reduce_bucket_size = h x h, stage3_prefetch_bucket_size =
//                 0.9 h x h, stage3_param_persistence_threshold = 10 h, h the model's hidden size
//   shard_group   GPUs / replicas
//   model         a name of the hub, or sizes that the file spells out, as a model of the catalog
//
// What is not simulated or not known stops here (InputError), unless it is ignored on purpose. What
// must be asked of the user stops too, unless `ask` leaves it to the caller.
// Tested by tests/unit/jobs/combine_test.cpp.

#include <map>
#include <string>
#include <vector>

#include "sim/jobs/job.hpp"

namespace stepcast::jobs {

struct CombineOptions {
  bool ignore_unsupported = false;
  bool ask = false;  // leave what is missing in Combined::asked instead of throwing
};

struct Combined {
  Scenario scenario;                      // of the files, with the flags over them
  std::map<std::string, Source> sources;  // of every key that is set
  std::vector<std::string> notes;         // read as what; left out; approximated
  std::vector<Asked> asked;
  std::vector<std::string> irrelevant;  // "FILE: KEY"
};

Combined combine(const std::vector<Job>& jobs, const Scenario& flags,
                 const CombineOptions& options);

// The catalog's name of a model of the hub or of torchtitan ("meta-llama/Llama-2-7b-hf",
// "llama3-8B"), or "".
std::string catalog_model(const std::string& name);

}  // namespace stepcast::jobs

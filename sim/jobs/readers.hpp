#pragma once
// The readers, one a framework. Each fills a Job whose kind, file and syntax are set; throws
// InputError for what the framework itself would refuse. Internal to sim/jobs: read_job()
// (detect.hpp) chooses among them.

#include "sim/jobs/section.hpp"

namespace stepcast::jobs {

void read_deepspeed(const Value& root, Job& job);
void read_accelerate(const Value& root, Job& job);
void read_trainer(const Value& root, Job& job);  // also LLaMA-Factory's and axolotl's
void read_torchtitan(const Value& root, Job& job);
void read_llm_foundry(const Value& root, Job& job);
void read_lightning(const Value& root, Job& job);
void read_litgpt(const Value& root, Job& job);
void read_nanotron(const Value& root, Job& job);
void read_gpt_neox(const Value& root, Job& job);

// ---- parts that several of them use

// DeepSpeed's own keys, wherever they stand: batch sizes, zero_optimization, dtypes, optimizer.
void read_deepspeed_keys(Section& root);
// The strategy of a stage, and what its precision recipes are called.
void set_stage(Job& job, std::int64_t stage, const Source& source);

// optim = "adamw_torch_fused", torch.optim.AdamW, "Adam": a kind that is simulated, or unsupported.
void set_optimizer(Job& job, const Fact<std::string>& name, const std::string& fallback);

// More than one GPU a replica: tensor-, pipeline- and context-parallel degrees are noted in
// Job::degrees, for replicas whose time is given; other dimensions are unsupported. Degrees up to 1
// say nothing.
void refuse_degree(Section& section, Section::Names names, const std::string& what);

// fp8 is on: by which engine ("te", "torchao", "auto", ...); none is asked for.
void set_fp8(Job& job, const Source& on, const std::optional<Fact<std::string>>& engine);
// torchao's all-gather in fp8; where the strategy has none settle() drops it.
void set_fp8_all_gather(Job& job, const std::optional<Fact<bool>>& gathers,
                        const std::optional<Fact<bool>>& precomputes);

// FSDP's settings as accelerate, the Trainer and axolotl spell them. `version` is 1 or 2.
struct FsdpSettings {
  std::int64_t version = 1;
  std::optional<Fact<std::string>> strategy;  // FULL_SHARD, ...
  std::string framework;                      // "accelerate", for defaults
  std::string no_prefetch;                    // the default of backward_prefetch: pre or none
};
void read_fsdp(Section& fsdp, FsdpSettings settings);
// 1 to 5, names in any case, FSDP1's or Lightning's.
std::string sharding_name(const Fact<std::string>& fact);

// HSDP where both degrees are said, DDP where nothing is sharded, else FSDP2. 0: not said.
void set_degrees(Job& job, const std::optional<Fact<std::int64_t>>& replicate,
                 const std::optional<Fact<std::int64_t>>& shard, const Source& otherwise);

}  // namespace stepcast::jobs

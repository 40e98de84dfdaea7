// FSDP's settings as the Hugging Face family spells them: accelerate's fsdp_config, the Trainer's
// fsdp and fsdp_config, axolotl's. The same key is met with the prefix fsdp_ and without.
//
//   sharding strategy   FULL_SHARD = 1, SHARD_GRAD_OP = 2, NO_SHARD = 3, HYBRID_SHARD = 4,
//                       HYBRID_SHARD_ZERO2 = 5; version 2 says reshard_after_forward instead
//   mixed precision     accelerate sends and reduces in the compute dtype, in both versions:
//                       bf16-mixed-reduce-bf16, over fp32 shards
//   backward_prefetch   `accelerate launch` presets BACKWARD_PRE, the Trainer NO_PREFETCH
//
// Source: accelerate 1.x utils/dataclasses.py FullyShardedDataParallelPlugin, commands/launch.py;
// transformers 4.5x training_args.py. Tested by tests/unit/jobs/hugging_face_test.cpp and, file
// by file, tests/interop.

#include <fmt/format.h>

#include <algorithm>

#include "sim/jobs/readers.hpp"

namespace stepcast::jobs {

namespace {

const std::vector<std::string>& sharding_names() {
  static const std::vector<std::string> names{"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD",
                                              "HYBRID_SHARD", "_HYBRID_SHARD_ZERO2"};
  return names;
}

// TRANSFORMER_BASED_WRAP, SIZE_BASED_WRAP, NO_WRAP, or the Trainer's min_num_params.
void read_wrap(Section& fsdp, bool version_1) {
  Job& job = fsdp.job();
  const auto policy = fsdp.word({"auto_wrap_policy", "wrap_policy"});
  const auto least = fsdp.integer({"min_num_params"}, 0, 1e15);
  const bool classes = fsdp.has({"transformer_layer_cls_to_wrap", "transformer_cls_names_to_wrap",
                                 "transformer_layer_cls", "transformer_layer_classes"});
  fsdp.take({"transformer_layer_cls_to_wrap", "transformer_cls_names_to_wrap",
             "transformer_layer_cls", "transformer_layer_classes"});
  std::string word = "TRANSFORMER_BASED_WRAP";
  if (policy && policy->value != "transformer_auto_wrap_policy") {
    word = choice(*policy, {"TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP"});
  } else if (!policy && !classes && least && least->value > 0) {
    word = "SIZE_BASED_WRAP";
  }
  const Source from = policy  ? policy->source
                      : least ? least->source
                              : standard(job, "a unit a block: the model's own layer class");
  if (word == "TRANSFORMER_BASED_WRAP") {
    job.set("wrap", &Scenario::wrap, std::string("block"), from);
  } else if (word == "NO_WRAP" || !version_1) {
    job.unsupported.push_back(
        {from.where,
         word == "NO_WRAP" ? "the whole model as one FSDP unit is not simulated; a unit a block is"
                           : "FSDP2 units by size are not simulated; a unit a block is",
         "wrap", true});
  } else {
    job.set("wrap", &Scenario::wrap, std::string("size"), from);
    const Source params =
        least ? least->source : standard(job, "FSDP's min_num_params default of 1e8");
    job.set("wrap_min_params", &Scenario::wrap_min_params,
            least && least->value > 0 ? least->value : 100'000'000, params);
  }
}

void read_version_1(Section& fsdp, const FsdpSettings& settings) {
  Job& job = fsdp.job();
  auto strategy = settings.strategy;
  const auto reshard = fsdp.word({"reshard_after_forward"});  // the newer name of it
  if (reshard) {
    Value word = plain_scalar(reshard->value, 0);
    Fact<std::string> as_strategy = *reshard;
    if (word.kind == Value::Kind::boolean) {
      as_strategy.value = word.boolean ? "FULL_SHARD" : "SHARD_GRAD_OP";
    }
    if (!strategy) {
      strategy = as_strategy;
    } else if (sharding_name(*strategy) != sharding_name(as_strategy)) {
      throw InputError(reshard->source.where, fmt::format("contradicts {}; accepted: one of them",
                                                          place(strategy->source)));
    }
  }
  job.set("strategy", &Scenario::strategy, std::string("fsdp1"),
          strategy ? strategy->source : standard(job, settings.framework + "'s FSDP, version 1"));
  job.set("sharding_strategy", &Scenario::sharding_strategy,
          strategy ? sharding_name(*strategy) : std::string("FULL_SHARD"),
          strategy ? strategy->source : standard(job, settings.framework + "'s default"));
  const auto prefetch = fsdp.word({"backward_prefetch", "backward_prefetch_policy"});
  std::string mode = settings.no_prefetch;
  if (prefetch) {
    mode = choice(*prefetch, {"BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH", "none", "1", "2"});
    mode = mode == "BACKWARD_PRE" || mode == "1"    ? "pre"
           : mode == "BACKWARD_POST" || mode == "2" ? "post"
                                                    : "none";
  }
  job.set("backward_prefetch", &Scenario::backward_prefetch, mode,
          prefetch ? prefetch->source : standard(job, settings.framework + "'s default"));
  if (const auto read = fsdp.boolean({"forward_prefetch"})) {
    job.set("forward_prefetch", &Scenario::forward_prefetch, read->value, read->source);
  }
  if (const auto read = fsdp.boolean({"limit_all_gathers"})) {
    job.set("limit_all_gathers", &Scenario::limit_all_gathers, read->value, read->source);
  }
  if (const auto read = fsdp.boolean({"use_orig_params"})) {
    job.set("use_orig_params", &Scenario::use_orig_params, read->value, read->source);
  }
}

void read_version_2(Section& fsdp, const FsdpSettings& settings) {
  Job& job = fsdp.job();
  const Source version = standard(job, settings.framework + "'s FSDP, version 2");
  job.set(
      "strategy", &Scenario::strategy, std::string("fsdp2"),
      fsdp.has({"version", "fsdp_version"}) ? fsdp.source({"version", "fsdp_version"}) : version);
  const auto reshard = fsdp.word({"reshard_after_forward"});
  std::optional<Fact<bool>> yes;
  if (reshard) {
    const Value word = plain_scalar(reshard->value, 0);
    if (word.kind == Value::Kind::boolean) {
      yes = {word.boolean, reshard->source};
    } else {
      const std::string name = sharding_name(*reshard);
      yes = {name == "FULL_SHARD" || name == "HYBRID_SHARD", reshard->source};
    }
  } else if (settings.strategy) {
    // A name of version 1 under version 2: what it would have meant.
    const std::string name = sharding_name(*settings.strategy);
    yes = {name == "FULL_SHARD" || name == "HYBRID_SHARD", settings.strategy->source};
    if (name == "HYBRID_SHARD" || name == "_HYBRID_SHARD_ZERO2") {
      job.set("strategy", &Scenario::strategy, std::string("hsdp"), settings.strategy->source);
    }
  }
  if (yes) {
    job.set("reshard_after_forward", &Scenario::reshard_after_forward, YesNoOrCount{yes->value, 0},
            yes->source);
  }
  // Of version 1 only; version 2 has no such knobs and accelerate warns.
  fsdp.irrelevant({"backward_prefetch", "backward_prefetch_policy", "forward_prefetch",
                   "limit_all_gathers", "use_orig_params"});
}

}  // namespace

std::string sharding_name(const Fact<std::string>& fact) {
  std::string word;
  for (const char c : fact.value) {
    word += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  if (word.starts_with("SHARDINGSTRATEGY.")) word.erase(0, 17);
  if (word.size() == 1 && word[0] >= '1' && word[0] <= '5') return sharding_names()[word[0] - '1'];
  if (word == "HYBRID_SHARD_ZERO2" || word == "HYBRID_SHARD_ZERO2_") return "_HYBRID_SHARD_ZERO2";
  return choice({word, fact.source}, sharding_names());
}

void read_fsdp(Section& fsdp, FsdpSettings settings) {
  Job& job = fsdp.job();
  fsdp.ignore_case_of_prefix("fsdp_");
  if (const auto version = fsdp.integer({"version"}, 1, 2)) settings.version = version->value;
  const auto said = fsdp.word({"sharding_strategy"});
  if (said && !settings.strategy) settings.strategy = said;
  if (settings.version == 1) {
    read_version_1(fsdp, settings);
  } else {
    read_version_2(fsdp, settings);
  }
  read_wrap(fsdp, settings.version == 1);
  const auto checkpointing = fsdp.boolean({"activation_checkpointing", "gradient_checkpointing"});
  if (checkpointing) {
    job.set("checkpointing", &Scenario::checkpointing,
            std::string(checkpointing->value ? "full" : "none"), checkpointing->source);
  }
  fsdp.refuse_true({"offload_params", "cpu_offload", "offload_parameters"},
                   "CPU offload of parameters is not simulated", true);
  fsdp.refuse_true({"xla", "xla_fsdp_v2"}, "FSDP through XLA is not simulated", true);
  fsdp.refuse_any({"mixed_precision_policy", "mixed_precision"},
                  "a mixed precision policy of FSDP's own beside mixed_precision is not read; give "
                  "--precision");
  fsdp.irrelevant({"state_dict_type", "state_dict_config", "final_state_dict_type",
                   "sync_module_states", "cpu_ram_efficient_loading", "xla_fsdp_settings",
                   "xla_fsdp_grad_ckpt", "ignored_modules", "ignored_params",
                   "activation_cpu_offload", "cast_forward_inputs", "verbose", "load_sync",
                   "process_group", "optim_state_dict_config"});
  fsdp.close();
}

void set_degrees(Job& job, const std::optional<Fact<std::int64_t>>& replicate,
                 const std::optional<Fact<std::int64_t>>& shard, const Source& otherwise) {
  const std::int64_t r = replicate ? replicate->value : 1;
  const std::int64_t s = shard ? shard->value : -1;
  if (r > 1 && s == 1) {
    job.set("strategy", &Scenario::strategy, std::string("ddp"), replicate->source);
    // What was read for FSDP says nothing under DDP.
    for (const char* key : {"wrap", "reshard_after_forward"}) {
      job.sources.erase(key);
      job.scenario.said.erase(key);
    }
    job.scenario.wrap.reset();
    job.scenario.reshard_after_forward.reset();
  } else if (r > 1) {
    job.set("strategy", &Scenario::strategy, std::string("hsdp"), replicate->source);
    if (s > 1) {
      job.set("shard_group", &Scenario::shard_group, s, shard->source);
    } else {
      job.replicas = *replicate;
    }
  } else if (!job.scenario.strategy) {
    job.set("strategy", &Scenario::strategy, std::string("fsdp2"),
            shard ? shard->source : otherwise);
  }
  if (s > 0 && r > 0 && r * s > 1) {
    const Source& from = shard->source;
    job.world = {r * s,
                 {Origin::derived, from.where,
                  r > 1 ? fmt::format("{} x {}", replicate->source.text, from.text) : from.text}};
  }
}

}  // namespace stepcast::jobs

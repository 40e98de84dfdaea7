// Precision, checkpoints and "auto", once model, GPUs and strategy are known; and what is left to
// be asked.

#include "sim/jobs/settle.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/checkpointing.hpp"
#include "models/model.hpp"
#include "sim/forecast/resolve.hpp"
#include "sim/forecast/scenario_keys.hpp"
#include "sim/jobs/settle_parts.hpp"

namespace stepcast::jobs {

namespace {

void settle_precision(const Facts& facts, Combined& all) {
  if (all.scenario.precision || !facts.dtype) return;
  const std::string strategy =
      all.scenario.strategy.value_or(all.scenario.sharding_strategy ? "fsdp1" : "");
  if (strategy.empty()) return;
  const std::string& dtype = facts.dtype->value;
  const bool sharded = strategy == "fsdp1" || strategy == "fsdp2" || strategy == "hsdp";
  const bool zero = strategy.starts_with("zero") || (facts.through_deepspeed && !sharded);
  std::string recipe = dtype;
  if (dtype != "fp32") {
    recipe = zero      ? dtype + "-master"
             : sharded ? dtype + "-mixed" + (dtype == "bf16" ? "-reduce-bf16" : "")
                       : "amp-" + dtype;
  }
  // accelerate casts what FSDP shards to fp32, DeepSpeed keeps a master: only DDP takes parameters
  // as they were loaded.
  if (facts.pure_16 && facts.pure_16->value && !zero && !sharded && recipe == "amp-bf16") {
    set(all, "precision", &Scenario::precision, std::string("bf16-pure"), facts.pure_16->source);
    return;
  }
  if (recipe == "fp16-mixed") {
    all.notes.push_back(InputError(facts.dtype->source.where,
                                   "gradients are forecast as reduced in fp32, not in fp16")
                            .what());
  }
  Source source = facts.dtype->source;
  set(all, "precision", &Scenario::precision, recipe, source);
}

void settle_checkpoints(const Facts& facts, const Scenario& flags, Combined& all) {
  // torchtitan's list of ops is known for some models; others keep stepcast's choice of tensors.
  const bool by_op = all.scenario.checkpointing == std::optional<std::string>("selective-op");
  if (by_op && !flags.checkpointing && all.scenario.model) {
    const Model model = load_model(scenario_path(all.scenario, "model", *all.scenario.model));
    if (!takes_checkpointing(model.architecture, Checkpointing::selective_op)) {
      const Source source = all.sources["checkpointing"];
      all.scenario.checkpointing = "selective";
      all.notes.push_back(
          InputError(source.where,
                     fmt::format("torchtitan's list of ops is not known for {}: selective "
                                 "checkpointing keeps stepcast's choice of tensors",
                                 model.name))
              .what());
    }
  }
  const std::string strategy = all.scenario.strategy.value_or("");
  const bool units = strategy == "fsdp1" || strategy == "fsdp2" || strategy == "hsdp";
  if (!facts.checkpoint_outside_unit || !units || all.scenario.checkpoint_outside_unit) return;
  if (all.scenario.checkpointing != std::optional<std::string>("full")) return;
  set(all, "checkpoint_outside_unit", &Scenario::checkpoint_outside_unit, true,
      Source{Origin::derived, all.sources["checkpointing"].where,
             "the model's own checkpoints wrap FSDP's units"});
}

// torchao's all-gather is FSDP2's; under another strategy or recipe the framework has it do
// nothing.
void settle_fp8(Combined& all) {
  const std::string strategy = all.scenario.strategy.value_or("");
  const bool gathers = strategy == "fsdp2" || strategy == "hsdp";
  if (gathers && all.scenario.fp8 == std::optional<std::string>("torchao-tensorwise")) return;
  for (const char* key : {"fp8_all_gather", "fp8_precompute_scale"}) {
    if (all.sources.count(key) == 0 || all.sources[key].origin != Origin::file) continue;
    scenario_key(key).reset(all.scenario);
    all.sources.erase(key);
  }
}

void settle_autos(const Facts& facts, const Scenario& flags, Combined& all) {
  std::optional<double> hidden;
  for (const auto& [key, fact] : facts.autos) {
    if (flags.said.count(key) > 0 || all.sources.count(key) > 0) continue;
    const char* rule = fact.value == AutoRule::hidden_squared ? "hidden_size x hidden_size"
                       : fact.value == AutoRule::ten_hidden   ? "10 x hidden_size"
                                                              : "0.9 x hidden_size x hidden_size";
    if (!all.scenario.model) {
      all.asked.push_back({key, fact.source.where,
                           fmt::format("\"auto\" is {} of the model (Hugging Face's rule)", rule),
                           false});
      continue;
    }
    if (!hidden) {
      const Model model = load_model(scenario_path(all.scenario, "model", *all.scenario.model));
      hidden = static_cast<double>(model.architecture.hidden);
    }
    const double value = fact.value == AutoRule::hidden_squared ? *hidden * *hidden
                         : fact.value == AutoRule::ten_hidden   ? 10 * *hidden
                                                                : 0.9 * *hidden * *hidden;
    const auto whole = static_cast<std::int64_t>(value);
    const Source source{
        Origin::derived, fact.source.where,
        fmt::format("\"auto\": {} by Hugging Face's rule, hidden_size {:.0f}", rule, *hidden)};
    if (key == "reduce_bucket_size") {
      set(all, "reduce_bucket_size", &Scenario::reduce_bucket_size, whole, source);
    } else if (key == "stage3_prefetch_bucket_size") {
      set(all, "stage3_prefetch_bucket_size", &Scenario::stage3_prefetch_bucket_size, whole,
          source);
    } else {
      set(all, "stage3_param_persistence_threshold", &Scenario::stage3_param_persistence_threshold,
          whole, source);
    }
  }
}

// What no job file can say, or this one does not, and stepcast would assume.
void ask_what_is_assumed(Combined& all) {
  const auto open = [&](const char* key, bool said, const char* sentence) {
    const auto asks = [&](const Asked& a) { return a.key == key; };
    if (said || std::any_of(all.asked.begin(), all.asked.end(), asks)) return;
    all.asked.push_back({key, {}, sentence, false});
  };
  const Scenario& s = all.scenario;
  open("micro_batch", s.micro_batch.has_value(), "not in the files: 1 unless it is said");
  open("seq_len", s.seq_len.has_value() || s.image_size.has_value(),
       "not in the files: the model's own unless it is said");
  open("cluster", s.cluster.has_value(),
       "no job file names a machine; `stepcast list machines` does");
}

}  // namespace

void settle(const Facts& facts, const Scenario& flags, Combined& all) {
  settle_model(facts, all);
  const std::int64_t replica = settle_replica(facts, flags, all);
  const std::optional<std::int64_t> world = settle_world(facts, flags, replica, all);
  settle_batch(facts, flags, world, all);
  settle_precision(facts, all);
  settle_checkpoints(facts, flags, all);
  settle_fp8(all);
  settle_autos(facts, flags, all);
  ask_what_is_assumed(all);
}

}  // namespace stepcast::jobs

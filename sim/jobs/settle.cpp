#include "sim/jobs/settle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "models/model.hpp"
#include "models/selective_op.hpp"
#include "sim/forecast/resolve.hpp"

namespace stepcast::jobs {

namespace {

template <typename T, typename V>
void set(Combined& all, const char* key, std::optional<T> Scenario::*field, V value,
         Source source) {
  all.scenario.*field = static_cast<T>(std::move(value));
  all.scenario.said[key] = source.where;
  all.sources[key] = std::move(source);
}

// ---- the model

// A folder with a config.json, or that file itself.
std::string local_config(const std::string& name) {
  std::error_code none;
  namespace fs = std::filesystem;
  const fs::path path(name);
  if (name.empty() || name.size() > 4096) return "";
  if (fs::is_regular_file(path / "config.json", none)) return (path / "config.json").string();
  if (name.ends_with(".json") && fs::is_regular_file(path, none)) return name;
  return "";
}

std::int64_t size_of(const Facts& facts, const char* name, std::int64_t otherwise) {
  const auto found = facts.sizes.find(name);
  return found == facts.sizes.end() ? otherwise : found->second.value;
}

// A model of the catalog with exactly these sizes. MPT says its feed-forward by a ratio.
std::string model_of_sizes(const Facts& facts) {
  const std::int64_t hidden = size_of(facts, "hidden", 0);
  const std::int64_t layers = size_of(facts, "layers", 0);
  const std::int64_t heads = size_of(facts, "heads", 0);
  const std::int64_t vocabulary = size_of(facts, "vocabulary", 0);
  if (hidden == 0 || layers == 0 || heads == 0 || vocabulary == 0) return "";
  if (hidden > (1 << 24)) return "";
  const bool mpt = facts.sizes.count("expansion") > 0;
  const std::int64_t ffn = mpt ? hidden * std::min<std::int64_t>(size_of(facts, "expansion", 4), 64)
                               : size_of(facts, "ffn_hidden", 0);
  for (const std::string& name : catalog_models()) {
    const Architecture a = load_model(name).architecture;
    if ((a.family == Family::mpt) != mpt) continue;
    if (a.hidden == hidden && a.layers == layers && a.heads == heads && a.ffn_hidden == ffn &&
        a.vocabulary == vocabulary && a.kv_heads == size_of(facts, "kv_heads", heads)) {
      return name;
    }
  }
  return "";
}

std::string words_of_sizes(const Facts& facts) {
  std::string words;
  for (const auto& [name, fact] : facts.sizes) {
    words += fmt::format("{}{} {}", words.empty() ? "" : ", ", name, fact.value);
  }
  return words;
}

void settle_model(const Facts& facts, Combined& all) {
  if (all.scenario.model || all.scenario.params) return;
  if (facts.model) {
    const std::string& name = facts.model->value;
    const std::string config = local_config(name);
    const std::string known = config.empty() ? catalog_model(name) : config;
    if (!known.empty()) {
      Source source = facts.model->source;
      // The path is as the user typed it, not relative to the job file.
      source.where.line = config.empty() ? source.where.line : 0;
      set(all, "model", &Scenario::model, known, source);
      return;
    }
  }
  const std::string same = model_of_sizes(facts);
  if (!same.empty()) {
    set(all, "model", &Scenario::model, same,
        Source{Origin::derived, facts.sizes.begin()->second.source.where,
               "the model with these sizes: " + words_of_sizes(facts)});
    return;
  }
  Asked asked{"model", {}, "", true};
  if (facts.model) {
    asked.where = facts.model->source.where;
    asked.sentence = fmt::format(
        "model {} is not in stepcast's catalog; give --model with its "
        "config.json, or a name of `stepcast list models`",
        shown(text_scalar(facts.model->value, 0)));
  } else if (!facts.sizes.empty()) {
    const auto hidden = facts.sizes.find("hidden");
    const auto& first = hidden == facts.sizes.end() ? facts.sizes.begin()->second : hidden->second;
    asked.where = first.source.where;
    asked.sentence = fmt::format(
        "no model of the catalog has these sizes ({}); give --model with a "
        "config.json or a model's TOML",
        words_of_sizes(facts));
  } else {
    asked.where = {.file = "--model", .line = 0, .key = ""};
    asked.sentence =
        "the files name no model; `stepcast list models` names those that are known, "
        "and a config.json is one";
  }
  all.asked.push_back(asked);
}

// ---- how many GPUs

std::optional<std::int64_t> world_of(const Scenario& s) {
  if (s.cluster) return resolve_cluster(s).world_size;
  if (s.gpus) return *s.gpus;
  if (s.nodes && s.gpus_per_node) return *s.nodes * *s.gpus_per_node;
  return std::nullopt;
}

// Tensor-, pipeline- and context-parallel degrees as a replica whose time was given. Meshes of all
// these frameworks have tensor and then context parallelism innermost and pipelines outermost, so
// tp x cp GPUs are neighbours in rank order. Returns the GPUs of a replica.
std::int64_t settle_replica(const Facts& facts, const Scenario& flags, Combined& all) {
  if (facts.degrees.empty() || flags.replica_gpus) return flags.replica_gpus.value_or(1);
  double product = 1;
  std::int64_t gpus = 1, inner = 1;
  std::string words;
  const Source& first = facts.degrees.begin()->second.source;
  for (const auto& [what, degree] : facts.degrees) {
    product *= static_cast<double>(degree.value);
    if (product > 1e9) {
      throw InputError(degree.source.where,
                       "these degrees make more than 1e9 GPUs a replica; accepted: fewer");
    }
    gpus *= degree.value;
    if (what != "pipeline-parallel") inner *= degree.value;
    words += (words.empty() ? "" : " x ") + degree.source.text;
    if (what == "context-parallel") {
      all.notes.push_back(
          InputError(degree.source.where,
                     "GPUs of a context-parallel group hold whole tensors, but are forecast as "
                     "holding a part each: memory and bytes sent are lower bounds")
              .what());
    }
  }
  set(all, "replica_gpus", &Scenario::replica_gpus, gpus,
      Source{Origin::derived, first.where, words});
  if (inner != gpus && !flags.replica_inner) {
    set(all, "replica_inner", &Scenario::replica_inner, inner,
        Source{Origin::derived, first.where, "neighbours in rank order: pipelines lie outside"});
  }
  all.notes.push_back(
      fmt::format("{}: {} GPUs are a replica, as --replica-gpus says it", place(first), gpus));
  return gpus;
}

std::optional<std::int64_t> settle_world(const Facts& facts, const Scenario& flags,
                                         std::int64_t replica, Combined& all) {
  const bool counted = flags.nodes || flags.gpus;
  if (facts.world && !counted && !all.scenario.gpus && !all.scenario.nodes) {
    set(all, "gpus", &Scenario::gpus, facts.world->value * replica, facts.world->source);
  } else if (facts.gpus_are_replicas && !counted && all.scenario.gpus) {
    all.scenario.gpus = *all.scenario.gpus * replica;
  }
  std::optional<std::int64_t> world = world_of(all.scenario);
  if (world && replica > 1) {
    if (*world % replica != 0) {
      throw InputError(flags.replica_gpus ? all.scenario.where("replica_gpus")
                                          : facts.degrees.begin()->second.source.where,
                       fmt::format("replicas of {} GPUs do not divide {} GPUs; accepted: a "
                                   "multiple of {}",
                                   replica, *world, replica));
    }
    *world /= replica;  // from here on what has a batch of its own
  }
  if (facts.world && world && facts.world->value != *world) {
    const char* key = all.scenario.nodes ? "nodes" : "gpus";
    throw InputError(facts.world->source.where,
                     fmt::format("{} makes {} GPUs, and {} makes {}; accepted: the same number",
                                 facts.world->source.text, facts.world->value,
                                 all.sources.count(key) > 0 ? place(all.sources[key])
                                                            : std::string("the cluster"),
                                 *world));
  }
  if (!facts.replicas || all.scenario.shard_group ||
      all.scenario.strategy != std::optional<std::string>("hsdp")) {
    return world;
  }
  if (!world) {
    all.asked.push_back(
        {"shard_group", facts.replicas->source.where,
         fmt::format("the shard group is the GPUs divided by {}; give --cluster and "
                     "--nodes or --gpus",
                     facts.replicas->value),
         false});
  } else if (*world % facts.replicas->value != 0) {
    throw InputError(facts.replicas->source.where,
                     fmt::format("{} replicas do not divide {} GPUs; accepted: a divisor",
                                 facts.replicas->value, *world));
  } else {
    set(all, "shard_group", &Scenario::shard_group, *world / facts.replicas->value,
        Source{Origin::derived, facts.replicas->source.where,
               fmt::format("{} GPUs / {}", *world, facts.replicas->source.text)});
  }
  return world;
}

// ---- batch sizes

[[noreturn]] void contradiction(const Facts& facts, std::int64_t micro, std::int64_t accumulation,
                                std::int64_t world) {
  throw InputError(facts.global_batch->source.where,
                   fmt::format("{} is {}, but {} a GPU x {} of accumulation x {} GPUs makes {}; "
                               "accepted: numbers that agree",
                               facts.batch_words, facts.global_batch->value, micro, accumulation,
                               world, micro * accumulation * world));
}

void settle_batch(const Facts& facts, const Scenario& flags, std::optional<std::int64_t> world,
                  Combined& all) {
  const auto source = [&](const std::string& text) {
    return Source{Origin::derived, facts.global_batch->source.where, text};
  };
  std::optional<std::int64_t> micro = flags.micro_batch, accumulation = flags.accumulation;
  if (!micro && facts.micro_batch) {
    micro = facts.micro_batch->value;
    set(all, "micro_batch", &Scenario::micro_batch, *micro, facts.micro_batch->source);
  }
  const bool said = facts.accumulation && facts.accumulation->source.origin == Origin::file;
  if (!accumulation && facts.accumulation && (said || !facts.global_batch)) {
    accumulation = facts.accumulation->value;
    set(all, "accumulation", &Scenario::accumulation, *accumulation, facts.accumulation->source);
  }
  if (facts.global_batch && !world) {
    if (micro && accumulation) return;
    const char* key = micro ? "accumulation" : "micro_batch";
    all.asked.push_back(
        {key, facts.global_batch->source.where,
         fmt::format("{} of {} is divided among GPUs; give --cluster and --nodes or "
                     "--gpus",
                     facts.batch_words, facts.global_batch->value),
         !micro});
    return;
  }
  if (facts.global_batch) {
    const std::int64_t global = facts.global_batch->value;
    const double product = static_cast<double>(micro.value_or(1)) *
                           static_cast<double>(accumulation.value_or(1)) *
                           static_cast<double>(*world);
    if (product > 9e15) contradiction(facts, micro.value_or(1), 1, *world);
    const std::int64_t rest = micro.value_or(1) * accumulation.value_or(1) * *world;
    const bool by_flags = flags.micro_batch && flags.accumulation;
    if (micro && accumulation) {
      // Flags that say both say a new batch; the file's is no longer meant.
      if (rest != global && !by_flags) contradiction(facts, *micro, *accumulation, *world);
    } else if (micro) {
      if (global % rest != 0) contradiction(facts, *micro, global / rest, *world);
      set(all, "accumulation", &Scenario::accumulation, global / rest,
          source(fmt::format("{} of {} / ({} a GPU x {} GPUs)", facts.batch_words, global, *micro,
                             *world)));
    } else {
      if (global % rest != 0) contradiction(facts, global / rest, accumulation.value_or(1), *world);
      set(all, "micro_batch", &Scenario::micro_batch, global / rest,
          source(fmt::format("{} of {} / ({} of accumulation x {} GPUs)", facts.batch_words, global,
                             accumulation.value_or(1), *world)));
      if (!accumulation) {
        set(all, "accumulation", &Scenario::accumulation, 1,
            source(fmt::format("{} in one micro-batch", facts.batch_words)));
      }
    }
    return;
  }
}

// ---- precision, checkpoints, "auto"

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
    if (!takes_selective_op(model.architecture)) {
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
  settle_autos(facts, flags, all);
  ask_what_is_assumed(all);
}

}  // namespace stepcast::jobs

#include "sim/jobs/detect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/toml.hpp"
#include "sim/jobs/readers.hpp"

namespace stepcast::jobs {

namespace {

struct Keys {
  const Value& root;

  const Value* find(std::string_view key) const {
    for (const auto& [name, value] : root.entries) {
      std::string there = name;
      std::replace(there.begin(), there.end(), '-', '_');
      if (there == key) return &value;
    }
    return nullptr;
  }
  bool any(std::initializer_list<const char*> keys) const {
    return std::any_of(keys.begin(), keys.end(), [&](const char* key) { return find(key); });
  }
  bool table(const char* key) const {
    const Value* value = find(key);
    return value != nullptr && value->is_map();
  }
};

bool is_fsdp_config(const Keys& keys) {
  return keys.any({"fsdp_transformer_layer_cls_to_wrap", "transformer_layer_cls_to_wrap",
                   "fsdp_auto_wrap_policy", "fsdp_sharding_strategy", "fsdp_version",
                   "fsdp_offload_params", "backward_prefetch", "reshard_after_forward"});
}

// Comments and commas before a closing bracket made blank, lines kept: DeepSpeed reads Hjson.
std::string without_comments(std::string text) {
  const auto blank = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to && i < text.size(); ++i) {
      if (text[i] != '\n') text[i] = ' ';
    }
  };
  std::size_t comma = std::string::npos;  // the last one, while only blanks follow
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool line = c == '#' || text.compare(i, 2, "//") == 0;
    if (line || text.compare(i, 2, "/*") == 0) {
      const std::size_t end = line ? text.find('\n', i) : text.find("*/", i + 2);
      const std::size_t past = end == std::string::npos ? text.size() : end + (line ? 0 : 2);
      blank(i, past);
      i = past - 1;
    } else if (c == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i) {
        if (text[i] == '\\') ++i;
      }
      comma = std::string::npos;
    } else if (c == ',') {
      comma = i;
    } else if ((c == '}' || c == ']') && comma != std::string::npos) {
      text[comma] = ' ';
      comma = std::string::npos;
    } else if (c != ' ' && c != '\t' && c != '\r' && c != '\n') {
      comma = std::string::npos;
    }
  }
  return text;
}

// Programs whose files are not read, told by keys that only they have.
struct Foreign {
  const char* program;
  std::initializer_list<const char*> keys;  // any of them
};
const Foreign foreign[] = {
    {"verl", {"actor_rollout_ref", "trainer.n_gpus_per_node", "trainer.nnodes"}},
    {"torchtune", {"model._component_", "tokenizer._component_", "optimizer._component_"}},
    {"Levanter", {"trainer.num_train_steps", "trainer.model_axis_size", "trainer.fsdp_axis"}},
    {"MaxText",
     {"ici_fsdp_parallelism", "ici_tensor_parallelism", "dcn_data_parallelism", "base_emb_dim"}},
    {"Megatron-LM",
     {"tensor_model_parallel_size", "pipeline_model_parallel_size", "use_distributed_optimizer"}},
    {"fairseq", {"distributed_training", "optimization.update_freq"}},
    {"Ray", {"scaling_config"}},
    {"SkyPilot", {"resources.accelerators"}},
};

void refuse_foreign(const Keys& keys, const std::string& file) {
  for (const Foreign& other : foreign) {
    for (const std::string_view key : other.keys) {
      const std::size_t dot = key.find('.');
      const Value* there = keys.find(key.substr(0, dot));
      if (there != nullptr && dot != std::string_view::npos) {
        there = there->is_map() ? Keys{*there}.find(key.substr(dot + 1)) : nullptr;
      }
      if (there == nullptr) continue;
      throw InputError({.file = file, .line = there->line, .key = std::string(key)},
                       fmt::format("is of {}, whose files are not read; give the strategy, batch "
                                   "sizes and precision as flags or as a scenario",
                                   other.program));
    }
  }
}

std::optional<Kind> kind_of_toml(const Keys& keys) {
  if (keys.table("training") || keys.table("parallelism") ||
      (keys.table("job") && keys.table("model"))) {
    return Kind::torchtitan;
  }
  return std::nullopt;
}

// Of YAML and JSON. The order matters only where kinds share keys: a Trainer's file may name
// gradient_accumulation_steps, as DeepSpeed's does.
std::optional<Kind> kind_of(const Keys& keys, Syntax syntax) {
  if (const Value* within = keys.find("parameters"); within != nullptr && within->is_map()) {
    const Keys inner{*within};
    if (inner.any({"fsdp_config", "device_train_microbatch_size", "global_train_batch_size"})) {
      return Kind::llm_foundry;
    }
  }
  if (keys.any({"distributed_type", "compute_environment"})) return Kind::accelerate;
  if (keys.any({"device_train_microbatch_size", "global_train_batch_size"}) ||
      (keys.any({"max_duration"}) && keys.any({"fsdp_config", "train_loader"}))) {
    return Kind::llm_foundry;
  }
  if (keys.any({"pipe_parallel_size", "model_parallel_size"}) ||
      (keys.any({"num_layers"}) &&
       keys.any({"train_micro_batch_size_per_gpu", "zero_optimization"}))) {
    return Kind::gpt_neox;
  }
  if (keys.table("parallelism") && keys.any({"tokens", "data_stages"})) return Kind::nanotron;
  if (keys.any({"base_model"})) return Kind::axolotl;
  if (keys.any({"finetuning_type", "cutoff_len"})) return Kind::llama_factory;
  if (keys.any({"zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size"})) {
    return Kind::deepspeed;
  }
  if (keys.table("trainer")) return Kind::lightning;
  if (keys.any({"per_device_train_batch_size", "output_dir", "num_train_epochs",
                "model_name_or_path"})) {
    return Kind::trainer;
  }
  if (keys.table("train") && keys.any({"devices", "precision", "checkpoint_dir"})) {
    return Kind::litgpt;
  }
  if (keys.any({"strategy"}) && keys.any({"devices", "num_nodes"})) return Kind::lightning;
  if (syntax == Syntax::json &&
      keys.any({"model_type", "architectures", "hidden_size", "n_embd", "d_model"}) &&
      keys.any({"vocab_size", "hidden_size", "num_hidden_layers", "n_layer", "image_size",
                "text_config", "n_layers"})) {
    return Kind::model_config;
  }
  if (keys.any({"fsdp", "fsdp_config", "gradient_checkpointing", "deepspeed"}))
    return Kind::trainer;
  if (keys.any({"num_processes", "num_machines", "parallelism_config", "deepspeed_config"})) {
    return Kind::accelerate;
  }
  if (keys.table("fp16") || keys.table("bf16") || keys.any({"steps_per_print"})) {
    return Kind::deepspeed;
  }
  if (is_fsdp_config(keys)) return Kind::trainer;
  return std::nullopt;
}

void refuse_what_is_ours(const Value& root, const std::string& file) {
  const Value* strategy = root.find("strategy");
  const Value* cluster = root.find("cluster");
  const Value* model = root.find("model");
  const auto text = [](const Value* v) { return v != nullptr && v->kind == Value::Kind::text; };
  if (!text(cluster) && !(text(model) && text(strategy))) return;
  throw InputError({.file = file, .line = 0, .key = ""},
                   "is a scenario of stepcast's own; give it as the scenario, without --from");
}

// An empty file has no syntax but that of its name.
Syntax syntax_of_name(const std::string& file, Syntax otherwise) {
  const std::string ending = std::filesystem::path(file).extension().string();
  if (ending == ".toml") return Syntax::toml;
  if (ending == ".json") return Syntax::json;
  if (ending == ".yaml" || ending == ".yml") return Syntax::yaml;
  return otherwise;
}

// Who writes files in it.
const char* kinds_in(Syntax syntax) {
  switch (syntax) {
    case Syntax::toml: return "torchtitan";
    case Syntax::json:
      return "DeepSpeed, accelerate, Trainer, LLaMA-Factory, torchtitan (TOML), or a Hugging Face "
             "config.json";
    case Syntax::yaml: break;
  }
  return "accelerate, Trainer, LLaMA-Factory, axolotl, llm-foundry, Lightning, litgpt, nanotron, "
         "GPT-NeoX, torchtitan (TOML), DeepSpeed (JSON), or a Hugging Face config.json (JSON)";
}

[[noreturn]] void unknown_kind(const ParsedValue& parsed, const std::string& file) {
  const bool empty = parsed.root.is_null() || (parsed.root.is_map() && parsed.root.entries.empty());
  const Syntax syntax = empty ? syntax_of_name(file, parsed.syntax) : parsed.syntax;
  throw InputError(
      {.file = file, .line = 0, .key = ""},
      fmt::format("{}; accepted: {} of {}",
                  empty ? "says nothing" : fmt::format("is {} of no known kind", to_string(syntax)),
                  to_string(syntax), kinds_in(syntax)));
}

// A file that is nothing but FSDP's settings: what the Trainer takes as --fsdp_config.
Value as_fsdp_config(const Value& root) {
  Value outer;
  outer.kind = Value::Kind::map;
  outer.line = root.line;
  outer.entries.push_back({"fsdp_config", root});
  return outer;
}

}  // namespace

namespace {

// The same error as without it, where comments are not what is wrong.
ParsedValue parsed_with_comments(const std::string& text, const std::string& file, bool& comments) {
  try {
    return parse_value(text, file);
  } catch (const InputError&) {
    const std::string plain = without_comments(text);
    const std::size_t start = plain.find_first_not_of(" \t\r\n");
    if (plain == text || start == std::string::npos || plain[start] != '{') throw;
    ParsedValue parsed;
    try {
      parsed = parse_value(plain, file);
    } catch (const InputError&) {
      parsed.root = {};
    }
    comments = true;
    if (parsed.root.is_map() && kind_of({parsed.root}, parsed.syntax) == Kind::deepspeed) {
      return parsed;
    }
    throw;
  }
}

}  // namespace

Job parse_job(const std::string& text, const std::string& file) {
  if (is_blank(text)) unknown_kind({}, file);
  bool comments = false;
  ParsedValue parsed = parsed_with_comments(text, file, comments);
  if (!parsed.root.is_map()) unknown_kind(parsed, file);
  const Keys keys{parsed.root};
  std::optional<Kind> kind;
  if (parsed.syntax == Syntax::toml) {
    kind = kind_of_toml(keys);
    if (!kind) refuse_what_is_ours(parsed.root, file);
  } else {
    kind = kind_of(keys, parsed.syntax);
    if (!kind || kind == Kind::trainer || kind == Kind::lightning) refuse_foreign(keys, file);
  }
  if (!kind) unknown_kind(parsed, file);
  Job job;
  job.kind = *kind;
  job.file = file;
  job.syntax = to_string(parsed.syntax);
  if (comments) job.syntax += " with comments";
  switch (*kind) {
    case Kind::deepspeed: read_deepspeed(parsed.root, job); break;
    case Kind::accelerate: read_accelerate(parsed.root, job); break;
    case Kind::trainer:
    case Kind::llama_factory:
    case Kind::axolotl: {
      resolve_references(parsed.root);
      const bool bare = is_fsdp_config(keys) && !keys.any({"fsdp_config", "fsdp", "output_dir",
                                                           "per_device_train_batch_size",
                                                           "base_model", "model_name_or_path"});
      read_trainer(bare ? as_fsdp_config(parsed.root) : parsed.root, job);
      break;
    }
    case Kind::torchtitan: read_torchtitan(parsed.root, job); break;
    case Kind::llm_foundry:
      resolve_references(parsed.root);
      read_llm_foundry(parsed.root, job);
      break;
    case Kind::lightning:
      resolve_references(parsed.root);
      read_lightning(parsed.root, job);
      break;
    case Kind::litgpt: read_litgpt(parsed.root, job); break;
    case Kind::nanotron: read_nanotron(parsed.root, job); break;
    case Kind::gpt_neox: read_gpt_neox(parsed.root, job); break;
    case Kind::model_config:
      job.set("model", &Scenario::model, file,
              Source{Origin::file, {.file = file, .line = 0, .key = ""}, "the model itself"});
      break;
  }
  return job;
}

Job read_job(const std::string& path) {
  return parse_job(read_file(path, static_cast<std::int64_t>(most_bytes)), path);
}

std::vector<Job> read_jobs(const std::vector<std::string>& paths) {
  namespace fs = std::filesystem;
  std::vector<Job> jobs;
  for (const std::string& path : paths) jobs.push_back(read_job(path));
  const auto is_deepspeed = [](const Job& job) { return job.kind == Kind::deepspeed; };
  if (std::any_of(jobs.begin(), jobs.end(), is_deepspeed)) return jobs;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto named = jobs[i].deepspeed_file;
    if (!named) continue;
    std::error_code none;
    const fs::path folder = fs::path(jobs[i].file).parent_path();
    std::string found;
    for (const fs::path& there : {fs::path(named->value), folder / named->value,
                                  folder / fs::path(named->value).filename()}) {
      if (found.empty() && fs::is_regular_file(there, none)) found = there.string();
    }
    if (found.empty()) {
      throw InputError(named->source.where,
                       fmt::format("names {}, which is not there; give that DeepSpeed file as "
                                   "another --from",
                                   shown(text_scalar(named->value, 0))));
    }
    jobs.push_back(read_job(found));
    break;
  }
  return jobs;
}

}  // namespace stepcast::jobs

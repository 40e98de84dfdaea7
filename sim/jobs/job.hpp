#pragma once
// What a job file of another framework says of a training step, and where it says it.
//
// A reader (deepspeed.cpp, accelerate.cpp, ...) turns one file into a Job: the keys of a Scenario
// that follow from the file alone, and facts that need more than one file, the model or the
// cluster to become keys (batch sizes, dtypes, "auto"). combine() (combine.hpp) puts jobs and flags
// together. Every value carries a Source, so that a message, or a comment in an imported scenario,
// can say where it is from:
//
//   file      the file says it                     reduce_bucket_size = 500000000 (ds.json:12)
//   standard  it does not, and the framework's     DeepSpeed 0.19's default
//             own default holds
//   derived   worked out from others               train_batch_size / (micro-batch x GPUs)
//   flag      said on the command line
//
// Every key of a file is one of: used; irrelevant (known not to change a step's time or memory as
// stepcast counts them); unsupported (would change it, in a way that is not simulated); unknown.
// The last two stop a forecast unless they are ignored on purpose.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/tree.hpp"
#include "sim/forecast/scenario.hpp"

namespace stepcast::jobs {

using namespace tree;  // a job file is one

enum class Kind : std::uint8_t {
  deepspeed,
  accelerate,
  trainer,        // Hugging Face TrainingArguments
  llama_factory,  // the same with LLaMA-Factory's keys
  axolotl,        // the same with axolotl's
  torchtitan,
  llm_foundry,
  lightning,
  litgpt,
  nanotron,
  gpt_neox,
  model_config,  // a Hugging Face config.json: no job, but what is trained
};
const char* to_string(Kind kind);

enum class Origin : std::uint8_t { standard, derived, file, flag };  // later ones win

struct Source {
  Origin origin = Origin::file;
  Where where;       // file, line and key in the file
  std::string text;  // "zero_optimization.stage = 3", "DeepSpeed 0.19's default"
};

template <typename T>
struct Fact {
  T value{};
  Source source;
};

// Something the file asks for that is not simulated as it says.
struct Unsupported {
  Where where;
  std::string sentence;    // "CPU offload of the optimizer is not simulated"
  std::string settled_by;  // a key of the scenario that replaces it when it is said by flag; or ""
  bool strategy = false;   // of the strategy: gone when flags choose another
};

// Something that must be known and that the file leaves to others.
struct Asked {
  std::string key;  // of the scenario
  Where where;
  std::string sentence;   // "\"auto\" is the Trainer's per_device_train_batch_size; give ..."
  bool required = false;  // without it there is no forecast; otherwise stepcast has a default
};

// Hugging Face's rules for "auto", which need the model's hidden size.
enum class AutoRule : std::uint8_t { hidden_squared, nine_tenths_hidden_squared, ten_hidden };

struct Job {
  Kind kind = Kind::deepspeed;
  std::string file;
  std::string syntax;  // "JSON"

  // What follows from the file alone. Keys that are set have a source under the same name.
  Scenario scenario;
  std::map<std::string, Source> sources;

  // What follows once more is known.
  std::optional<Fact<std::int64_t>> micro_batch, accumulation, global_batch;
  std::string batch_words = "global batch";    // how the framework calls it
  std::optional<Fact<std::string>> model;      // a name of the hub, or of the framework
  std::optional<Fact<std::string>> dtype;      // bf16, fp16, fp32 of the Hugging Face family
  std::optional<Fact<bool>> pure_16;           // parameters are held in bf16 without a master
  std::optional<Fact<std::int64_t>> world;     // GPUs that the degrees make
  std::optional<Fact<std::int64_t>> replicas;  // HSDP: groups; the shard group is world / replicas
  // GPUs of one replica by dimension, where more than 1: "tensor-parallel", "pipeline-parallel",
  // "context-parallel".
  std::map<std::string, Fact<std::int64_t>> degrees;
  bool gpus_are_replicas = false;  // scenario.gpus counts replicas, not the GPUs in them
  std::map<std::string, Fact<AutoRule>> autos;  // by key of the scenario
  // Sizes of a model that the file spells out: hidden, layers, heads, ffn_hidden, vocabulary, ...
  std::map<std::string, Fact<std::int64_t>> sizes;
  std::optional<Fact<std::string>> deepspeed_file;  // the DeepSpeed JSON that it names
  bool through_deepspeed = false;  // the strategy is DeepSpeed's, its precision recipes too
  bool gradient_checkpointing_outside_unit = false;  // the model's own checkpoints (transformers)

  std::vector<Unsupported> unsupported;
  std::vector<Unsupported> approximate;  // simulated as the nearest thing: said in the report
  std::vector<Asked> asked;
  std::vector<std::string> irrelevant;  // dotted keys
  struct Unknown {
    Where where;
    std::string nearest;  // or ""
  };
  std::vector<Unknown> unknown;

  template <typename T, typename V>
  void set(const char* key, std::optional<T> Scenario::*field, V value, Source source) {
    scenario.*field = static_cast<T>(std::move(value));
    scenario.said[key] = source.where;
    sources[key] = std::move(source);
  }
  // "bf16.enabled = true (ds.json:3)": for contradictions.
};

// "FILE:LINE: KEY = VALUE" without the file, for messages about two places at once.
std::string place(const Source& source);

Source standard(const Job& job, std::string text);

}  // namespace stepcast::jobs

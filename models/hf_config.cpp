// config.json of a Hugging Face model -> Architecture: which reader a file is for. Those of the
// families that models/layout.hpp knows are in hf_layout.cpp; the others are put together from
// parts, in hf_dense.cpp, hf_gpt.cpp, hf_experts.cpp, hf_hybrids.cpp and hf_encoders.cpp.
//
// A file is known by its model_type, else by the class that `architectures` names, else (Google's
// first bert files) by its keys. A file with a text_config (InternVL: llm_config; Janus:
// language_config) is read as the language model in it; its vision or audio tower is left out,
// which every forecast says. LLaVA's own files hold the language model's keys beside
// mm_vision_tower.
//
// Sizes must stand in the file: a missing hidden_size is an error, not the default of some class.
// Within a text_config transformers leaves out what is its class's (hf_defaults.cpp).
// Switches take transformers' defaults, because files leave them out: tie_word_embeddings is false
// for llama, mistral, mixtral, qwen2 and qwen3 and true for gpt2, mpt and bert; num_key_value_heads
// are the heads, head_dim is hidden / heads. What would change the shapes and is not built is
// refused by name, so a model that is read is read right.
//
// A file of bert or vit says in `architectures` which heads it has. bert: BertForPreTraining (also
// where nothing is said) or BertForMaskedLM; vit: ViTForImageClassification, with as many classes
// as id2label names (2 where it is left out, as in transformers).
//
// Source of keys and defaults: the configuration_*.py of transformers 4.x, llm-foundry's
// configuration_mpt.py. Tested by tests/unit/models/hf_config_test.cpp.

#include "models/hf_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "models/architecture.hpp"
#include "models/hf_read.hpp"
#include "models/json_reader.hpp"

namespace stepcast {
namespace {

using hf::Read;
using hf::refuse_if;

struct ModelType {
  std::string_view name;
  Read (*read)(const JsonReader&);
  // The class that `architectures` names, where a file has no model_type.
  std::string_view architecture = {};
};

constexpr ModelType model_types[] = {
    {"llama", hf::read_llama, "LlamaForCausalLM"},
    {"llava", hf::read_llama},  // the authors' own files: one level, no text_config
    {"llava_llama", hf::read_llama, "LlavaLlamaForCausalLM"},
    {"llava_mistral", hf::read_mistral, "LlavaMistralForCausalLM"},
    {"llava_qwen", hf::read_qwen2, "LlavaQwenForCausalLM"},
    {"mistral", hf::read_mistral, "MistralForCausalLM"},
    {"ministral", hf::read_mistral},
    {"ministral3", hf::read_mistral},
    {"internlm", hf::read_internlm, "InternLMForCausalLM"},
    {"baichuan", hf::read_baichuan, "BaichuanForCausalLM"},
    {"mixtral", hf::read_mixtral, "MixtralForCausalLM"},
    {"qwen2", hf::read_qwen2, "Qwen2ForCausalLM"},
    {"qwen3", hf::read_qwen3, "Qwen3ForCausalLM"},
    {"qwen2_vl", hf::read_qwen2},
    {"qwen2_5_vl", hf::read_qwen2},
    {"qwen3_vl", hf::read_qwen3},
    {"qwen3_vl_moe", hf::read_qwen_moe},
    {"granite", hf::read_llama, "GraniteForCausalLM"},
    {"minicpm", hf::read_tied_llama, "MiniCPMForCausalLM"},
    {"helium", hf::read_llama, "HeliumForCausalLM"},
    {"smollm3", hf::read_tied_llama, "SmolLM3ForCausalLM"},
    {"seed_oss", hf::read_seed_oss, "SeedOssForCausalLM"},
    {"ernie4_5", hf::read_ernie, "Ernie4_5ForCausalLM"},
    {"gemma", hf::read_gemma, "GemmaForCausalLM"},
    {"gemma2", hf::read_gemma2, "Gemma2ForCausalLM"},
    {"gemma3", hf::read_gemma3, "Gemma3ForCausalLM"},
    {"phi", hf::read_phi, "PhiForCausalLM"},
    {"phi3", hf::read_phi3, "Phi3ForCausalLM"},
    {"phi3_v", hf::read_phi3, "Phi3VForCausalLM"},
    {"phi-msft", hf::read_phi_msft},
    {"gpt2", hf::read_gpt2, "GPT2LMHeadModel"},
    {"gptj", hf::read_gptj, "GPTJForCausalLM"},
    {"codegen", hf::read_codegen, "CodeGenForCausalLM"},
    {"gpt_neo", hf::read_gpt_neo, "GPTNeoForCausalLM"},
    {"gpt_neox", hf::read_gpt_neox, "GPTNeoXForCausalLM"},
    {"gpt_bigcode", hf::read_gpt_bigcode, "GPTBigCodeForCausalLM"},
    {"opt", hf::read_opt, "OPTForCausalLM"},
    {"bloom", hf::read_bloom, "BloomForCausalLM"},
    {"falcon", hf::read_falcon, "FalconForCausalLM"},
    {"RefinedWeb", hf::read_falcon, "RWForCausalLM"},
    {"RefinedWebModel", hf::read_falcon},
    {"mpt", hf::read_mpt, "MPTForCausalLM"},
    {"olmo", hf::read_olmo, "OlmoForCausalLM"},
    {"olmo2", hf::read_olmo2, "Olmo2ForCausalLM"},
    {"olmo3", hf::read_olmo2, "Olmo3ForCausalLM"},
    {"stablelm", hf::read_stablelm, "StableLmForCausalLM"},
    {"stablelm_epoch", hf::read_stablelm, "StableLMEpochForCausalLM"},
    {"starcoder2", hf::read_starcoder2, "Starcoder2ForCausalLM"},
    {"internlm2", hf::read_internlm2, "InternLM2ForCausalLM"},
    {"cohere", hf::read_cohere, "CohereForCausalLM"},
    {"cohere2", hf::read_cohere, "Cohere2ForCausalLM"},
    {"nemotron", hf::read_nemotron, "NemotronForCausalLM"},
    {"glm", hf::read_glm, "GlmForCausalLM"},
    {"glm4", hf::read_glm, "Glm4ForCausalLM"},
    {"chatglm", hf::read_chatglm, "ChatGLMModel"},
    {"qwen", hf::read_qwen, "QWenLMHeadModel"},
    {"qwen2_moe", hf::read_qwen_moe, "Qwen2MoeForCausalLM"},
    {"qwen3_moe", hf::read_qwen_moe, "Qwen3MoeForCausalLM"},
    {"olmoe", hf::read_olmoe, "OlmoeForCausalLM"},
    {"phimoe", hf::read_phimoe, "PhimoeForCausalLM"},
    {"granitemoe", hf::read_granitemoe, "GraniteMoeForCausalLM"},
    {"deepseek", hf::read_glm4_moe, "DeepseekForCausalLM"},
    {"deepseek_v2", hf::read_deepseek, "DeepseekV2ForCausalLM"},
    {"deepseek_v3", hf::read_deepseek, "DeepseekV3ForCausalLM"},
    {"deepseek_v32", hf::read_deepseek},
    {"kimi_k2", hf::read_deepseek},
    {"glm4_moe", hf::read_glm4_moe, "Glm4MoeForCausalLM"},
    {"glm_moe_dsa", hf::read_deepseek},
    {"gpt_oss", hf::read_gpt_oss, "GptOssForCausalLM"},
    {"llama4", hf::read_llama4, "Llama4ForCausalLM"},
    {"jamba", hf::read_jamba, "JambaForCausalLM"},
    {"nemotron_h", hf::read_nemotron_h, "NemotronHForCausalLM"},
    {"mamba", hf::read_mamba, "MambaForCausalLM"},
    {"mamba2", hf::read_mamba2, "Mamba2ForCausalLM"},
    {"qwen3_next", hf::read_qwen3_next, "Qwen3NextForCausalLM"},
    {"qwen3_5", hf::read_qwen3_next},
    {"qwen3_5_moe", hf::read_qwen3_next},
    {"bert", hf::read_bert, "BertForPreTraining"},
    {"roberta", hf::read_roberta, "RobertaForMaskedLM"},
    {"xlm-roberta", hf::read_roberta, "XLMRobertaForMaskedLM"},
    {"camembert", hf::read_roberta, "CamembertForMaskedLM"},
    {"distilbert", hf::read_distilbert, "DistilBertForMaskedLM"},
    {"vit", hf::read_vit, "ViTForImageClassification"},
    {"t5", hf::read_t5, "T5ForConditionalGeneration"},
    {"mt5", hf::read_t5, "MT5ForConditionalGeneration"},
    {"umt5", hf::read_t5, "UMT5ForConditionalGeneration"},
    {"whisper", hf::read_whisper, "WhisperForConditionalGeneration"}};

// All of them cost the same here: one pass over the MLP's inner activations. A name that is none of
// them may be something else, so it is refused.
void check_activation(const JsonReader& json) {
  static const std::vector<std::string> known{
      "silu",       "swish", "gelu",  "gelu_new", "gelu_fast", "gelu_pytorch_tanh",
      "quick_gelu", "relu",  "relu2", "tanh",     "gelu_10",   "xielu"};
  for (const char* key : {"hidden_act", "activation_function", "hidden_activation"}) {
    const auto name = json.optional_string(key);
    if (name && std::find(known.begin(), known.end(), *name) == known.end()) {
      throw not_accepted(json.where(key), *name, known);
    }
  }
}

// "gemma3_text" and "mllama_text_model" are the language model of a file with a vision tower.
std::string_view without_text(std::string_view type) {
  for (const std::string_view end : {"_text_model", "_text"}) {
    if (type.ends_with(end)) return type.substr(0, type.size() - end.size());
  }
  return type;
}

// What a file is of, where it does not say: the class that it names, else Google's first files of
// bert, which name neither.
std::string guessed_type(const JsonReader& json) {
  const std::vector<std::string> classes = json.strings("architectures");
  if (!classes.empty()) {
    for (const ModelType& known : model_types) {
      if (!known.architecture.empty() && known.architecture == classes.front()) {
        return std::string(known.name);
      }
    }
    throw InputError(json.where("architectures"),
                     fmt::format("'{}' is not known, and there is no model_type; accepted: one of "
                                 "the families that are read",
                                 classes.front()));
  }
  if (json.has("type_vocab_size") && json.has("hidden_size")) return "bert";
  return json.string("model_type", "one of the families that are read");
}

// Heads of other tasks have other parameters than a language model's.
void check_task(const JsonReader& json) {
  for (const std::string& name : json.strings("architectures")) {
    for (const char* task :
         {"ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering",
          "ForMultipleChoice", "RewardModel", "Eagle", "Eagle3"}) {
      refuse_if(json, "architectures", name.ends_with(task),
                "'" + name.substr(0, 80) +
                    "' has a head that is not built; accepted: models for language modelling, "
                    "BertForPreTraining, ViTForImageClassification");
    }
  }
}

// "MistralModel", as files of text embedders say: without the head that is built here.
// ChatGLM's class with a head is called so too.
void say_missing_head(const JsonReader& json, Read& read) {
  const std::vector<std::string> classes = json.strings("architectures");
  if (classes.empty() || read.sizes.tied_embeddings || classes.front() == "ChatGLMModel") return;
  const std::string& name = classes.front();
  if (!name.ends_with("Model") || name.ends_with("LMHeadModel")) return;
  read.approximations.push_back(
      fmt::format("architectures: {} has no head for language modelling; one is counted and run: "
                  "{} parameters",
                  name.substr(0, 80), read.sizes.vocabulary * read.sizes.hidden));
}

std::string type_of(const JsonReader& json) {
  const auto given = json.optional_string("model_type");
  return given ? std::string(without_text(*given)) : guessed_type(json);
}

Read read_text(const JsonReader& json) {
  const std::string type = type_of(json);
  for (const ModelType& known : model_types) {
    if (known.name != type) continue;
    check_activation(json);
    if (type != "bert" && type != "vit") check_task(json);  // which have heads of their own
    // Readers of several types ask for it.
    Read read = known.read(json.completed({{"model_type", 0, known.name}}));
    say_missing_head(json, read);
    return read;
  }
  throw not_accepted(json.where("model_type"), type, hf_model_types());
}

// Where a file of several models holds the language model's keys; "": it holds nothing else.
std::string_view language_key(const JsonReader& json) {
  for (const std::string_view key : {"text_config", "llm_config", "language_config"}) {
    if (json.has(key)) return key;
  }
  return "";
}

// What a nested configuration leaves out, as its class has it.
Read read_nested(const JsonReader& json, std::string_view key) {
  const std::vector<JsonReader::Completion>& sizes = hf::class_sizes(type_of(json));
  std::string left_out;
  for (const JsonReader::Completion& size : sizes) {
    if (json.holds(size.key)) continue;
    left_out += fmt::format("{}{} {}", left_out.empty() ? "" : ", ", size.key, size.integer);
  }
  Read read = read_text(json.completed(sizes));
  if (!left_out.empty()) {
    read.approximations.push_back(fmt::format(
        "{}: leaves out what is its class's in transformers, which holds: {}", key, left_out));
  }
  return read;
}

// Files of models that see and hear hold the language model's keys in text_config.
Read read_architecture(const JsonReader& json) {
  std::vector<std::string> left_out;
  for (const char* key : {"vision_config", "audio_config", "vision_tower", "mm_vision_tower",
                          "speech_config", "img_processor"}) {
    if (json.has(key)) {
      left_out.push_back(fmt::format(
          "{}: neither counted nor run; parameters and times are the language model's", key));
    }
  }
  if (json.has("quantization_config")) {
    left_out.emplace_back("quantization_config: parameters are counted and trained as without it");
  }
  const std::string_view key = language_key(json);
  const auto text = key.empty() ? std::nullopt
                                : json.object_inheriting(
                                      key, {"model_type", "tie_word_embeddings", "architectures"});
  Read read = text ? read_nested(*text, key) : read_text(json);
  read.approximations.insert(read.approximations.end(), left_out.begin(), left_out.end());
  return read;
}

Dtype read_dtype(const JsonReader& json) {
  const std::string_view key = json.has("dtype") ? "dtype" : "torch_dtype";
  const auto text = json.optional_string(key);
  if (!text) {
    const std::string_view inner = language_key(json);
    return inner.empty() ? Dtype::fp32 : read_dtype(*json.object(inner));
  }
  const auto dtype = parse_dtype(*text);
  if (!dtype) {
    throw not_accepted(json.where(key), *text, {"float32", "float16", "bfloat16"});
  }
  return *dtype;
}

}  // namespace

std::vector<std::string> hf_model_types() {
  std::vector<std::string> names;
  for (const ModelType& known : model_types) names.emplace_back(known.name);
  return names;
}

Model model_from_hf_text(const std::string& text, const std::string& file,
                         const std::string& model_name, std::int64_t image_size) {
  const JsonReader json = JsonReader::from_text(text, file);
  Read read = read_architecture(json);
  const Dtype dtype = read_dtype(json);
  if (read.sizes.family == Family::vit && image_size > 0) read.sizes.image_size = image_size;
  if (const auto problem = complete(read.sizes)) {
    for (const auto& [field, key] : read.keys) {
      if (field != problem->field) continue;
      const std::string_view inner = language_key(json);
      const JsonReader language = inner.empty() ? json : *json.object(inner);
      throw InputError((language.has(key) ? language : json).where(key), problem->message);
    }
    throw InputError({file, 0, std::string(problem->field)}, problem->message);
  }
  Model model = build_model(model_name, read.sizes);
  model.source = file;
  model.stored_dtype = dtype;
  model.approximations.insert(model.approximations.end(), read.approximations.begin(),
                              read.approximations.end());
  return model;
}

}  // namespace stepcast

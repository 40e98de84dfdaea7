// config.json of a Hugging Face model -> Architecture: which reader a file is for, and the readers
// of the families that models/layout.hpp knows. The others are put together from parts, in
// hf_dense.cpp, hf_experts.cpp, hf_hybrids.cpp and hf_encoders.cpp.
//
// A file is known by its model_type, else by the class that `architectures` names, else (Google's
// first bert files) by its keys. A file with a text_config is read as the language model in it; its
// vision or audio tower is left out, which every forecast says.
//
// Sizes must stand in the file: a missing hidden_size is an error, not the default of some class.
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

using hf::drops;
using hf::first_of;
using hf::Read;
using hf::refuse_if;

// llama, mistral, qwen2, qwen3: one module structure.
Read read_llama_like(const JsonReader& json) {
  Read read;
  Architecture& a = read.sizes;
  a.family = Family::llama;
  read.take(json, "hidden", "hidden_size", a.hidden);
  read.take(json, "layers", "num_hidden_layers", a.layers);
  read.take(json, "heads", "num_attention_heads", a.heads);
  read.take(json, "ffn_hidden", "intermediate_size", a.ffn_hidden);
  read.take(json, "vocabulary", "vocab_size", a.vocabulary);
  read.take_optional(json, "kv_heads", "num_key_value_heads", a.kv_heads);
  read.take_optional(json, "head_size", "head_dim", a.head_size);
  read.take_optional(json, "max_positions", "max_position_embeddings", a.max_positions);
  a.tied_embeddings = json.boolean_or("tie_word_embeddings", false);
  a.attention_dropout = drops(json, "attention_dropout", 0.0);
  return read;
}

Read dense(const JsonReader& json, Read read) {
  for (const std::string_view key : {"num_local_experts", "num_experts", "n_routed_experts"}) {
    refuse_if(json, key, json.optional_integer(key).value_or(0) > 1,
              "experts are read for other model_types (mixtral, qwen3_moe, ...); accepted: dense "
              "models");
  }
  return read;
}

Read read_llama(const JsonReader& json) {
  Read read = dense(json, read_llama_like(json));
  read.sizes.attention_bias = json.boolean_or("attention_bias", false);
  read.sizes.attention_output_bias = read.sizes.attention_bias;
  read.sizes.mlp_bias = json.boolean_or("mlp_bias", false);
  return read;
}

// A window that is shorter than the longest sequence leaves out pairs of tokens.
bool has_window(const JsonReader& json) {
  const auto window = json.optional_integer("sliding_window");
  const auto longest = json.optional_integer("max_position_embeddings");
  return window && (!longest || *window < *longest);
}

Read read_mistral(const JsonReader& json) {
  if (has_window(json)) return hf::read_windowed_llama(json, false, 0);
  return dense(json, read_llama_like(json));
}

Read read_internlm(const JsonReader& json) {
  Read read = dense(json, read_llama_like(json));
  read.sizes.attention_bias = read.sizes.attention_output_bias = json.boolean_or("bias", true);
  return read;
}

// attention_out_bias, unlike Llama's.
Read read_seed_oss(const JsonReader& json) {
  Read read = dense(json, read_llama_like(json));
  read.sizes.attention_bias = json.boolean_or("attention_bias", true);
  read.sizes.attention_output_bias = json.boolean_or("attention_out_bias", false);
  read.sizes.mlp_bias = json.boolean_or("mlp_bias", false);
  return read;
}

Read read_ernie(const JsonReader& json) {
  Read read = dense(json, read_llama_like(json));
  const bool biases = json.boolean_or("use_bias", false);
  read.sizes.tied_embeddings = json.boolean_or("tie_word_embeddings", true);
  read.sizes.attention_bias = read.sizes.attention_output_bias = read.sizes.mlp_bias = biases;
  return read;
}

Read read_mixtral(const JsonReader& json) {
  Read read = read_llama_like(json);
  read.sizes.family = Family::mixtral;
  read.take(json, "experts", "num_local_experts", read.sizes.experts);
  read.take(json, "experts_per_token", "num_experts_per_tok", read.sizes.experts_per_token);
  return read;
}

Read read_qwen2(const JsonReader& json) {
  if (json.boolean_or("use_sliding_window", false) && has_window(json)) {
    return hf::read_windowed_llama(json, true,
                                   json.optional_integer("max_window_layers").value_or(28));
  }
  Read read = dense(json, read_llama_like(json));
  read.sizes.attention_bias = true;  // q, k, v; fixed in the module, no key
  return read;
}

Read read_qwen3(const JsonReader& json) {
  Read read = dense(json, read_llama_like(json));
  if (read.sizes.head_size == 0) read.sizes.head_size = 128;  // Qwen3Config's, not hidden / heads
  read.sizes.attention_bias = json.boolean_or("attention_bias", false);
  read.sizes.attention_output_bias = read.sizes.attention_bias;
  read.sizes.query_key_norm = true;
  return read;
}

// GPT-2 has two names for some sizes (GPT2Config.attribute_map).
Read read_gpt2(const JsonReader& json) {
  Read read;
  Architecture& a = read.sizes;
  a.family = Family::gpt2;
  read.take(json, "hidden", first_of(json, "n_embd", "hidden_size"), a.hidden);
  read.take(json, "layers", first_of(json, "n_layer", "num_hidden_layers"), a.layers);
  read.take(json, "heads", first_of(json, "n_head", "num_attention_heads"), a.heads);
  read.take(json, "vocabulary", "vocab_size", a.vocabulary);
  read.take(json, "max_positions", first_of(json, "n_positions", "max_position_embeddings"),
            a.max_positions);
  a.ffn_hidden = 4 * std::min(a.hidden, SizeLimits::hidden);
  read.take_optional(json, "ffn_hidden", "n_inner", a.ffn_hidden);
  a.learned_positions = true;
  a.tied_embeddings = json.boolean_or("tie_word_embeddings", true);
  a.attention_bias = a.attention_output_bias = a.mlp_bias = a.norm_bias = true;
  a.embedding_dropout = drops(json, "embd_pdrop", 0.1);
  a.attention_dropout = drops(json, "attn_pdrop", 0.1);
  a.residual_dropout = drops(json, "resid_pdrop", 0.1);
  refuse_if(json, "add_cross_attention", json.boolean_or("add_cross_attention", false),
            "is true; accepted: false, cross attention is not built");
  return read;
}

Read read_mpt(const JsonReader& json) {
  Read read;
  Architecture& a = read.sizes;
  a.family = Family::mpt;
  read.take(json, "hidden", "d_model", a.hidden);
  read.take(json, "layers", "n_layers", a.layers);
  read.take(json, "heads", "n_heads", a.heads);
  read.take(json, "vocabulary", "vocab_size", a.vocabulary);
  read.take(json, "max_positions", "max_seq_len", a.max_positions);
  std::int64_t ratio = 4;
  read.take_optional(json, "expansion_ratio", "expansion_ratio", ratio);
  if (ratio > SizeLimits::ffn_hidden) ratio = SizeLimits::ffn_hidden;
  a.ffn_hidden = ratio * std::min(a.hidden, SizeLimits::hidden);
  read.keys.emplace_back("ffn_hidden", "expansion_ratio");

  const bool biases = !json.boolean_or("no_bias", true);
  a.attention_bias = a.attention_output_bias = a.mlp_bias = a.norm_bias = biases;
  a.tied_embeddings = json.boolean_or("tie_word_embeddings", true);
  a.embedding_dropout = drops(json, "emb_pdrop", 0.0);
  a.residual_dropout = drops(json, "resid_pdrop", 0.0);
  bool alibi = true;
  if (const auto attention = json.object("attn_config")) {
    alibi = attention->boolean_or("alibi", true);
    a.attention_dropout = drops(*attention, "attn_pdrop", 0.0);
    const std::string type =
        attention->optional_string("attn_type").value_or("multihead_attention");
    if (type == "multiquery_attention") {
      a.kv_heads = 1;
    } else if (type == "grouped_query_attention") {
      a.kv_heads = attention->integer("kv_n_heads");
      read.keys.emplace_back("kv_heads", "attn_config.kv_n_heads");
      if (a.kv_heads < 1) {
        throw InputError(attention->where("kv_n_heads"),
                         fmt::format("{} is not a size; accepted: 1 or more", a.kv_heads));
      }
    } else if (type != "multihead_attention") {
      throw not_accepted(
          attention->where("attn_type"), type,
          {"multihead_attention", "multiquery_attention", "grouped_query_attention"});
    }
    for (const std::string_view key : {"qk_ln", "qk_gn", "rope"}) {
      refuse_if(*attention, key, attention->boolean_or(key, false),
                "is true; accepted: false, it is not built for mpt");
    }
  }
  // ALiBi turns the learned positions off.
  a.learned_positions = !alibi && json.boolean_or("learned_pos_emb", true);
  if (const auto ffn = json.object("ffn_config")) {
    const std::string type = ffn->optional_string("ffn_type").value_or("mptmlp");
    if (type != "mptmlp") throw not_accepted(ffn->where("ffn_type"), type, {"mptmlp"});
  }
  const std::string norm = json.optional_string("norm_type").value_or("layernorm");
  if (norm != "layernorm" && norm != "low_precision_layernorm") {
    throw not_accepted(json.where("norm_type"), norm, {"layernorm", "low_precision_layernorm"});
  }
  return read;
}

// bert and vit.
Read read_encoder(const JsonReader& json, Family family) {
  Read read;
  Architecture& a = read.sizes;
  a.family = family;
  read.take(json, "hidden", "hidden_size", a.hidden);
  read.take(json, "layers", "num_hidden_layers", a.layers);
  read.take(json, "heads", "num_attention_heads", a.heads);
  read.take(json, "ffn_hidden", "intermediate_size", a.ffn_hidden);
  a.attention_bias = a.attention_output_bias = a.mlp_bias = a.norm_bias = true;
  const double usual = family == Family::bert ? 0.1 : 0.0;
  a.embedding_dropout = a.residual_dropout = drops(json, "hidden_dropout_prob", usual);
  a.attention_dropout = drops(json, "attention_probs_dropout_prob", usual);
  return read;
}

// The first class that `architectures` names, or nothing.
std::string head_class(const JsonReader& json, const std::vector<std::string>& accepted) {
  const std::vector<std::string> classes = json.strings("architectures");
  if (classes.empty()) return "";
  if (std::find(accepted.begin(), accepted.end(), classes.front()) == accepted.end()) {
    throw not_accepted(json.where("architectures"), classes.front(), accepted);
  }
  return classes.front();
}

Read read_bert(const JsonReader& json) {
  Read read = read_encoder(json, Family::bert);
  Architecture& a = read.sizes;
  read.take(json, "vocabulary", "vocab_size", a.vocabulary);
  read.take(json, "max_positions", "max_position_embeddings", a.max_positions);
  a.token_types = 2;
  read.take_optional(json, "token_types", "type_vocab_size", a.token_types);
  a.learned_positions = true;
  a.tied_embeddings = json.boolean_or("tie_word_embeddings", true);
  refuse_if(json, "tie_word_embeddings", !a.tied_embeddings,
            "is false; accepted: true, the head uses the token table");
  const std::string positions =
      json.optional_string("position_embedding_type").value_or("absolute");
  if (positions != "absolute") {
    throw not_accepted(json.where("position_embedding_type"), positions, {"absolute"});
  }
  for (const std::string_view key : {"is_decoder", "add_cross_attention"}) {
    refuse_if(json, key, json.boolean_or(key, false), "is true; accepted: false");
  }
  a.next_sentence =
      head_class(json, {"BertForPreTraining", "BertForMaskedLM"}) != "BertForMaskedLM";
  return read;
}

Read read_vit(const JsonReader& json) {
  Read read = read_encoder(json, Family::vit);
  Architecture& a = read.sizes;
  read.take(json, "image_size", "image_size", a.image_size);
  read.take(json, "patch_size", "patch_size", a.patch_size);
  const std::int64_t channels = json.optional_integer("num_channels").value_or(3);
  refuse_if(json, "num_channels", channels != 3,
            fmt::format("{} is not built; accepted: 3", channels));
  a.attention_bias = json.boolean_or("qkv_bias", true);
  head_class(json, {"ViTForImageClassification"});
  const auto labels = json.object("id2label");
  a.classes = labels ? labels->entries() : json.optional_integer("num_labels").value_or(2);
  return read;
}

struct ModelType {
  std::string_view name;
  Read (*read)(const JsonReader&);
  // The class that `architectures` names, where a file has no model_type.
  std::string_view architecture = {};
};

constexpr ModelType model_types[] = {
    {"llama", read_llama, "LlamaForCausalLM"},
    {"mistral", read_mistral, "MistralForCausalLM"},
    {"ministral", read_mistral},
    {"internlm", read_internlm, "InternLMForCausalLM"},
    {"baichuan", hf::read_baichuan, "BaichuanForCausalLM"},
    {"mixtral", read_mixtral, "MixtralForCausalLM"},
    {"qwen2", read_qwen2, "Qwen2ForCausalLM"},
    {"qwen3", read_qwen3, "Qwen3ForCausalLM"},
    {"qwen2_vl", read_qwen2},
    {"qwen2_5_vl", read_qwen2},
    {"qwen3_vl", read_qwen3},
    {"qwen3_vl_moe", hf::read_qwen_moe},
    {"granite", read_llama, "GraniteForCausalLM"},
    {"minicpm", read_llama, "MiniCPMForCausalLM"},
    {"helium", read_llama, "HeliumForCausalLM"},
    {"smollm3", read_llama, "SmolLM3ForCausalLM"},
    {"seed_oss", read_seed_oss, "SeedOssForCausalLM"},
    {"ernie4_5", read_ernie, "Ernie4_5ForCausalLM"},
    {"gemma", hf::read_gemma, "GemmaForCausalLM"},
    {"gemma2", hf::read_gemma2, "Gemma2ForCausalLM"},
    {"gemma3", hf::read_gemma3, "Gemma3ForCausalLM"},
    {"phi", hf::read_phi, "PhiForCausalLM"},
    {"phi3", hf::read_phi3, "Phi3ForCausalLM"},
    {"phi-msft", hf::read_phi_msft},
    {"gpt2", read_gpt2, "GPT2LMHeadModel"},
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
    {"mpt", read_mpt, "MPTForCausalLM"},
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
    {"glm", hf::read_glm},
    {"glm4", hf::read_glm},
    {"chatglm", hf::read_chatglm, "ChatGLMModel"},
    {"qwen", hf::read_qwen, "QWenLMHeadModel"},
    {"qwen2_moe", hf::read_qwen_moe},
    {"qwen3_moe", hf::read_qwen_moe},
    {"olmoe", hf::read_olmoe, "OlmoeForCausalLM"},
    {"phimoe", hf::read_phimoe, "PhimoeForCausalLM"},
    {"granitemoe", hf::read_granitemoe, "GraniteMoeForCausalLM"},
    {"deepseek", hf::read_glm4_moe},
    {"deepseek_v2", hf::read_deepseek},
    {"deepseek_v3", hf::read_deepseek},
    {"deepseek_v32", hf::read_deepseek},
    {"kimi_k2", hf::read_deepseek},
    {"glm4_moe", hf::read_glm4_moe},
    {"glm_moe_dsa", hf::read_deepseek},
    {"gpt_oss", hf::read_gpt_oss, "GptOssForCausalLM"},
    {"llama4", hf::read_llama4, "Llama4ForCausalLM"},
    {"jamba", hf::read_jamba, "JambaForCausalLM"},
    {"nemotron_h", hf::read_nemotron_h},
    {"mamba", hf::read_mamba, "MambaForCausalLM"},
    {"mamba2", hf::read_mamba2, "Mamba2ForCausalLM"},
    {"qwen3_next", hf::read_qwen3_next},
    {"qwen3_5", hf::read_qwen3_next},
    {"qwen3_5_moe", hf::read_qwen3_next},
    {"bert", read_bert, "BertForPreTraining"},
    {"roberta", hf::read_roberta, "RobertaForMaskedLM"},
    {"xlm-roberta", hf::read_roberta, "XLMRobertaForMaskedLM"},
    {"camembert", hf::read_roberta, "CamembertForMaskedLM"},
    {"distilbert", hf::read_distilbert, "DistilBertForMaskedLM"},
    {"vit", read_vit, "ViTForImageClassification"},
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
    for (const char* task : {"ForSequenceClassification", "ForTokenClassification",
                             "ForQuestionAnswering", "ForMultipleChoice"}) {
      refuse_if(json, "architectures", name.ends_with(task),
                "'" + name.substr(0, 80) +
                    "' has a head that is not built; accepted: models for language modelling, "
                    "BertForPreTraining, ViTForImageClassification");
    }
  }
}

Read read_text(const JsonReader& json) {
  const auto given = json.optional_string("model_type");
  const std::string type = given ? std::string(without_text(*given)) : guessed_type(json);
  check_activation(json);
  if (type != "bert" && type != "vit") check_task(json);  // which have heads of their own
  for (const ModelType& known : model_types) {
    if (known.name == type) return known.read(json);
  }
  throw not_accepted(json.where("model_type"), type, hf_model_types());
}

// Files of models that see and hear hold the language model's keys in text_config.
Read read_architecture(const JsonReader& json) {
  std::vector<std::string> left_out;
  for (const char* key : {"vision_config", "audio_config", "vision_tower", "speech_config"}) {
    if (json.has(key)) {
      left_out.push_back(fmt::format(
          "{}: neither counted nor run; parameters and times are the language model's", key));
    }
  }
  const auto text =
      json.object_inheriting("text_config", {"model_type", "tie_word_embeddings", "architectures"});
  Read read = read_text(text ? *text : json);
  read.approximations.insert(read.approximations.end(), left_out.begin(), left_out.end());
  return read;
}

Dtype read_dtype(const JsonReader& json) {
  const std::string_view key = json.has("dtype") ? "dtype" : "torch_dtype";
  const auto text = json.optional_string(key);
  if (!text) {
    const auto inner = json.object("text_config");
    return inner ? read_dtype(*inner) : Dtype::fp32;
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
      const auto inner = json.object("text_config");
      throw InputError((inner && inner->has(key) ? *inner : json).where(key), problem->message);
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

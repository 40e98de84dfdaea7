#pragma once
// What the readers of config.json share. A reader of a family returns sizes and, for each size, the
// key that it was read from, so that a size that makes no model is reported where it stands.
// Internal to models/; the families are listed in hf_config.cpp.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/composition.hpp"
#include "models/json_reader.hpp"

namespace stepcast::hf {

// Which key of the file a field of Architecture was read from, for errors.
struct Read {
  Architecture sizes;
  std::vector<std::pair<std::string_view, std::string>> keys;
  std::vector<std::string> approximations;

  void take(const JsonReader& json, std::string_view field, std::string_view key,
            std::int64_t& into);
  void take_optional(const JsonReader& json, std::string_view field, std::string_view key,
                     std::int64_t& into);
};

void refuse_if(const JsonReader& json, std::string_view key, bool refused, std::string_view why);
// A probability above 0 keeps masks.
bool drops(const JsonReader& json, std::string_view key, double fallback);
// A size of 1 or more, at most `most`.
std::int64_t size_of(const JsonReader& json, std::string_view key, std::int64_t most);
std::int64_t size_or(const JsonReader& json, std::string_view key, std::int64_t fallback,
                     std::int64_t most);
// The first of two names that the file has.
std::string_view first_of(const JsonReader& json, std::string_view name, std::string_view other);

// The sizes that the class of a model_type has where a nested text_config leaves them out.
const std::vector<JsonReader::Completion>& class_sizes(std::string_view type);

inline std::string bias(bool has) { return has ? "+bias" : ""; }

// A decoder that is put together from parts.
class Draft {
 public:
  // Reads hidden_size, num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim,
  // vocab_size, max_position_embeddings and tie_word_embeddings, each by the name given here or by
  // the one that the file has.
  struct Keys {
    std::string_view hidden = "hidden_size";
    std::string_view layers = "num_hidden_layers";
    std::string_view heads = "num_attention_heads";
    std::string_view kv_heads = "num_key_value_heads";
    std::string_view head_size = "head_dim";
    std::string_view ffn = "intermediate_size";
    std::string_view vocabulary = "vocab_size";
    std::string_view positions = "max_position_embeddings";
    // What transformers assumes where the file leaves them out; 0: the file must say.
    std::int64_t usual_heads = 0, usual_kv_heads = 0, usual_vocabulary = 0;
  };
  Draft(const JsonReader& file, const Keys& keys, bool tied_by_default);
  explicit Draft(const JsonReader& file, bool tied_by_default = false)
      : Draft(file, Keys{}, tied_by_default) {}

  const JsonReader& json;
  Read read;
  Composition composition;
  std::int64_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_size = 0, ffn = 0;
  bool tied = false;

  // A block with this model's heads and MLP.
  BlockKind block(std::string name, std::string_view modules) const;
  int add(BlockKind kind);
  // Every layer of the kind that `of` says; then windows as the file has them (`layer_types`, or
  // `windowed(i)`).
  template <typename Of>
  void order(Of of) {
    order_.clear();
    for (std::int64_t i = 0; i < layers; ++i) order_.push_back(of(i));
  }
  // Layers whose attention is limited to `window` keys.
  template <typename Windowed>
  void windows(std::int64_t window, Windowed windowed, bool chunked = false) {
    for (std::int64_t i = 0; i < layers; ++i) {
      int& kind = order_[static_cast<std::size_t>(i)];
      if (windowed(i)) kind = with_window(kind, window, chunked);
    }
  }
  // By the file's own layer_types, where it has them; else by `windowed`.
  template <typename Windowed>
  void typed_windows(std::int64_t window, Windowed windowed, bool chunked = false) {
    const std::vector<std::string> types = layer_types();
    windows(
        window,
        [&](std::int64_t i) {
          return types.empty() ? windowed(i)
                               : types[static_cast<std::size_t>(i)] != "full_attention";
        },
        chunked);
  }
  std::vector<std::string> layer_types() const;  // empty, or one a layer

  // Embedding, the blocks, a norm, a head. A tied head has no matrix of its own.
  void stack(std::string_view embedding, std::string_view prefix, std::string_view norm,
             std::string_view head);
  void approximate(std::string text) { composition.approximations.push_back(std::move(text)); }
  Read finish() &&;

 private:
  int with_window(int kind, std::int64_t window, bool chunked);
  std::vector<int> order_;
};

// The head's module, or nothing where it is tied.
std::string_view head_of(const Draft& draft, std::string_view own = "lm_head=head");
// A part of each head turns; 0.25 of 80 is 20.
std::int64_t rotary_of(const JsonReader& json, std::string_view key, double fallback,
                       std::int64_t head_size);

// The modules of a Llama block, with what its relatives add.
struct LlamaModules {
  bool qkv_bias = false, output_bias = false, mlp_bias = false, norm_bias = false;
  bool head_norms = false;       // q_norm and k_norm over each head
  bool wide_head_norms = false;  // over all heads
  std::string mlp;               // other modules than gate, up, down
};
std::string llama_modules(const LlamaModules& m);

// Readers by family; each is a function of a config.json (or its text_config).
Read read_llama(const JsonReader& json);
Read read_tied_llama(const JsonReader& json);
Read read_mistral(const JsonReader& json);
Read read_internlm(const JsonReader& json);
Read read_seed_oss(const JsonReader& json);
Read read_ernie(const JsonReader& json);
Read read_mixtral(const JsonReader& json);
Read read_qwen2(const JsonReader& json);
Read read_qwen3(const JsonReader& json);
Read read_gpt2(const JsonReader& json);
Read read_mpt(const JsonReader& json);
Read read_bert(const JsonReader& json);
Read read_vit(const JsonReader& json);

Read read_gemma(const JsonReader& json);
Read read_gemma2(const JsonReader& json);
Read read_gemma3(const JsonReader& json);
Read read_phi(const JsonReader& json);
Read read_phi3(const JsonReader& json);
Read read_phi_msft(const JsonReader& json);
Read read_gptj(const JsonReader& json);
Read read_codegen(const JsonReader& json);
Read read_gpt_neox(const JsonReader& json);
Read read_gpt_bigcode(const JsonReader& json);
Read read_opt(const JsonReader& json);
Read read_bloom(const JsonReader& json);
Read read_falcon(const JsonReader& json);
Read read_olmo(const JsonReader& json);
Read read_olmo2(const JsonReader& json);
Read read_stablelm(const JsonReader& json);
Read read_starcoder2(const JsonReader& json);
Read read_internlm2(const JsonReader& json);
Read read_cohere(const JsonReader& json);
Read read_nemotron(const JsonReader& json);
Read read_glm(const JsonReader& json);
Read read_chatglm(const JsonReader& json);
Read read_baichuan(const JsonReader& json);
Read read_gpt_neo(const JsonReader& json);
Read read_qwen(const JsonReader& json);
Read read_windowed_llama(const JsonReader& json, bool qkv_bias, std::int64_t first_layer);

Read read_qwen_moe(const JsonReader& json);  // qwen2_moe and qwen3_moe
Read read_olmoe(const JsonReader& json);
Read read_phimoe(const JsonReader& json);
Read read_granitemoe(const JsonReader& json);
Read read_deepseek(const JsonReader& json);  // v2, v3, Kimi K2, GLM-5
Read read_glm4_moe(const JsonReader& json);
Read read_gpt_oss(const JsonReader& json);
Read read_llama4(const JsonReader& json);

Read read_jamba(const JsonReader& json);
Read read_nemotron_h(const JsonReader& json);
Read read_mamba(const JsonReader& json);
Read read_mamba2(const JsonReader& json);
Read read_qwen3_next(const JsonReader& json);  // and qwen3_5

Read read_roberta(const JsonReader& json);
Read read_distilbert(const JsonReader& json);
Read read_t5(const JsonReader& json);
Read read_whisper(const JsonReader& json);

}  // namespace stepcast::hf

// The families that are put together from parts: published parameter counts (totals of safetensors
// headers and of model cards) from the sizes of the models' config.json.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "models/hf_config.hpp"
#include "models/model.hpp"

using namespace stepcast;

namespace {

Model read(const std::string& text) { return model_from_hf_text(text, "config.json", "model"); }

struct Row {
  const char* name;
  std::int64_t parameters;
  const char* text;
};

const Row rows[] = {
    {"gemma-2-9b", 9241705984,
     R"({"model_type": "gemma2", "hidden_size": 3584, "num_hidden_layers": 42,
          "num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size":
          14336, "vocab_size": 256000, "head_dim": 256, "max_position_embeddings": 8192})"},
    {"gemma-7b", 8537680896,
     R"({"model_type": "gemma", "hidden_size": 3072, "num_hidden_layers": 28,
          "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size":
          24576, "vocab_size": 256000, "head_dim": 256})"},
    {"gemma-3-1b", 999885952,
     R"({"model_type": "gemma3_text", "hidden_size": 1152, "num_hidden_layers": 26,
          "num_attention_heads": 4, "num_key_value_heads": 1, "intermediate_size": 6912,
          "vocab_size": 262144, "head_dim": 256, "sliding_window": 512,
          "sliding_window_pattern": 6})"},
    {"phi-3-mini", 3821079552,
     R"({"model_type": "phi3", "hidden_size": 3072, "num_hidden_layers": 32,
          "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size":
          8192, "vocab_size": 32064})"},
    {"phi-4", 14659507200,
     R"({"model_type": "phi3", "hidden_size": 5120, "num_hidden_layers": 40,
          "num_attention_heads": 40, "num_key_value_heads": 10, "intermediate_size":
          17920, "vocab_size": 100352})"},
    {"gpt-j-6b", 6050882784,
     R"({"model_type": "gptj", "n_embd": 4096, "n_layer": 28, "n_head": 16,
          "n_positions": 2048, "vocab_size": 50400, "rotary_dim": 64})"},
    {"pythia-6.9b", 6857302016,
     R"({"model_type": "gpt_neox", "hidden_size": 4096, "num_hidden_layers": 32,
          "num_attention_heads": 32, "intermediate_size": 16384, "vocab_size": 50432,
          "max_position_embeddings": 2048})"},
    {"gpt-neox-20b", 20554567680,
     R"({"model_type": "gpt_neox", "hidden_size": 6144, "num_hidden_layers": 44,
          "num_attention_heads": 64, "intermediate_size": 24576, "vocab_size": 50432,
          "max_position_embeddings": 2048})"},
    {"opt-125m", 125239296,
     R"({"model_type": "opt", "hidden_size": 768, "num_hidden_layers": 12,
          "num_attention_heads": 12, "ffn_dim": 3072, "vocab_size": 50272,
          "max_position_embeddings": 2048})"},
    {"opt-350m", 331196416,
     R"({"model_type": "opt", "hidden_size": 1024, "num_hidden_layers": 24,
          "num_attention_heads": 16, "ffn_dim": 4096, "vocab_size": 50272,
          "max_position_embeddings": 2048, "word_embed_proj_dim": 512,
          "do_layer_norm_before": false})"},
    {"opt-1.3b", 1315758080,
     R"({"model_type": "opt", "hidden_size": 2048, "num_hidden_layers": 24,
          "num_attention_heads": 32, "ffn_dim": 8192, "vocab_size": 50272,
          "max_position_embeddings": 2048})"},
    {"bloom-560m", 559214592,
     R"({"model_type": "bloom", "hidden_size": 1024, "n_layer": 24, "n_head": 16,
          "vocab_size": 250880})"},
    {"bloom-176b", 176247271424,
     R"({"model_type": "bloom", "hidden_size": 14336, "n_layer": 70, "n_head": 112,
          "vocab_size": 250880})"},
    {"falcon-7b", 6921720704,
     R"({"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32,
          "num_attention_heads": 71, "vocab_size": 65024})"},
    {"falcon-40b", 41303293952,
     R"({"model_type": "falcon", "hidden_size": 8192, "num_hidden_layers": 60,
          "num_attention_heads": 128, "num_kv_heads": 8, "new_decoder_architecture":
          true, "vocab_size": 65024})"},
    {"olmo-1b", 1176764416,
     R"({"model_type": "olmo", "hidden_size": 2048, "num_hidden_layers": 16,
          "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size":
          8192, "vocab_size": 50304, "tie_word_embeddings": true})"},
    {"olmo-7b", 6888095744,
     R"({"model_type": "olmo", "hidden_size": 4096, "num_hidden_layers": 32,
          "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size":
          11008, "vocab_size": 50304})"},
    {"starcoder2-7b", 7173923840,
     R"({"model_type": "starcoder2", "hidden_size": 4608, "num_hidden_layers": 32,
          "num_attention_heads": 36, "num_key_value_heads": 4, "intermediate_size":
          18432, "vocab_size": 49152, "sliding_window": 4096})"},
    {"deepseek-v2", 235741434880,
     R"({"model_type": "deepseek_v2", "hidden_size": 5120, "num_hidden_layers": 60,
          "num_attention_heads": 128, "intermediate_size": 12288, "vocab_size": 102400,
          "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
          "kv_lora_rank": 512, "q_lora_rank": 1536, "n_routed_experts": 160,
          "n_shared_experts": 2, "num_experts_per_tok": 6, "moe_intermediate_size":
          1536, "first_k_dense_replace": 1})"},
    {"gpt-oss-120b", 116829156672,
     R"({"model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 36,
          "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size":
          2880, "vocab_size": 201088, "head_dim": 64, "num_local_experts": 128,
          "num_experts_per_tok": 4})"},
    {"qwen3-8b", 8190735360,
     R"({"model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 36,
          "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size":
          12288, "vocab_size": 151936, "head_dim": 128})"},
    {"qwen3-30b-a3b", 30532122624,
     R"({"model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48,
          "num_attention_heads": 32, "num_key_value_heads": 4, "intermediate_size":
          6144, "vocab_size": 151936, "head_dim": 128, "num_experts": 128,
          "num_experts_per_tok": 8, "moe_intermediate_size": 768})"},
    {"qwen3-235b-a22b", 235093634560,
     R"({"model_type": "qwen3_moe", "hidden_size": 4096, "num_hidden_layers": 94,
          "num_attention_heads": 64, "num_key_value_heads": 4, "intermediate_size":
          12288, "vocab_size": 151936, "head_dim": 128, "num_experts": 128,
          "num_experts_per_tok": 8, "moe_intermediate_size": 1536})"},
    {"qwen1.5-moe-a2.7b", 14315784192,
     R"({"model_type": "qwen2_moe", "hidden_size": 2048, "num_hidden_layers": 24,
          "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size":
          5632, "vocab_size": 151936, "num_experts": 60, "num_experts_per_tok": 4,
          "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632})"},
    {"olmoe-1b-7b", 6919161856,
     R"({"model_type": "olmoe", "hidden_size": 2048, "num_hidden_layers": 16,
          "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size":
          1024, "vocab_size": 50304, "num_experts": 64, "num_experts_per_tok": 8})"},
    {"phi-3.5-moe", 41873153344,
     R"({"model_type": "phimoe", "hidden_size": 4096, "num_hidden_layers": 32,
          "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size":
          6400, "vocab_size": 32064, "num_local_experts": 16, "num_experts_per_tok": 2,
          "attention_bias": true, "lm_head_bias": true})"},
    {"command-r", 34980831232,
     R"({"model_type": "cohere", "hidden_size": 8192, "num_hidden_layers": 40,
          "num_attention_heads": 64, "num_key_value_heads": 64, "intermediate_size":
          22528, "vocab_size": 256000})"},
    {"jamba-v0.1", 51570323328,
     R"({"model_type": "jamba", "hidden_size": 4096, "num_hidden_layers": 32,
          "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size":
          14336, "vocab_size": 65536, "num_experts": 16, "num_experts_per_tok": 2,
          "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_dt_rank": 256, "mamba_expand":
          2})"},
    {"t5-small", 60506624,
     R"({"model_type": "t5", "d_model": 512, "num_layers": 6, "num_heads": 8, "d_kv":
          64, "d_ff": 2048, "vocab_size": 32128})"},
    {"t5-base", 222903552,
     R"({"model_type": "t5", "d_model": 768, "num_layers": 12, "num_heads": 12,
          "d_kv": 64, "d_ff": 3072, "vocab_size": 32128})"},
    {"flan-t5-xxl", 11135332352,
     R"({"model_type": "t5", "d_model": 4096, "num_layers": 24, "num_heads": 64,
          "d_kv": 64, "d_ff": 10240, "vocab_size": 32128, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false})"},
    {"whisper-large-v3", 1543490560,
     R"({"model_type": "whisper", "d_model": 1280, "encoder_layers": 32,
          "decoder_layers": 32, "encoder_attention_heads": 20,
          "decoder_attention_heads": 20, "encoder_ffn_dim": 5120, "decoder_ffn_dim":
          5120, "vocab_size": 51866, "num_mel_bins": 128})"},
    {"roberta-base", 124697433,
     R"({"model_type": "roberta", "hidden_size": 768, "num_hidden_layers": 12,
          "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 50265,
          "max_position_embeddings": 514, "type_vocab_size": 1})"},
    {"distilbert-base", 66985530,
     R"({"model_type": "distilbert", "dim": 768, "n_layers": 6, "n_heads": 12,
          "hidden_dim": 3072, "vocab_size": 30522, "max_position_embeddings": 512})"},
    {"codegen-350m", 356712448,
     R"({"model_type": "codegen", "n_embd": 1024, "n_layer": 20, "n_head": 16,
          "n_positions": 2048, "vocab_size": 51200, "rotary_dim": 32})"},
    {"glm-4-9b", 9399951360,
     R"({"model_type": "glm", "hidden_size": 4096, "num_hidden_layers": 40,
          "num_attention_heads": 32, "num_key_value_heads": 2, "intermediate_size":
          13696, "vocab_size": 151552, "head_dim": 128, "attention_bias": true})"},
    {"starcoderbase", 15517456384,
     R"({"model_type": "gpt_bigcode", "n_embd": 6144, "n_layer": 40, "n_head": 48,
          "n_positions": 8192, "n_inner": 24576, "vocab_size": 49152})"},
    {"qwen-7b", 7721324544,
     R"({"model_type": "qwen", "hidden_size": 4096, "num_hidden_layers": 32,
          "num_attention_heads": 32, "kv_channels": 128, "intermediate_size": 22016,
          "vocab_size": 151936, "max_position_embeddings": 8192})"},
    {"qwen3-next-80b", 79674391296,
     R"({"model_type": "qwen3_next", "hidden_size": 2048, "num_hidden_layers": 48,
          "num_attention_heads": 16, "num_key_value_heads": 2, "intermediate_size":
          5120, "vocab_size": 151936, "head_dim": 256, "num_experts": 512,
          "num_experts_per_tok": 10, "moe_intermediate_size": 512,
          "shared_expert_intermediate_size": 512, "linear_num_key_heads": 16,
          "linear_key_head_dim": 128, "linear_num_value_heads": 32,
          "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4})"},
    {"mamba2-2.7b", 2702599680,
     R"({"model_type": "mamba2", "hidden_size": 2560, "num_hidden_layers": 64,
          "num_heads": 80, "head_dim": 64, "state_size": 128, "n_groups": 1,
          "conv_kernel": 4, "vocab_size": 50288, "tie_word_embeddings": true})"},
    {"baichuan2-7b", 7505973248,
     R"({"model_type": "baichuan", "hidden_size": 4096, "num_hidden_layers": 32,
          "num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": 125696,
          "max_position_embeddings": 4096})"},
    {"gpt-neo-1.3b", 1315575808,
     R"({"model_type": "gpt_neo", "hidden_size": 2048, "num_layers": 24, "num_heads":
          16, "vocab_size": 50257, "max_position_embeddings": 2048})"},
    {"mamba-2.8b", 2768345600,
     R"({"model_type": "mamba", "hidden_size": 2560, "num_hidden_layers": 64,
          "state_size": 16, "time_step_rank": 160, "intermediate_size": 5120,
          "vocab_size": 50280})"},
    {"internlm-7b", 7321948160,
     R"({"model_type": "internlm", "hidden_size": 4096, "num_hidden_layers": 32,
          "num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": 103168,
          "bias": true})"},
    {"falcon-40b as first published", 41303293952,
     R"({"model_type": "RefinedWeb", "hidden_size": 8192, "n_layer": 60, "n_head":
          128, "n_head_kv": 8, "vocab_size": 65024})"},
    {"qwen2-vl-7b's language model", 7615616512,
     R"({"model_type": "qwen2_vl", "hidden_size": 3584, "num_hidden_layers": 28,
          "num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size":
          18944, "vocab_size": 152064, "vision_config": {"depth": 32}})"},
};

}  // namespace

TEST_CASE("published counts of the families that are put together from parts") {
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    CHECK(read(row.text).parameter_elements() == row.parameters);
  }
}

// The sums of the rows whose totals nobody printed, or that are easily misremembered, out of the
// fields of their config.json: embedding, final norm, head, and then the blocks.
TEST_CASE("counts by hand, matrix by matrix") {
  constexpr std::int64_t h2 = 2048, h4 = 4096, h5 = 2560;
  // Mamba: in, convolution, x, dt, A and D, out; of Jamba three norms inside.
  constexpr std::int64_t mamba_inner = 5120, jamba_inner = 8192;
  constexpr std::int64_t jamba_mamba = h4 * 2 * jamba_inner + jamba_inner * 4 + jamba_inner +
                                       jamba_inner * (256 + 32) + 256 * jamba_inner + jamba_inner +
                                       jamba_inner * 16 + jamba_inner + jamba_inner * h4 +
                                       (256 + 16 + 16);
  constexpr std::int64_t jamba_mlp = 3 * h4 * 14336;
  // Qwen3-Next's gated delta net: 16 key heads of 128 for q and k, 32 value heads of 128.
  constexpr std::int64_t keys = 2 * 16 * 128, values = 32 * 128;
  constexpr std::int64_t delta_net =
      h2 * (keys + 2 * values) + h2 * 2 * 32 + (keys + values) * 4 + 2 * 32 + 128 + values * h2;
  constexpr std::int64_t gated_attention =
      h2 * 2 * 16 * 256 + 2 * h2 * 2 * 256 + 16 * 256 * h2 + 2 * 256;
  constexpr std::int64_t qwen_experts = 512 * 3 * h2 * 512 + 512 * h2 + 3 * h2 * 512 + h2;
  const struct {
    const char* name;
    std::int64_t parameters;
  } sums[] = {
      // q and o, k and v with biases; two LayerNorms; router; 16 experts of three matrices
      {"phi-3.5-moe", 32064 * h4 + 2 * h4 + 32064 * h4 + 32064 +
                          32 * (2 * (h4 * h4 + h4) + 2 * (h4 * 1024 + 1024) + 2 * 2 * h4 + 16 * h4 +
                                16 * 3 * h4 * 6400)},
      {"codegen-350m", 2 * 51200 * 1024ll + 51200 + 2 * 1024 +
                           20 * (4 * 1024ll * 1024 + 2 * 1024 + 2 * 1024 * 4096ll + 4096 + 1024)},
      {"internlm-7b", 2 * 103168 * h4 + h4 + 32 * (4 * (h4 * h4 + h4) + 3 * h4 * 11008 + 2 * h4)},
      {"baichuan2-7b", 2 * 125696 * h4 + h4 + 32 * (4 * h4 * h4 + 3 * h4 * 11008 + 2 * h4)},
      // two key-value heads of 128, biases on q, k and v
      {"glm-4-9b",
       2 * 151552 * h4 + h4 +
           40 * (h4 * h4 + h4 + 2 * (h4 * 256 + 256) + h4 * h4 + 3 * h4 * 13696 + 2 * h4)},
      // tied; only o has a bias in attention
      {"gpt-neo-1.3b",
       (50257 + 2048) * h2 + 2 * h2 + 24 * (4 * h2 * h2 + h2 + 8 * h2 * h2 + 5 * h2 + 2 * 2 * h2)},
      {"mamba-2.8b", 50280 * h5 + h5 +
                         64 * (h5 + h5 * 2 * mamba_inner + mamba_inner * 4 + mamba_inner +
                               mamba_inner * (160 + 2 * 16) + 160 * mamba_inner + mamba_inner +
                               mamba_inner * 16 + mamba_inner + mamba_inner * h5)},
      // Mamba 2: in of z, x, B, C and dt; convolution over x, B and C; dt, A and D a head; norm
      {"mamba2-2.7b", 50288 * h5 + h5 +
                          64 * (h5 + h5 * (2 * mamba_inner + 2 * 128 + 80) +
                                (mamba_inner + 256) * 5 + 3 * 80 + mamba_inner + mamba_inner * h5)},
      // one layer of eight is attention, every other one has 16 experts
      {"jamba-v0.1", 2 * 65536 * h4 + h4 + 32 * 2 * h4 + 28 * jamba_mamba +
                         4 * (2 * h4 * h4 + 2 * h4 * 1024) + 16 * jamba_mlp +
                         16 * (16 * jamba_mlp + 16 * h4)},
      // one layer of four is attention
      {"qwen3-next-80b",
       2 * 151936 * h2 + h2 + 12 * gated_attention + 36 * delta_net + 48 * (qwen_experts + 2 * h2)},
  };
  for (const auto& sum : sums) {
    CAPTURE(std::string(sum.name));
    const Row* row = std::find_if(std::begin(rows), std::end(rows), [&](const Row& each) {
      return std::string(each.name) == sum.name;
    });
    REQUIRE(row != std::end(rows));
    CHECK(read(row->text).parameter_elements() == sum.parameters);
  }
}

TEST_CASE("gemma-2-9b's parameters by hand") {
  // q and o 3584 x 4096, k and v 3584 x 2048, MLP of 14,336, four norms; a tied table.
  CHECK(256000ll * 3584 + 3584 +
            42 * (2 * 3584ll * 4096 + 2 * 3584ll * 2048 + 3 * 3584ll * 14336 + 4 * 3584) ==
        9241705984);
}

TEST_CASE("DeepSeek-V3's parameters by hand, one token meets 37.6 billion of them") {
  const std::int64_t attention = 7168ll * 1536 + 1536 + 1536ll * 128 * 192 + 7168ll * 576 + 512 +
                                 512ll * 128 * 256 + 128ll * 128 * 7168 + 2 * 7168;
  const std::int64_t expert = 3 * 7168ll * 2048;
  const std::int64_t ends = 2 * 129280ll * 7168 + 7168 + 61 * attention + 3 * 3 * 7168ll * 18432;
  CHECK(ends + 58 * (257 * expert + 256 * 7168 + 256) == 671026419200);
  const Model model = load_model(STEPCAST_TEST_DATA "/data/hf-configs/xft_deepseek-r1.json");
  CHECK(model.parameter_elements() == 671026419200);
  CHECK(model.active_parameter_elements() == ends + 58 * (9 * expert + 256 * 7168 + 256));
  CHECK(model.layers.size() == 64);
  REQUIRE(model.approximations.size() == 2);
  CHECK(model.approximations[1].find("quantization_config") == 0);
  CHECK(model.approximations[0].find("num_nextn_predict_layers") == 0);
}

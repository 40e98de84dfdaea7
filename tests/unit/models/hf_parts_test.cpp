// What a config.json of a family that is put together from parts may say in other ways, and what is
// refused; the counts of the families are in hf_families_test.cpp.
#include <doctest/doctest.h>

#include <string>

#include "base/error.hpp"
#include "models/composition.hpp"
#include "models/hf_config.hpp"
#include "models/model.hpp"
#include "tests/unit/models/config_text.hpp"

using namespace stepcast;
using test::error_of;
using test::read;
using test::replaced;

namespace {

const std::string gemma = R"({"model_type": "gemma2", "hidden_size": 64, "num_hidden_layers": 4,
"num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16, "intermediate_size": 96, "vocab_size": 100,
"max_position_embeddings": 64, "sliding_window": 8
})";

}  // namespace

TEST_CASE("a file without model_type is known by the class that it names") {
  const std::string text = R"({"architectures": ["Gemma2ForCausalLM"], "hidden_size": 64,
"num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16,
"intermediate_size": 96, "vocab_size": 100})";
  CHECK(read(text).parameter_elements() == read(gemma).parameter_elements());
  CHECK(error_of(R"({"architectures": ["FooForCausalLM"], "hidden_size": 64})") ==
        "config.json:1: architectures: 'FooForCausalLM' is not known, and there is no model_type; "
        "accepted: one of the families that are read");
}

TEST_CASE("a text_config is read as the language model, and what is left out is said") {
  const std::string inner = replaced(gemma, "gemma2", "gemma2_text");
  const Model model = read(R"({"model_type": "seer", "tie_word_embeddings": false,
"torch_dtype": "bfloat16", "vision_config": {"hidden_size": 8}, "text_config": )" +
                           inner + "}");
  CHECK(model.parameter_elements() == read(gemma).parameter_elements() + 100 * 64);  // untied
  CHECK(model.stored_dtype == Dtype::bf16);
  REQUIRE(model.approximations.size() == 1);
  CHECK(model.approximations[0].find("vision_config: neither counted nor run") == 0);
  CHECK(error_of("{\"text_config\": " + replaced(inner, "100", "-1") + "}") ==
        "config.json:2: text_config.vocab_size: -1 is out of range; accepted: 1 to 268435456");
}

TEST_CASE("Gemma 3's multimodal files leave out heads and vocabulary, which are the class's") {
  // As google/gemma-3-4b-it has it: 8 heads of 256, 4 of keys, 262,208 tokens.
  const Model model = read(R"({"model_type": "gemma3", "vision_config": {"hidden_size": 1152},
"text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
"num_hidden_layers": 34, "sliding_window": 1024}})");
  const std::int64_t block = 2560ll * (2 * 2048 + 2 * 1024) + 3 * 2560ll * 10240 + 4 * 2560 + 512;
  CHECK(262208ll * 2560 + 2560 + 34 * block == 3880263168);
  CHECK(model.parameter_elements() == 3880263168);
}

TEST_CASE("what a text_config leaves out is its class's, and is said") {
  // LLaVA 1.5 as its hub files have it: of Vicuna-7B only what LlamaConfig has not.
  const Model vicuna = read(R"({"model_type": "llava", "tie_word_embeddings": false,
"text_config": {"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 4096,
"model_type": "llama", "torch_dtype": "float16", "vocab_size": 32064}})");
  CHECK(vicuna.parameter_elements() == 6738415616 + 2 * 64 * 4096);  // Llama 2 7B, 64 tokens more
  REQUIRE(vicuna.approximations.size() == 1);
  CHECK(vicuna.approximations[0] ==
        "text_config: leaves out what is its class's in transformers, which holds: hidden_size "
        "4096, intermediate_size 11008, num_hidden_layers 32, num_attention_heads 32");
  // Mistral's class has 8 heads of keys, and a window unless the file says null.
  const std::string mistral = R"({"model_type": "idefics2", "text_config": {"model_type": "mistral",
"max_position_embeddings": 32768, "sliding_window": null, "vocab_size": 32003}})";
  CHECK(read(mistral).parameter_elements() == 7241732096 + 2 * 3 * 4096);  // Mistral 7B's, 3 more
  const Model windowed = read(replaced(mistral, "\"sliding_window\": null, ", ""));
  REQUIRE(windowed.architecture.composition);
  CHECK(windowed.architecture.composition->kinds[0].window == 4096);
  // Without a type of its own, LLaVA's text is Llama's.
  CHECK(read(R"({"model_type": "llava", "text_config": {"vocab_size": 32000}})")
            .parameter_elements() == 6738415616);
  // At the top level nothing is assumed.
  CHECK(error_of(R"({"model_type": "llama", "vocab_size": 32000})") ==
        "config.json:1: hidden_size: is missing; accepted: an integer");
}

TEST_CASE("the language model lies in llm_config or language_config too") {
  const std::string inner = gemma.substr(0, gemma.size());
  const std::int64_t alone = read(gemma).parameter_elements();
  for (const char* key : {"llm_config", "language_config"}) {
    const Model model = read("{\"model_type\": \"seer\", \"vision_config\": {\"a\": 1}, \"" +
                             std::string(key) + "\": " + inner + ", \"x\": 1}");
    CHECK(model.parameter_elements() == alone);
  }
}

TEST_CASE("LLaVA's own files have the language model's keys beside the tower's name") {
  const Model model = read(R"({"architectures": ["LlavaLlamaForCausalLM"], "model_type": "llava",
"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
"vocab_size": 100, "max_position_embeddings": 64, "mm_vision_tower": "openai/clip"})");
  CHECK(model.parameter_elements() == 2 * 100 * 64 + 64 + 2 * (4 * 64 * 64 + 3 * 64 * 96 + 2 * 64));
  REQUIRE(model.approximations.size() == 1);
  CHECK(model.approximations[0].find("mm_vision_tower: neither counted nor run") == 0);
}

TEST_CASE("families that share a reader are known by their class alone") {
  const std::string sizes = R"( "hidden_size": 64, "num_hidden_layers": 2,
"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 96,
"vocab_size": 100, "moe_intermediate_size": 32, "num_experts": 4, "num_experts_per_tok": 2,
"shared_expert_intermediate_size": 32})";
  for (const auto& [name, type] :
       {std::pair{"Qwen2MoeForCausalLM", "qwen2_moe"},
        std::pair{"Qwen3MoeForCausalLM", "qwen3_moe"}, std::pair{"GlmForCausalLM", "glm"},
        std::pair{"Glm4ForCausalLM", "glm4"}}) {
    CAPTURE(std::string(name));
    CHECK(
        read("{\"architectures\": [\"" + std::string(name) + "\"]," + sizes).parameter_elements() ==
        read("{\"model_type\": \"" + std::string(type) + "\"," + sizes).parameter_elements());
  }
}

TEST_CASE("a class without a head, quantized parameters and unused windows are said") {
  const std::string mistral = R"({"model_type": "mistral", "hidden_size": 64,
"num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100
})";
  const auto said = [&](const std::string& more) {
    const Model model = read(replaced(mistral, "\n}", more + "}"));
    return model.approximations.size() == 1 ? model.approximations[0] : std::string();
  };
  CHECK(said(R"(, "architectures": ["MistralModel"])") ==
        "architectures: MistralModel has no head for language modelling; one is counted and run: "
        "6400 parameters");
  CHECK(said(R"(, "architectures": ["MistralForCausalLM"])").empty());
  CHECK(said(R"(, "quantization_config": {"quant_method": "awq", "bits": 4})") ==
        "quantization_config: parameters are counted and trained as without it");
  CHECK(error_of(replaced(mistral, "\n}", ", \"architectures\": [\"MistralForRewardModel\"]}"))
            .find("'MistralForRewardModel' has a head that is not built") != std::string::npos);
  const Model qwen = read(R"({"model_type": "qwen3", "hidden_size": 64, "num_hidden_layers": 2,
"num_attention_heads": 4, "head_dim": 16, "intermediate_size": 96, "vocab_size": 100,
"max_position_embeddings": 64, "use_sliding_window": true, "sliding_window": 8})");
  REQUIRE(qwen.approximations.size() == 1);
  CHECK(qwen.approximations[0] ==
        "sliding_window: attention is costed over all tokens before each");
}

TEST_CASE("GPT-Neo's local layers are those that the file names") {
  const std::string neo = R"({"model_type": "gpt_neo", "hidden_size": 64, "num_layers": 4,
"num_heads": 4, "vocab_size": 100, "max_position_embeddings": 64, "window_size": 8
})";
  const auto local = [&](const std::string& more) {
    const Model model = read(replaced(neo, "\n}", more + "}"));
    std::string pattern;
    for (const int kind : model.architecture.composition->segments[1].order) {
      const bool is =
          model.architecture.composition->kinds[static_cast<std::size_t>(kind)].window > 0;
      pattern += is ? 'l' : 'g';
    }
    return pattern;
  };
  CHECK(local("") == "glgl");
  CHECK(local(R"(, "attention_types": [[["global", "local"], 2]])") == "glgl");
  CHECK(local(R"(, "attention_types": [[["global"], 3], [["local"], 1]])") == "gggl");
  CHECK(local(R"(, "attention_layers": ["local", "global", "global", "global"])") == "lggg");
  CHECK(error_of(replaced(neo, "\n}", ", \"attention_types\": [[[\"global\"], 3]]}")) ==
        "config.json:2: attention_types: names 3 layers; accepted: as many as there are, 4");
  CHECK(error_of(replaced(neo, "\n}", ", \"attention_types\": [\"global\"]}"))
            .find("accepted: lists of names, each with how often it stands") != std::string::npos);
}

TEST_CASE("SantaCoder's one head of keys under GPT-2's type is refused") {
  CHECK(error_of(R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4,
"vocab_size": 100, "n_positions": 64, "attention_head_type": "multiquery"})") ==
        "config.json:2: attention_head_type: 'multiquery' is not built for gpt2; accepted: "
        "multihead, or model_type gpt_bigcode, which has one head of keys and values");
}

TEST_CASE("a part of a head that turns may stand in rope_parameters") {
  const std::string phi = R"({"model_type": "phi", "hidden_size": 64, "num_hidden_layers": 2,
"num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100
})";
  const auto turned = [&](const std::string& more) {
    return read(replaced(phi, "\n}", more + "}")).architecture.composition->kinds[0].rotary;
  };
  CHECK(turned("") == 8);
  CHECK(turned(", \"partial_rotary_factor\": 0.25") == 4);
  CHECK(turned(R"(, "rope_parameters": {"partial_rotary_factor": 0.75, "rope_theta": 1e4})") == 12);
}

TEST_CASE("heads of other tasks are refused") {
  CHECK(error_of(replaced(gemma, "\n}",
                          ",\n\"architectures\": [\"Gemma2ForSequenceClassification\"]}")) ==
        "config.json:4: architectures: 'Gemma2ForSequenceClassification' has a head that is not "
        "built; accepted: models for language modelling, BertForPreTraining, "
        "ViTForImageClassification");
}

TEST_CASE("dtype and torch_dtype say the same") {
  CHECK(read(replaced(gemma, "\n}", ", \"dtype\": \"bfloat16\"}")).stored_dtype == Dtype::bf16);
  CHECK(read(replaced(gemma, "\n}", ", \"torch_dtype\": \"float16\"}")).stored_dtype ==
        Dtype::fp16);
}

TEST_CASE("every other layer of Gemma 2 sees a window, layer_types may say otherwise") {
  const auto windows = [](const Model& model) {
    std::string text;
    for (const Layer& layer : model.layers) {
      if (layer.kind != LayerKind::block) continue;
      const auto kind = static_cast<std::size_t>(layer.block_kind);
      text += model.architecture.composition->kinds[kind].window > 0 ? 'w' : 'f';
    }
    return text;
  };
  CHECK(windows(read(gemma)) == "wfwf");
  const auto typed = [&](const std::string& types) {
    return replaced(gemma, "\n}", ",\n\"layer_types\": " + types + "}");
  };
  CHECK(windows(read(typed(R"(["full_attention", "full_attention", "sliding_attention",
    "full_attention"])"))) == "ffwf");
  CHECK(error_of(typed(R"(["full_attention"])")) ==
        "config.json:4: layer_types: names 1 layers; accepted: as many as there are, 4");
  CHECK(error_of(typed(R"(["full_attention", "odd", "full_attention", "full_attention"])"))
            .find("config.json:4: layer_types: 'odd' is not accepted") == 0);
}

TEST_CASE("what is wrong in a file of parts is said at its key") {
  CHECK(error_of(replaced(gemma, "layers\": 4", "layers\": 0")) ==
        "config.json:1: num_hidden_layers: 0 is out of range; accepted: 1 to 8192");
  CHECK(error_of(replaced(gemma, "96", "\"96\"")) ==
        "config.json:2: intermediate_size: is the string '96'; accepted: an integer");
  CHECK(error_of(replaced(gemma, "value_heads\": 4", "value_heads\": 3")) ==
        "config.json:2: num_key_value_heads: 3 does not divide the 4 heads of dense-window; "
        "accepted: "
        "a divisor of 4");
}

TEST_CASE("an encoder's own length and its decoder's count by their share in FLOPs") {
  // Whisper of one block a side, 4 encoder positions, 2 tokens: the encoder's parameters count
  // twice.
  const Model model = read(R"({"model_type": "whisper", "d_model": 8, "encoder_layers": 1,
"decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
"encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "vocab_size": 10, "num_mel_bins": 3,
"max_source_positions": 4, "max_target_positions": 6})");
  const std::int64_t attention = 4 * 64 + 3 * 8;
  const std::int64_t mlp = 2 * 8 * 16 + 16 + 8;
  const std::int64_t encoder = (9 * 8 + 8) + (24 * 8 + 8) + 4 * 8 + attention + mlp + 4 * 8 + 2 * 8;
  const std::int64_t decoder = 10 * 8 + 6 * 8 + 2 * attention + mlp + 6 * 8 + 2 * 8;
  CHECK(model.parameter_elements() == encoder + decoder);
  // Scores: 4 x 4 in the encoder twice as often as a token, 2 and 4 keys in the decoder.
  CHECK(model_flops_per_token(model, 2) ==
        6.0 * static_cast<double>(2 * encoder + decoder) + 12.0 * 8 * (2 * 4 + 2 + 4));
}

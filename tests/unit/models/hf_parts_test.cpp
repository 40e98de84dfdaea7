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
"num_attention_heads": 4, "head_dim": 16, "intermediate_size": 96, "vocab_size": 100,
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
  CHECK(error_of(replaced(gemma, "\"num_attention_heads\": 4",
                          "\"num_key_value_heads\": 3, "
                          "\"num_attention_heads\": 4")) ==
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

// config.json as it lies on the hub, and what bad ones get.
#include "models/hf_config.hpp"

#include <doctest/doctest.h>

#include <string>

#include "base/error.hpp"
#include "models/model.hpp"
#include "tests/unit/models/config_text.hpp"

using namespace stepcast;
using test::error_of;
using test::read;
using test::replaced;

namespace {

const std::string data = STEPCAST_TEST_DATA "/data";

// Llama-2-7B's, with some keys replaced or added.
std::string llama(const std::string& more = "") {
  return R"({
"model_type": "llama",
"hidden_size": 4096,
"num_hidden_layers": 32,
"num_attention_heads": 32,
"intermediate_size": 11008,
"vocab_size": 32000)" +
         (more.empty() ? "" : ",\n" + more) + "\n}";
}

}  // namespace

TEST_CASE("GPT-2's config.json gives the catalog's model") {
  const Model model = load_model(data + "/gpt2/config.json");
  CHECK(model.name == "gpt2");
  CHECK(model.source == data + "/gpt2/config.json");
  CHECK(model.parameter_elements() == 124439808);
  CHECK(model.parameters.size() == 148);
  CHECK(model.architecture.tied_embeddings);  // transformers' default, the file is silent
  CHECK(model.architecture.attention_dropout);
  CHECK(model.stored_dtype == Dtype::fp32);
  const Workload w;
  CHECK(work_of(model, 1, w).saved_activations ==
        work_of(load_model("gpt2"), 1, w).saved_activations);
}

TEST_CASE("a directory that holds a config.json will do") {
  const Model model = load_model(data + "/llama-3.2-1b");
  CHECK(model.name == "llama-3.2-1b");
  CHECK(model.parameter_elements() == 1235814400);
  CHECK(model.stored_dtype == Dtype::bf16);
  CHECK(model.layers.back().tied_parameter == 0);
  CHECK_THROWS_WITH_AS(load_model(data + "/empty_directory"),
                       (data + "/empty_directory: is a directory without a config.json; accepted: "
                               "a config.json or a directory that holds one")
                           .c_str(),
                       InputError);
}

TEST_CASE("the hub's MPT-7B has no biases and no position table, unlike the catalog's") {
  const Model model = load_model(data + "/mpt-7b/config.json");
  // 32 (12 h h + 2 h) + 50,432 h + h
  CHECK(32ll * (12 * 4096ll * 4096 + 2 * 4096) + 50432ll * 4096 + 4096 == 6649286656);
  CHECK(model.parameter_elements() == 6649286656);
  CHECK(model.architecture.max_positions == 2048);
  CHECK_FALSE(model.architecture.learned_positions);
  const std::string learned = R"({"model_type": "mpt", "d_model": 4096, "n_layers": 32,
    "n_heads": 32, "vocab_size": 50368, "max_seq_len": 2048, "no_bias": false,
    "attn_config": {"alibi": false}})";
  CHECK(read(learned).parameter_elements() == 6658859008);  // the catalog's
}

TEST_CASE("published counts follow from the sizes of the families' files") {
  struct Row {
    const char* text;
    std::int64_t parameters;
  };
  for (const Row& row : {
           Row{R"({"model_type": "llama", "hidden_size": 3072, "num_hidden_layers": 28,
                   "num_attention_heads": 24, "num_key_value_heads": 8, "head_dim": 128,
                   "intermediate_size": 8192, "vocab_size": 128256, "tie_word_embeddings": true})",
               3212749824},  // Llama-3.2-3B
           Row{R"({"model_type": "llama", "hidden_size": 576, "num_hidden_layers": 30,
                   "num_attention_heads": 9, "num_key_value_heads": 3, "intermediate_size": 1536,
                   "vocab_size": 49152, "tie_word_embeddings": true})",
               134515008},  // SmolLM2-135M
           Row{R"({"model_type": "llama", "hidden_size": 16384, "num_hidden_layers": 126,
                   "num_attention_heads": 128, "num_key_value_heads": 8,
                   "intermediate_size": 53248, "vocab_size": 128256})",
               405853388800},  // Llama-3.1-405B
           Row{R"({"model_type": "mistral", "hidden_size": 4096, "num_hidden_layers": 32,
                   "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": null,
                   "intermediate_size": 14336, "vocab_size": 32000, "sliding_window": 4096})",
               7241732096},  // Mistral-7B-v0.1
           Row{R"({"model_type": "qwen2", "hidden_size": 896, "num_hidden_layers": 24,
                   "num_attention_heads": 14, "num_key_value_heads": 2, "intermediate_size": 4864,
                   "vocab_size": 151936, "tie_word_embeddings": true})",
               494032768},  // Qwen2.5-0.5B
           Row{R"({"model_type": "qwen2", "hidden_size": 2048, "num_hidden_layers": 36,
                   "num_attention_heads": 16, "num_key_value_heads": 2,
                   "intermediate_size": 11008, "vocab_size": 151936,
                   "tie_word_embeddings": true})",
               3085938688},  // Qwen2.5-3B
           Row{R"({"model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 28,
                   "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
                   "intermediate_size": 3072, "vocab_size": 151936, "tie_word_embeddings": true})",
               596049920},  // Qwen3-0.6B
           Row{R"({"model_type": "qwen3", "hidden_size": 5120, "num_hidden_layers": 64,
                   "num_attention_heads": 64, "num_key_value_heads": 8,
                   "intermediate_size": 25600, "vocab_size": 151936})",
               32762123264},  // Qwen3-32B, head_dim left to its default of 128
       }) {
    CAPTURE(row.text);
    CHECK(read(row.text).parameter_elements() == row.parameters);
  }
}

TEST_CASE("what a file leaves out has transformers' default") {
  const Model model = read(llama());
  CHECK(model.parameter_elements() == 6738415616);
  CHECK(model.architecture.kv_heads == 32);    // the heads
  CHECK(model.architecture.head_size == 128);  // hidden / heads
  CHECK_FALSE(model.architecture.tied_embeddings);
  CHECK(model.stored_dtype == Dtype::fp32);
  CHECK(read(llama("\"num_key_value_heads\": null")).architecture.kv_heads == 32);
  CHECK(read(llama("\"dtype\": \"float16\"")).stored_dtype == Dtype::fp16);
  // a bias on each of q, k, v, o: 4 h in 32 layers
  CHECK(read(llama("\"attention_bias\": true")).parameter_elements() == 6738415616 + 32 * 4 * 4096);
  CHECK(read(llama("\"mlp_bias\": true")).parameter_elements() ==
        6738415616 + 32 * (2 * 11008 + 4096));
}

TEST_CASE("a missing size is named, not defaulted") {
  CHECK(error_of(replaced(llama(), "\"hidden_size\": 4096,\n", "")) ==
        "config.json:1: hidden_size: is missing; accepted: an integer");
  CHECK(error_of(R"({"hidden_size": 4096})") ==
        "config.json:1: model_type: is missing; accepted: one of the families that are read");
  CHECK(error_of(R"({"model_type": "gpt2", "n_embd": 768})") ==
        "config.json:1: n_layer: is missing; accepted: an integer");
  CHECK(error_of(R"({"model_type": "mpt", "d_model": 768})") ==
        "config.json:1: n_layers: is missing; accepted: an integer");
}

TEST_CASE("a bad value is named with its line") {
  CHECK(error_of(replaced(llama(), "4096", "\"big\"")) ==
        "config.json:3: hidden_size: is the string 'big'; accepted: an integer");
  CHECK(error_of(replaced(llama(), "4096", "4096.5")) ==
        "config.json:3: hidden_size: is 4096.5; accepted: an integer");
  CHECK(error_of(replaced(llama(), "4096", "0")) ==
        "config.json:3: hidden_size: 0 is not a size; accepted: 1 or more");
  CHECK(error_of(replaced(llama(), "4096", "-4096")) ==
        "config.json:3: hidden_size: -4096 is not a size; accepted: 1 or more");
  CHECK(error_of(replaced(llama(), "4096", "4095")) ==
        "config.json:5: num_attention_heads: 32 does not divide the hidden size 4095; accepted: a "
        "divisor of 4095, or a head size of its own");
  CHECK(error_of(replaced(llama(), "32000", "99999999999")) ==
        "config.json:7: vocab_size: 99999999999 is out of range; accepted: 1 to 268435456");
  CHECK(error_of(replaced(llama(), "32000", "99999999999999999999")) ==
        "config.json:7: vocab_size: is 1e+20; accepted: an integer");
  CHECK(error_of(replaced(llama(), "32000", "18446744073709551615")) ==
        "config.json:7: vocab_size: is 18446744073709551615; accepted: an integer below 2^63");
  CHECK(error_of(llama("\"num_key_value_heads\": 7")) ==
        "config.json:8: num_key_value_heads: 7 does not divide the 32 heads; accepted: a divisor "
        "of 32");
  CHECK(error_of(llama("\"num_key_value_heads\": 64")) ==
        "config.json:8: num_key_value_heads: 64 is out of range; accepted: 1 to 32");
  CHECK(error_of(llama("\"tie_word_embeddings\": 1")) ==
        "config.json:8: tie_word_embeddings: is 1; accepted: true or false");
  CHECK(error_of(llama("\"torch_dtype\": \"float17\"")) ==
        "config.json:8: torch_dtype: 'float17' is not accepted (did you mean 'float16'?); "
        "accepted: float32, float16, bfloat16");
  CHECK(error_of(llama("\"attention_dropout\": 2")) ==
        "config.json:8: attention_dropout: 2 is not a probability; accepted: 0 to 1");
}

TEST_CASE("a Mixtral's config.json gives the catalog's model") {
  const std::string mixtral = R"({"architectures": ["MixtralForCausalLM"],
"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
"num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 32768,
"num_local_experts": 8, "vocab_size": 32000, "tie_word_embeddings": false,
"num_experts_per_tok": )";
  const Model model = read(mixtral + "2}");
  CHECK(model.parameter_elements() == 46'702'792'704);
  CHECK(model.architecture.experts_per_token == 2);
  CHECK(error_of(mixtral + "9}") ==
        "config.json:5: num_experts_per_tok: 9 is out of range; accepted: 1 to 8");
}

TEST_CASE("BERT's heads are those that `architectures` names") {
  const auto bert = [](const std::string& more) {
    return R"({"model_type": "bert", "hidden_size": 768, "intermediate_size": 3072,
"num_hidden_layers": 12, "num_attention_heads": 12, "max_position_embeddings": 512,
"type_vocab_size": 2, "vocab_size": 30522)" +
           more + "}";
  };
  CHECK(read(bert("")).parameter_elements() == 110'106'428);
  // Without pooler (590,592) and next sentence (1,538).
  const Model masked = read(bert(R"(, "architectures": ["BertForMaskedLM"])"));
  CHECK(masked.parameter_elements() == 110'106'428 - 590'592 - 1'538);
  CHECK(masked.parameters[5 + 12 * 16].name.str() == "cls.predictions.bias");
  CHECK(error_of(bert(",\n\"architectures\": [\"BertForQuestionAnswering\"]")) ==
        "config.json:4: architectures: 'BertForQuestionAnswering' is not accepted; accepted: "
        "BertForPreTraining, BertForMaskedLM");
  CHECK(error_of(bert(",\n\"position_embedding_type\": \"relative_key\"")) ==
        "config.json:4: position_embedding_type: 'relative_key' is not accepted; accepted: "
        "absolute");
}

TEST_CASE("ViT has as many classes as id2label names") {
  const auto vit = [](const std::string& more) {
    return R"({"model_type": "vit", "hidden_size": 768, "intermediate_size": 3072,
"num_hidden_layers": 12, "num_attention_heads": 12, "image_size": 224,
"patch_size": 16)" +
           more + "}";
  };
  const std::int64_t body = 86'567'656 - 769'000;
  CHECK(read(vit("")).parameter_elements() == body + 2 * 769);
  CHECK(read(vit(R"(, "id2label": {"0": "a", "1": "b", "2": "c"})")).parameter_elements() ==
        body + 3 * 769);
  CHECK(error_of(vit(",\n\"num_channels\": 1")) ==
        "config.json:4: num_channels: 1 is not built; accepted: 3");
  CHECK(error_of(replaced(vit(""), "16", "15")) ==
        "config.json:2: image_size: 224 is not made of patches of 15; accepted: a multiple of 15");
}

TEST_CASE("families and variants that are not built are refused, not misread") {
  CHECK(error_of(replaced(llama(), "\"llama\"", "\"lama\""))
            .find("config.json:2: model_type: 'lama' is not accepted (did you mean 'llama', "
                  "'llama4' or 'llava_llama'?); accepted: one of ") == 0);
  CHECK(error_of(replaced(llama(), "\"llama\"", "\"gemma4\""))
            .find("config.json:2: model_type: 'gemma4' is not accepted") == 0);
  CHECK(error_of(llama("\"num_local_experts\": 8")) ==
        "config.json:8: num_local_experts: experts are read for other model_types (mixtral, "
        "qwen3_moe, ...); accepted: dense models");
  const std::string mpt = R"({"model_type": "mpt", "d_model": 64, "n_layers": 2, "n_heads": 4,
"vocab_size": 100, "max_seq_len": 32,
)";
  CHECK(error_of(mpt + R"("attn_config": {"qk_ln": true}})") ==
        "config.json:3: attn_config.qk_ln: is true; accepted: false, it is not built for mpt");
  CHECK(error_of(mpt + R"("ffn_config": {"ffn_type": "mptglu"}})") ==
        "config.json:3: ffn_config.ffn_type: 'mptglu' is not accepted (did you mean 'mptmlp'?); "
        "accepted: mptmlp");
  CHECK(error_of(mpt + R"("attn_config": {"attn_type": "grouped_query_attention",
"kv_n_heads": 3}})") ==
        "config.json:4: attn_config.kv_n_heads: 3 does not divide the 4 heads; accepted: a divisor "
        "of 4");
  // multi-query: Wqkv is h + 2 d wide
  const Model multi_query = read(mpt + R"("attn_config": {"attn_type": "multiquery_attention"}})");
  CHECK(multi_query.parameters[2].shape == std::vector<std::int64_t>{64 + 2 * 16, 64});
}

TEST_CASE("text that is not JSON is refused at its line") {
  CHECK(error_of("") ==
        "config.json:1: ends in the middle of a value: not valid JSON; accepted: a whole "
        "config.json");
  CHECK(error_of(llama().substr(0, 60)) ==
        "config.json:4: ends in the middle of a value: not valid JSON; accepted: a whole "
        "config.json");
  CHECK(error_of("{\n\"model_type\": 'llama'\n}") ==
        "config.json:2: is not valid JSON here; accepted: a Hugging Face config.json");
  CHECK(error_of("[1]") == "config.json:1: is an array; accepted: an object of keys and values");
  CHECK(error_of(std::string(100000, '[')) ==
        "config.json:1: nests deeper than 128 brackets; accepted: a Hugging Face config.json");
  CHECK_THROWS_AS(model_from_hf_config(data + "/no-such-file.json"), InputError);
}

TEST_CASE("cutting a config.json anywhere gives an error, never a crash or a model") {
  const std::string text = llama();
  for (std::size_t size = 0; size < text.size() - 1; ++size) {
    CAPTURE(size);
    CHECK(error_of(text.substr(0, size)) != "accepted");
  }
}

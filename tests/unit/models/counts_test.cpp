// Parameter counts to the last parameter, and the order in which PyTorch registers them.
#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "models/model.hpp"

using namespace stepcast;

namespace {

const Parameter& parameter_of(const Model& model, const Layer& layer, int i) {
  const auto first = static_cast<std::size_t>(layer.first_parameter);
  return model.parameters[first + static_cast<std::size_t>(i)];
}

std::vector<std::string> names_of(const Model& model, const Layer& layer) {
  std::vector<std::string> names(static_cast<std::size_t>(layer.parameter_count));
  for (std::size_t i = 0; i < names.size(); ++i) {
    names[i] = parameter_of(model, layer, static_cast<int>(i)).name.str();
  }
  return names;
}

}  // namespace

TEST_CASE("E-21: published parameter counts are met to the last parameter") {
  struct Row {
    const char* name;
    std::int64_t parameters;
  };
  // Hugging Face safetensors totals; gpt2-* as printed by transformers' num_parameters().
  for (const Row& row : std::vector<Row>{{"gpt2", 124439808},
                                         {"gpt2-medium", 354823168},
                                         {"gpt2-large", 774030080},
                                         {"gpt2-xl", 1557611200},
                                         {"llama-2-7b", 6738415616},
                                         {"llama-2-13b", 13015864320},
                                         {"llama-2-70b", 68976648192},
                                         {"llama-3-8b", 8030261248},
                                         {"llama-3-70b", 70553706496},
                                         {"llama-3.2-1b", 1235814400},
                                         {"mistral-7b", 7241732096},
                                         {"qwen2-7b", 7615616512}}) {
    CAPTURE(row.name);
    CHECK(load_model(row.name).parameter_elements() == row.parameters);
  }
}

TEST_CASE("llm-foundry's MPT counts L(12hh+13h) + Vh + sh + 2h at any sequence length") {
  struct Row {
    const char* name;
    std::int64_t layers, hidden, seq_len, parameters;
  };
  // Parameters as llm-foundry's benchmark tables use them (its printed MFU follows from them).
  for (const Row& row : std::vector<Row>{{"mpt-125m", 12, 768, 512, 124131840},
                                         {"mpt-350m", 24, 1024, 65536, 420997120},
                                         {"mpt-760m", 24, 1536, 8192, 769907712},
                                         {"mpt-1b", 24, 2048, 2048, 1315950592},
                                         {"mpt-3b", 32, 2560, 4096, 2657080320},
                                         {"mpt-7b", 32, 4096, 2048, 6658859008},
                                         {"mpt-7b", 32, 4096, 65536, 6918905856},
                                         {"mpt-13b", 40, 5120, 2048, 12853954560},
                                         {"mpt-30b", 48, 7168, 8192, 30019254272},
                                         {"mpt-70b", 80, 8192, 2048, 64862437376}}) {
    CAPTURE(row.name);
    const std::int64_t h = row.hidden;
    CHECK(row.layers * (12 * h * h + 13 * h) + 50368 * h + row.seq_len * h + 2 * h ==
          row.parameters);
    CHECK(load_model(row.name, row.seq_len).parameter_elements() == row.parameters);
  }
  CHECK(load_model("mpt-7b").parameter_elements() == 6658859008);  // its default is 2,048
}

TEST_CASE("E-21: a Llama-3-8B block holds 218,112,000 parameters in nine tensors of q to norm") {
  const Model model = load_model("llama-3-8b");
  REQUIRE(model.layers.size() == 35);
  CHECK(model.parameters.size() == 291);
  const Layer& block = model.layers[4];
  CHECK(block.name == Name("layers.3"));
  CHECK(block.kind == LayerKind::block);
  // q, o 4096 x 4096; k, v 1024 x 4096; three of 14336 x 4096; two norms
  CHECK(2 * 16777216 + 2 * 4194304 + 3 * 58720256 + 2 * 4096 == 218112000);
  CHECK(model.parameter_elements(block) == 218112000);
  const std::string p = "model.layers.3.";
  CHECK(names_of(model, block) ==
        std::vector<std::string>{p + "self_attn.q_proj.weight", p + "self_attn.k_proj.weight",
                                 p + "self_attn.v_proj.weight", p + "self_attn.o_proj.weight",
                                 p + "mlp.gate_proj.weight", p + "mlp.up_proj.weight",
                                 p + "mlp.down_proj.weight", p + "input_layernorm.weight",
                                 p + "post_attention_layernorm.weight"});
  const auto shape = [&](int i) { return parameter_of(model, block, i).shape; };
  CHECK(shape(0) == std::vector<std::int64_t>{4096, 4096});
  CHECK(shape(1) == std::vector<std::int64_t>{1024, 4096});
  CHECK(shape(4) == std::vector<std::int64_t>{14336, 4096});
  CHECK(shape(6) == std::vector<std::int64_t>{4096, 14336});
  CHECK(shape(8) == std::vector<std::int64_t>{4096});
  CHECK(model.input_embedding_elements() == 128256ll * 4096);
}

TEST_CASE("GPT-2 registers 148 tensors, its Conv1D weights are [in, out], the head shares wte") {
  const Model model = load_model("gpt2");
  CHECK(model.parameters.size() == 148);
  CHECK(model.parameters[0].name == Name("transformer.wte.weight"));
  CHECK(model.parameters[1].name == Name("transformer.wpe.weight"));
  CHECK(names_of(model, model.layers[1]) ==
        std::vector<std::string>{
            "transformer.h.0.ln_1.weight", "transformer.h.0.ln_1.bias",
            "transformer.h.0.attn.c_attn.weight", "transformer.h.0.attn.c_attn.bias",
            "transformer.h.0.attn.c_proj.weight", "transformer.h.0.attn.c_proj.bias",
            "transformer.h.0.ln_2.weight", "transformer.h.0.ln_2.bias",
            "transformer.h.0.mlp.c_fc.weight", "transformer.h.0.mlp.c_fc.bias",
            "transformer.h.0.mlp.c_proj.weight", "transformer.h.0.mlp.c_proj.bias"});
  CHECK(model.parameters[4].shape == std::vector<std::int64_t>{768, 2304});
  CHECK(model.parameters[10].shape == std::vector<std::int64_t>{768, 3072});
  CHECK(model.parameters.back().name == Name("transformer.ln_f.bias"));
  const Layer& head = model.layers.back();
  CHECK(head.kind == LayerKind::head);
  CHECK(head.parameter_count == 0);
  CHECK(head.tied_parameter == 0);
  CHECK(model.input_embedding_elements() == (50257 + 1024) * 768);
}

TEST_CASE("an untied GPT-2 has one tensor more, 652,148,736 bytes in fp32") {
  Architecture sizes = load_model("gpt2").architecture;
  sizes.tied_embeddings = false;
  const Model model = build_model("gpt2-untied", sizes);
  CHECK(model.parameters.size() == 149);
  CHECK(4 * model.parameter_elements() == 652148736);
  CHECK(model.layers.back().tied_parameter == -1);
  CHECK(model.parameters.back().name == Name("lm_head.weight"));
}

TEST_CASE("qwen2 has biases on q, k and v only, beside their weights") {
  const Model model = load_model("qwen2-7b");
  const std::vector<std::string> names = names_of(model, model.layers[1]);
  REQUIRE(names.size() == 12);
  CHECK(names[0] == "model.layers.0.self_attn.q_proj.weight");
  CHECK(names[1] == "model.layers.0.self_attn.q_proj.bias");
  CHECK(names[6] == "model.layers.0.self_attn.o_proj.weight");
  CHECK(names[7] == "model.layers.0.mlp.gate_proj.weight");
}

TEST_CASE("every catalog model lists each parameter once, in layers that cover all of them") {
  REQUIRE(catalog_models().size() == 55);
  for (const std::string& name : catalog_models()) {
    CAPTURE(name);
    const Model model = load_model(name);
    CHECK(model.name == name);
    const bool our_own = model.architecture.family == Family::mlp;
    CHECK((our_own || model.source.find("https://") != std::string::npos));
    std::set<std::string> unique;
    for (const Parameter& parameter : model.parameters) unique.insert(parameter.name.str());
    CHECK(unique.size() == model.parameters.size());
    int next = 0;
    std::int64_t elements = 0;
    for (const Layer& layer : model.layers) {
      CHECK(layer.first_parameter == next);
      next += layer.parameter_count;
      elements += model.parameter_elements(layer);
      CHECK(layer.shape_class >= 0);
      CHECK(layer.shape_class < model.shape_classes);
    }
    CHECK(next == static_cast<int>(model.parameters.size()));
    CHECK(elements == model.parameter_elements());
    // Embedding or stem, norm, head; bert, resnet and mlp end without a norm of their own.
    const Family family = model.architecture.family;
    const bool no_norm =
        family == Family::bert || family == Family::resnet || family == Family::mlp;
    const int ends = no_norm ? 2 : 3;
    CHECK(static_cast<std::int64_t>(model.layers.size()) == model.architecture.layers + ends);
  }
}

TEST_CASE("a model of plain tensors has a layer a tensor and a class a shape") {
  const Model model = model_of_tensors({{"a", {4, 2}}, {"b", {3}}, {"c", {4, 2}}});
  REQUIRE(model.layers.size() == 3);
  CHECK(model.shape_classes == 2);
  CHECK(model.layers[0].shape_class == model.layers[2].shape_class);
  CHECK(model.layers[0].shape_class != model.layers[1].shape_class);
  CHECK(model.parameter_elements() == 19);
  CHECK(model.parameter_elements(model.layers[1]) == 3);
  const LayerWork work = work_of(model, 1, Workload{});
  CHECK(work.forward.empty());
  REQUIRE(work.backward.size() == 1);
  CHECK(work.backward[0].kernel.bytes_read == 0);
  CHECK(work.backward[0].kernel.launches == 0);
  CHECK(work.backward[0].ready == std::vector<int>{0});
  CHECK(work.saved_activations == 0);
}

TEST_CASE("sizes that make no model are refused by name") {
  const auto message = [](auto change) {
    Architecture sizes = load_model("llama-3-8b").architecture;
    change(sizes);
    try {
      build_model("x", sizes);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK(message([](Architecture&) {}) == "accepted");
  CHECK(message([](Architecture& a) { a.hidden = -1; }) ==
        "x: hidden: -1 is out of range; accepted: 1 to 1048576");
  CHECK(message([](Architecture& a) { a.layers = 0; }) ==
        "x: layers: 0 is out of range; accepted: 1 to 8192");
  CHECK(message([](Architecture& a) { a.kv_heads = 5; }) ==
        "x: kv_heads: 5 does not divide the 32 heads; accepted: a divisor of 32");
  CHECK(message([](Architecture& a) {
          a.heads = a.kv_heads = 33;
          a.head_size = 0;
        }) ==
        "x: heads: 33 does not divide the hidden size 4096; accepted: a divisor of 4096, or a head "
        "size of its own");
  CHECK(message([](Architecture& a) { a.vocabulary = INT64_MAX; }) ==
        "x: vocabulary: 9223372036854775807 is out of range; accepted: 1 to 268435456");
  CHECK(message([](Architecture& a) {
          a.hidden = 1 << 20;
          a.ffn_hidden = 1 << 24;
          a.layers = 8192;
        }).find("parameters; accepted: at most 1e15") != std::string::npos);
  CHECK(message([](Architecture& a) { a.norm_bias = true; }) ==
        "x: norm_bias: is true; accepted: false, RMSNorm has no bias");
}

// Models put together from parts: the same as the families', and what the families cannot say.
#include "models/composition.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.hpp"
#include "models/hf_config.hpp"
#include "models/model.hpp"

using namespace stepcast;

namespace {

// A catalog model's sizes as one kind of block.
Model from_parts(const Model& own, const std::string& modules) {
  Architecture a;
  a.family = Family::composed;
  a.hidden = own.architecture.hidden;
  a.vocabulary = own.architecture.vocabulary;
  a.max_positions = own.architecture.max_positions;
  a.tied_embeddings = own.architecture.tied_embeddings;
  a.attention_dropout = own.architecture.attention_dropout;
  Composition c;
  BlockKind k;
  k.name = "block";
  k.modules = modules_of(modules);
  k.heads = own.architecture.heads;
  k.kv_heads = own.architecture.kv_heads;
  k.head_size = k.value_size = k.rotary = own.architecture.head_size;
  k.ffn = k.expert_ffn = own.architecture.ffn_hidden;
  k.experts = own.architecture.experts;
  k.experts_per_token = own.architecture.experts_per_token;
  c.kinds = {k};
  Section embedding;
  embedding.kind = LayerKind::embedding;
  embedding.name = "embedding";
  embedding.modules = modules_of("model.embed_tokens=tokens");
  Section blocks;
  blocks.name = "layers.";
  blocks.prefix = "model.layers.";
  blocks.order.assign(static_cast<std::size_t>(own.architecture.layers), 0);
  Section norm;
  norm.kind = LayerKind::final_norm;
  norm.name = "norm";
  norm.modules = modules_of("model.norm=norm1");
  Section head;
  head.kind = LayerKind::head;
  head.name = "head";
  if (!a.tied_embeddings) head.modules = modules_of("lm_head=head");
  c.segments = {embedding, blocks, norm, head};
  a.composition = std::make_shared<const Composition>(c);
  return build_model(own.name, a);
}

const std::string llama_parts =
    "self_attn.q_proj=q self_attn.k_proj=k self_attn.v_proj=v self_attn.o_proj=o mlp.gate_proj=gate"
    " mlp.up_proj=up mlp.down_proj=down input_layernorm=norm1 post_attention_layernorm=norm2";
const std::string mixtral_parts =
    "self_attn.q_proj=q self_attn.k_proj=k self_attn.v_proj=v self_attn.o_proj=o"
    " block_sparse_moe.gate=router block_sparse_moe.experts.*.w1=expert_gate"
    " block_sparse_moe.experts.*.w2=expert_down block_sparse_moe.experts.*.w3=expert_up"
    " input_layernorm=norm1 post_attention_layernorm=norm2";

void check_same_tensors(const Model& a, const Model& b) {
  REQUIRE(a.parameters.size() == b.parameters.size());
  for (std::size_t i = 0; i < a.parameters.size(); ++i) {
    CHECK(a.parameters[i].name == b.parameters[i].name);
    CHECK(a.parameters[i].shape == b.parameters[i].shape);
  }
  REQUIRE(a.layers.size() == b.layers.size());
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    CHECK(a.layers[i].name == b.layers[i].name);
    CHECK(a.layers[i].kind == b.layers[i].kind);
    CHECK(a.layers[i].first_parameter == b.layers[i].first_parameter);
    CHECK(a.layers[i].parameter_count == b.layers[i].parameter_count);
    CHECK(a.layers[i].shape_class == b.layers[i].shape_class);
    CHECK(a.layers[i].tied_parameter == b.layers[i].tied_parameter);
  }
  CHECK(a.active_parameter_elements() == b.active_parameter_elements());
  CHECK(model_flops_per_token(a, 1000) == model_flops_per_token(b, 1000));
}

void check_same_kernels(const std::vector<Kernel>& a, const std::vector<Kernel>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(a[i].name.str() == b[i].name.str());
    CHECK(a[i] == b[i]);
  }
}

void check_same_work(const Model& own, const Model& parts, const Workload& w) {
  for (const std::size_t layer :
       {std::size_t{0}, std::size_t{1}, own.layers.size() - 2, own.layers.size() - 1}) {
    CAPTURE(layer);
    const LayerWork a = work_of(own, static_cast<int>(layer), w);
    const LayerWork b = work_of(parts, static_cast<int>(layer), w);
    check_same_kernels(a.forward, b.forward);
    check_same_kernels(a.recompute, b.recompute);
    REQUIRE(a.backward.size() == b.backward.size());
    for (std::size_t i = 0; i < a.backward.size(); ++i) {
      CAPTURE(i);
      CHECK(a.backward[i].kernel.name.str() == b.backward[i].kernel.name.str());
      CHECK(a.backward[i].kernel == b.backward[i].kernel);
      CHECK(a.backward[i].ready == b.backward[i].ready);
    }
    CHECK(a.saved_activations == b.saved_activations);
    CHECK(a.weight_copies == b.weight_copies);
    CHECK(a.recomputed_activations == b.recomputed_activations);
    CHECK(a.forward_workspace == b.forward_workspace);
    CHECK(a.backward_workspace == b.backward_workspace);
    CHECK(a.output == b.output);
  }
}

std::vector<Workload> workloads() {
  std::vector<Workload> list;
  for (const bool fused_elementwise : {false, true}) {
    for (const bool autocast : {false, true}) {
      for (const bool fused_attention : {false, true}) {
        for (const Checkpointing checkpointing :
             {Checkpointing::none, Checkpointing::selective, Checkpointing::full}) {
          Workload w;
          w.micro_batch = 2;
          w.seq_len = 96;
          w.fused_elementwise = fused_elementwise;
          w.autocast_weights = autocast;
          w.fused_attention = fused_attention;
          w.checkpointing = checkpointing;
          list.push_back(w);
        }
      }
    }
  }
  return list;
}

Model read(const std::string& text) { return model_from_hf_text(text, "config.json", "model"); }

}  // namespace

TEST_CASE("a Llama put together from parts is the family's own, tensor by tensor") {
  const Model own = load_model("llama-3.2-1b");
  check_same_tensors(own, from_parts(own, llama_parts));
  const Model untied = load_model("llama-3-8b");
  check_same_tensors(untied, from_parts(untied, llama_parts));
}

TEST_CASE("a Llama put together from parts does the family's work, kernel by kernel") {
  const Model own = load_model("llama-3.2-1b");
  const Model parts = from_parts(own, llama_parts);
  for (const Workload& w : workloads()) {
    CAPTURE(w.fused_elementwise);
    CAPTURE(w.autocast_weights);
    CAPTURE(w.fused_attention);
    CAPTURE(to_string(w.checkpointing));
    check_same_work(own, parts, w);
  }
}

TEST_CASE("a Mixtral put together from parts is the family's own, kernel by kernel") {
  const Model own = load_model("mixtral-8x7b");
  const Model parts = from_parts(own, mixtral_parts);
  check_same_tensors(own, parts);
  for (const Workload& w : workloads()) {
    CAPTURE(w.fused_elementwise);
    CAPTURE(w.autocast_weights);
    CAPTURE(w.fused_attention);
    CAPTURE(to_string(w.checkpointing));
    check_same_work(own, parts, w);
  }
}

TEST_CASE("a window of 3 keys in 8 tokens leaves 21 of 36 pairs") {
  // Queries 1, 2 and 3 see 1, 2 and 3 keys, the other five 3 each: 6 + 15 = 21.
  const std::string text = R"({"model_type": "mistral", "hidden_size": 64,
    "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100,
    "max_position_embeddings": 64, "sliding_window": 3})";
  Workload w;
  w.seq_len = 8;
  const LayerWork work = work_of(read(text), 1, w);
  for (const Kernel& k : work.forward) {
    if (k.kind != KernelKind::attention_forward) continue;
    CHECK(k.m == 8);
    CHECK(k.n == 21 / 8);  // keys a query, whole
    CHECK_FALSE(k.causal);
  }
  w.seq_len = 3;  // no longer than the window: as without
  for (const Kernel& k : work_of(read(text), 1, w).forward) {
    if (k.kind == KernelKind::attention_forward) CHECK(k.causal);
  }
}

TEST_CASE("OPT's last norm is registered between its tables and its blocks, and runs last") {
  const Model model = read(R"({"model_type": "opt", "hidden_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "ffn_dim": 128, "vocab_size": 100, "max_position_embeddings": 32})");
  CHECK(model.parameters[1].name == Name("model.decoder.embed_positions.weight"));
  CHECK(model.parameters[1].shape == std::vector<std::int64_t>{34, 64});  // two rows more
  CHECK(model.parameters[2].name == Name("model.decoder.final_layer_norm.weight"));
  CHECK(model.parameters[4].name == Name("model.decoder.layers.0.self_attn.k_proj.weight"));
  REQUIRE(model.layers.size() == 5);
  CHECK(model.layers[3].kind == LayerKind::final_norm);
  CHECK(model.layers[3].first_parameter == 2);
  CHECK(model.layers[1].first_parameter == 4);
}

TEST_CASE("every parameter of a composed layer is ready once after its backward") {
  for (const char* text : {
           R"({"model_type": "gemma2", "hidden_size": 64, "num_hidden_layers": 2,
               "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
               "intermediate_size": 96, "vocab_size": 100, "max_position_embeddings": 64})",
           R"({"model_type": "deepseek_v3", "hidden_size": 64, "num_hidden_layers": 3,
               "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100,
               "max_position_embeddings": 64, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
               "v_head_dim": 16, "kv_lora_rank": 24, "q_lora_rank": 32, "n_routed_experts": 4,
               "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
               "first_k_dense_replace": 1})",
           R"({"model_type": "falcon", "hidden_size": 64, "num_hidden_layers": 1,
               "num_attention_heads": 4, "vocab_size": 100})",
           R"({"model_type": "jamba", "hidden_size": 64, "num_hidden_layers": 8,
               "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100,
               "max_position_embeddings": 64, "num_experts": 4})",
           R"({"model_type": "gpt_oss", "hidden_size": 64, "num_hidden_layers": 2,
               "num_attention_heads": 4, "head_dim": 16, "intermediate_size": 96,
               "vocab_size": 100, "max_position_embeddings": 64, "num_local_experts": 4,
               "num_experts_per_tok": 2})",
           R"({"model_type": "t5", "d_model": 64, "num_layers": 2, "num_heads": 4, "d_kv": 16,
               "d_ff": 96, "vocab_size": 100})",
           R"({"model_type": "whisper", "d_model": 64, "encoder_layers": 2, "decoder_layers": 2,
               "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 96,
               "decoder_ffn_dim": 96, "vocab_size": 100})",
           R"({"model_type": "roberta", "hidden_size": 64, "num_hidden_layers": 1,
               "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100,
               "max_position_embeddings": 66})",
           R"({"model_type": "qwen3_next", "hidden_size": 64, "num_hidden_layers": 4,
               "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
               "vocab_size": 100, "max_position_embeddings": 64, "num_experts": 4,
               "num_experts_per_tok": 2, "moe_intermediate_size": 32,
               "shared_expert_intermediate_size": 32, "linear_num_key_heads": 2,
               "linear_key_head_dim": 8, "linear_num_value_heads": 4, "linear_value_head_dim": 8})",
       }) {
    CAPTURE(text);
    const Model model = read(text);
    Workload w;
    w.seq_len = 32;
    for (const bool autocast : {false, true}) {
      w.autocast_weights = autocast;
      for (std::size_t i = 0; i < model.layers.size(); ++i) {
        CAPTURE(i);
        const Layer& layer = model.layers[i];
        std::vector<int> times(static_cast<std::size_t>(layer.parameter_count), 0);
        const LayerWork work = work_of(model, static_cast<int>(i), w);
        for (const BackwardKernel& b : work.backward) {
          for (const int ready : b.ready) ++times.at(static_cast<std::size_t>(ready));
        }
        CHECK(times == std::vector<int>(times.size(), 1));
        if (layer.kind == LayerKind::block) CHECK(work.saved_activations > 0);
      }
    }
  }
}

TEST_CASE("latent attention's products are DeepSeek's") {
  // 4 heads of 16 + 8, values of 16: q_a 32x64, q_b 96x32, kv_a 32x64, kv_b 128x24, o 64x64.
  const Model model = read(R"({"model_type": "deepseek_v2", "hidden_size": 64,
    "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100,
    "max_position_embeddings": 64, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
    "kv_lora_rank": 24, "q_lora_rank": 32})");
  Workload w;
  w.seq_len = 32;
  std::vector<std::string> products;
  for (const Kernel& k : work_of(model, 1, w).forward) {
    if (k.kind == KernelKind::gemm) {
      products.push_back(k.name.str() + " " + std::to_string(k.n) + "x" + std::to_string(k.k));
    }
    if (k.kind == KernelKind::attention_forward) CHECK(k.k == 20);  // (24 + 16) / 2
  }
  CHECK(products == std::vector<std::string>{"q_a_proj 32x64", "q_b_proj 96x32", "kv_a_proj 32x64",
                                             "kv_b_proj 128x24", "o_proj 64x64", "gate_proj 96x64",
                                             "up_proj 96x64", "down_proj 64x96"});
}

TEST_CASE("compositions that make no model are refused with what is missing") {
  const auto message = [](auto change) {
    Architecture a = from_parts(load_model("llama-3.2-1b"), llama_parts).architecture;
    Composition c = *a.composition;
    change(c);
    a.composition = std::make_shared<const Composition>(c);
    try {
      build_model("x", a);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK(message([](Composition&) {}) == "accepted");
  CHECK(message([](Composition& c) { c.kinds[0].heads = 0; }) ==
        "x: heads: 0 of block is out of range; accepted: 1 to 65536");
  CHECK(message([](Composition& c) { c.kinds[0].modules = modules_of("q=q k=k v=v down=down"); }) ==
        "x: modules: of block have queries and no o, the output projection");
  CHECK(
      message([](Composition& c) { c.kinds[0].modules = modules_of("qkv=qkv q=q k=k v=v o=o"); }) ==
      "x: modules: of block are not queries, keys and values; accepted: q, k and v, or qkv, or "
      "kv_a and kv_b");
  CHECK(message([](Composition& c) { c.kinds[0].modules = modules_of("a=up b=up c=down"); }) ==
        "x: modules: of block have two parts up; accepted: one of each");
  CHECK(message([](Composition& c) { c.kinds[0].modules = modules_of("up.*=up down=down"); }) ==
        "x: modules: of block: up.* has a star; accepted: in names of expert_gate, expert_up and "
        "expert_down");
  CHECK(message([](Composition& c) { c.segments.erase(c.segments.begin()); }) ==
        "x: layer: 0 token tables in all layers; accepted: 1");
  CHECK(message([](Composition& c) { c.kinds[0].ffn = 1ll << 40; }) ==
        "x: ffn: 1099511627776 of block is out of range; accepted: 1 to 16777216");
}

// Activation bytes by the published formulas, to the byte.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "models/checkpointing.hpp"
#include "models/model.hpp"

using namespace stepcast;

namespace {

// GPT-3's shape with learned positions and dropout: h 12,288, 96 heads, 96 layers.
Model gpt3() {
  Architecture a;
  a.family = Family::gpt2;
  a.hidden = 12288;
  a.layers = 96;
  a.heads = 96;
  a.ffn_hidden = 4 * 12288;
  a.vocabulary = 50257;
  a.max_positions = 2048;
  a.learned_positions = a.tied_embeddings = true;
  a.attention_bias = a.attention_output_bias = a.mlp_bias = a.norm_bias = true;
  a.embedding_dropout = a.attention_dropout = a.residual_dropout = true;
  return build_model("gpt3", a);
}

LayerWork block(const Model& model, const Workload& workload) {
  return work_of(model, 1, workload);
}

}  // namespace

TEST_CASE("E-23: a GPT-3 layer with unfused attention and dropout keeps sbh(34 + 5as/h) bytes") {
  Workload w;
  w.seq_len = 2048;
  w.fused_attention = false;
  const Bytes sbh = 2048ll * 12288;
  CHECK(34 * sbh == 855638016);
  CHECK(5ll * 96 * 2048 * 2048 == 2013265920);
  const LayerWork none = block(gpt3(), w);
  CHECK(none.saved_activations == 2868903936);
  CHECK(none.recomputed_activations == 0);
  CHECK(none.recompute.empty());
  CHECK(none.output == 2 * sbh);

  w.checkpointing = Checkpointing::selective;  // all but the scores
  const LayerWork selective = block(gpt3(), w);
  CHECK(selective.saved_activations == 855638016);
  CHECK(selective.recomputed_activations == 2013265920);

  w.checkpointing = Checkpointing::full;  // its input: 2sbh, 4.83 GB in 96 layers
  const LayerWork full = block(gpt3(), w);
  CHECK(full.saved_activations == 2 * sbh);
  CHECK(96 * full.saved_activations == 4831838208);
  CHECK(full.recomputed_activations == 2868903936 - 2 * sbh);
}

TEST_CASE("with FlashAttention the GPT-3 layer keeps 34sbh and four bytes a query") {
  Workload w;
  w.seq_len = 2048;
  CHECK(block(gpt3(), w).saved_activations == 855638016 + 4ll * 96 * 2048);
}

TEST_CASE("without dropout there are no masks") {
  Architecture a = gpt3().architecture;
  a.embedding_dropout = a.attention_dropout = a.residual_dropout = false;
  Workload w;
  w.seq_len = 2048;
  w.fused_attention = false;
  // 34 - 2 masks; of the scores only the softmax output is kept
  CHECK(block(build_model("x", a), w).saved_activations ==
        32 * 2048ll * 12288 + 2ll * 96 * 2048 * 2048);
}

TEST_CASE("E-23: a Llama layer keeps sbh(12 + 4k/a) + 8sbf + 4bas bytes") {
  Workload w;
  w.seq_len = 4096;
  CHECK(16ll * 4096 * 4096 + 8ll * 4096 * 11008 + 4ll * 32 * 4096 == 629669888);
  CHECK(block(load_model("llama-2-7b"), w).saved_activations == 629669888);
  w.seq_len = 8192;
  CHECK(13ll * 8192 * 4096 + 8ll * 8192 * 14336 + 4ll * 32 * 8192 == 1376780288);
  CHECK(block(load_model("llama-3-8b"), w).saved_activations == 1376780288);
  w.micro_batch = 2;
  CHECK(block(load_model("llama-3-8b"), w).saved_activations == 2 * 1376780288ll);
}

TEST_CASE("a compiled SwiGLU keeps 6sbf, selective checkpointing 4sbf and no norm outputs") {
  Workload w;
  w.seq_len = 8192;
  w.fused_elementwise = true;
  const Model model = load_model("llama-3-8b");
  CHECK(block(model, w).saved_activations == 1376780288 - 2ll * 8192 * 14336);
  w.fused_elementwise = false;
  w.checkpointing = Checkpointing::selective;
  const LayerWork selective = block(model, w);
  CHECK(selective.saved_activations == 9ll * 8192 * 4096 + 4ll * 8192 * 14336 + 4ll * 32 * 8192);
  CHECK(selective.saved_activations + selective.recomputed_activations == 1376780288);
}

TEST_CASE("a model has the levels of checkpointing that its blocks can be cut into") {
  using Levels = std::vector<std::string>;
  const auto levels = [](const char* name) {
    return checkpointing_levels(load_model(name).architecture);
  };
  CHECK(levels("llama-3-8b") == Levels{"none", "selective", "selective-op", "full"});
  CHECK(levels("gpt2") == Levels{"none", "selective", "full"});  // q, k and v are one product
  CHECK(levels("resnet-50") == Levels{"none", "full"});
}

TEST_CASE("selective-op keeps a block's input, q, v, attention, gate and, eager, down") {
  Workload w;
  w.seq_len = 8192;
  w.checkpointing = Checkpointing::selective_op;
  const Model model = load_model("llama-3-8b");
  // s b (4 h + k d + f) elements and the log-sum-exp: 2 * 8192 * (4 * 4096 + 1024 + 14336) + 4 * 32
  // * 8192.
  const LayerWork eager = block(model, w);
  CHECK(eager.saved_activations == 521142272);
  CHECK(eager.saved_activations + eager.recomputed_activations ==
        1376780288 + 2ll * 8192 * 4096);  // of down's result nothing else asks
  w.fused_elementwise = true;
  CHECK(block(model, w).saved_activations == 521142272 - 2ll * 8192 * 4096);
}

TEST_CASE("in fp32 every activation is twice as long, the log-sum-exp is not") {
  Workload w;
  w.seq_len = 4096;
  w.compute_dtype = Dtype::fp32;
  CHECK(block(load_model("llama-2-7b"), w).saved_activations ==
        2 * (629669888ll - 4 * 32 * 4096) + 4 * 32 * 4096);
}

TEST_CASE("E-23: the loss of Llama-3 at 8,192 tokens takes 10 bytes a logit forward, 12 backward") {
  const Model model = load_model("llama-3-8b");
  const int head = static_cast<int>(model.layers.size()) - 1;
  Workload w;
  w.seq_len = 8192;
  const Bytes logits = 8192ll * 128256;
  const Bytes input = 2ll * 8192 * 4096;
  const LayerWork eager = work_of(model, head, w);
  CHECK(eager.saved_activations == input + 4 * logits);
  CHECK(eager.saved_activations - input + eager.forward_workspace == 10 * logits);
  CHECK(static_cast<double>(10 * logits) / static_cast<double>(gib) ==
        doctest::Approx(9.785).epsilon(1e-4));
  CHECK(eager.saved_activations - input + eager.backward_workspace == 12 * logits);
  CHECK(eager.output == 0);

  w.fused_loss = true;  // 16-bit logits and their gradient; 4 bytes a token
  const LayerWork fused = work_of(model, head, w);
  CHECK(fused.saved_activations == input + 2 * logits + 4 * 8192);
  CHECK(fused.forward_workspace == 0);
  CHECK(fused.backward_workspace == 2 * logits);
}

TEST_CASE("embedding and final norm keep a mask and an input") {
  Workload w;
  w.seq_len = 2048;
  const Bytes sbh = 2048ll * 12288;
  CHECK(work_of(gpt3(), 0, w).saved_activations == sbh);  // dropout's mask
  CHECK(work_of(gpt3(), 0, w).output == 2 * sbh);
  CHECK(work_of(gpt3(), 97, w).saved_activations == 2 * sbh);
  CHECK(work_of(load_model("llama-3-8b"), 0, w).saved_activations == 0);
}

TEST_CASE("under autocast the residual stream is fp32 and 16-bit copies of the weights are kept") {
  Workload w;
  w.seq_len = 4096;
  w.autocast_weights = true;
  const Model model = load_model("llama-2-7b");
  const Bytes sbh = 4096ll * 4096;
  const LayerWork work = block(model, w);
  CHECK(work.weight_copies == 2 * (202383360ll - 2 * 4096));                  // all but the norms
  CHECK(work.saved_activations == 629669888 + 4 * sbh + work.weight_copies);  // two norm inputs
  CHECK(work.output == 4 * sbh);
  w.checkpointing = Checkpointing::full;
  CHECK(block(model, w).weight_copies == 0);
  CHECK(block(model, w).saved_activations == 4 * sbh);
}

TEST_CASE("under autocast GPT-2 keeps 38sbh, and an unfused softmax of fp32 7as/h more") {
  Workload w;
  w.seq_len = 1024;
  w.autocast_weights = true;
  w.fused_attention = false;
  const LayerWork work = block(load_model("gpt2"), w);
  CHECK(work.saved_activations - work.weight_copies == 38ll * 1024 * 768 + 7ll * 12 * 1024 * 1024);
  w.compute_dtype = Dtype::fp32;  // nothing is cast: twice 32 and two masks, 4 + 1 + 4 a score
  CHECK(block(load_model("gpt2"), w).saved_activations ==
        66ll * 1024 * 768 + 9ll * 12 * 1024 * 1024);
}

TEST_CASE("a block's backward needs its MLP's gradients besides the states at its ends") {
  Workload w;
  w.seq_len = 8192;
  const LayerWork work = block(load_model("llama-3-8b"), w);
  // gradients of the product, of silu and of up; more than q, k, v, their gradients' inputs
  CHECK(work.backward_workspace == 3 * 2ll * 8192 * 14336);
  CHECK(work.forward_workspace == 8ll * 8192 * 4096);  // an eager RMSNorm's two fp32 copies
  w.fused_attention = false;  // gradients of softmax and scores, of o's input and of q, k, v
  const Bytes scores = 2ll * 32 * 8192 * 8192;
  CHECK(block(load_model("llama-3-8b"), w).backward_workspace ==
        2 * scores + 2ll * 8192 * (4096 + 4096 + 2 * 1024));
  CHECK(block(load_model("llama-3-8b"), w).forward_workspace == scores);
}

TEST_CASE("where full checkpointing keeps nothing, forward still needs its busiest moment") {
  Workload w;
  w.seq_len = 8192;
  w.checkpointing = Checkpointing::full;
  // the residual, the norm's result, silu, up and their product
  CHECK(block(load_model("llama-3-8b"), w).forward_workspace ==
        2ll * 8192 * (2 * 4096 + 3 * 14336));
}

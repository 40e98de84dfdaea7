// Kernels of a layer, counted by hand.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "models/model.hpp"

using namespace stepcast;

namespace {

std::vector<std::string> names(const std::vector<Kernel>& list) {
  std::vector<std::string> result;
  result.reserve(list.size());
  for (const Kernel& kernel : list) result.push_back(kernel.name.str());
  return result;
}

std::vector<std::string> names(const std::vector<BackwardKernel>& list) {
  std::vector<std::string> result;
  result.reserve(list.size());
  for (const BackwardKernel& step : list) result.push_back(step.kernel.name.str());
  return result;
}

const Kernel& find(const std::vector<Kernel>& list, const std::string& name) {
  const auto it = std::find_if(list.begin(), list.end(),
                               [&](const Kernel& kernel) { return kernel.name == Name(name); });
  REQUIRE(it != list.end());
  return *it;
}

const Kernel& find(const std::vector<BackwardKernel>& list, const std::string& name) {
  const auto it = std::find_if(list.begin(), list.end(), [&](const BackwardKernel& step) {
    return step.kernel.name == Name(name);
  });
  REQUIRE(it != list.end());
  return it->kernel;
}

int launches(const std::vector<Kernel>& list) {
  int sum = 0;
  for (const Kernel& kernel : list) sum += kernel.launches;
  return sum;
}

Bytes traffic(const std::vector<Kernel>& list) {
  Bytes sum = 0;
  for (const Kernel& kernel : list) sum += kernel.bytes_read + kernel.bytes_written;
  return sum;
}

// Sizes small enough to count on fingers: h 8, 2 query heads and 1 key-value head of 4, f 16, V 32.
Model tiny(Family family = Family::llama) {
  Architecture a;
  a.family = family;
  a.hidden = 8;
  a.layers = 2;
  a.heads = 2;
  a.kv_heads = family == Family::llama ? 1 : 2;
  a.ffn_hidden = 16;
  a.vocabulary = 32;
  a.max_positions = 6;
  if (family != Family::llama) {
    a.learned_positions = a.tied_embeddings = true;
    a.attention_bias = a.attention_output_bias = a.mlp_bias = a.norm_bias = true;
  }
  return build_model("tiny", a);
}

Workload small() {
  Workload w;
  w.micro_batch = 3;
  w.seq_len = 5;  // 15 tokens
  return w;
}

bool shape_is(const Kernel& kernel, std::int64_t m, std::int64_t n, std::int64_t k) {
  return kernel.kind == KernelKind::gemm && kernel.m == m && kernel.n == n && kernel.k == k;
}

}  // namespace

TEST_CASE(
    "a Llama block runs norm, q k v, rope, attention, o, residual, norm, gated MLP, residual") {
  const LayerWork work = work_of(tiny(), 1, small());
  CHECK(names(work.forward) ==
        std::vector<std::string>{"norm1", "q_proj", "k_proj", "v_proj", "rope", "attention",
                                 "o_proj", "residual_add", "norm2", "gate_proj", "up_proj",
                                 "activation", "down_proj", "residual_add"});
  CHECK(names(work.backward) ==
        std::vector<std::string>{
            "down_proj.dgrad",    "down_proj.wgrad", "activation.backward", "up_proj.dgrad",
            "up_proj.wgrad",      "gate_proj.dgrad", "gate_proj.wgrad",     "grad_add",
            "norm2.backward",     "grad_add",        "o_proj.dgrad",        "o_proj.wgrad",
            "attention.backward", "rope.backward",   "v_proj.dgrad",        "v_proj.wgrad",
            "k_proj.dgrad",       "k_proj.wgrad",    "q_proj.dgrad",        "q_proj.wgrad",
            "grad_add",           "grad_add",        "norm1.backward",      "grad_add"});
}

TEST_CASE("a projection is m x n x k = tokens x out x in, and two products backward") {
  const LayerWork work = work_of(tiny(), 1, small());
  CHECK(shape_is(find(work.forward, "k_proj"), 15, 4, 8));
  CHECK(shape_is(find(work.backward, "k_proj.dgrad"), 15, 8, 4));
  CHECK(shape_is(find(work.backward, "k_proj.wgrad"), 4, 8, 15));
  CHECK(shape_is(find(work.forward, "down_proj"), 15, 8, 16));
  CHECK(shape_is(find(work.backward, "down_proj.dgrad"), 15, 16, 8));
  CHECK(shape_is(find(work.backward, "down_proj.wgrad"), 8, 16, 15));
  const Kernel& attention = find(work.forward, "attention");
  CHECK(attention.kind == KernelKind::attention_forward);
  CHECK(attention.batch == 3);
  CHECK(attention.heads == 2);
  CHECK(attention.kv_heads == 1);
  CHECK(attention.m == 5);
  CHECK(attention.n == 5);
  CHECK(attention.k == 4);
  CHECK(attention.causal);
  CHECK(attention.fused);
  CHECK(find(work.backward, "attention.backward").kind == KernelKind::attention_backward);
}

TEST_CASE("memory-bound kernels move the bytes that their operands have") {
  // 15 tokens: hidden state 120 elements, MLP 240, q and k together 15 * (8 + 4) = 180.
  const LayerWork eager = work_of(tiny(), 1, small());
  CHECK(find(eager.forward, "residual_add").bytes_read == 2 * 2 * 120);
  CHECK(find(eager.forward, "residual_add").bytes_written == 2 * 120);
  // silu reads and writes one tensor, the product reads two and writes one
  CHECK(find(eager.forward, "activation").bytes_read == 2 * 3 * 240);
  CHECK(find(eager.forward, "activation").bytes_written == 2 * 2 * 240);
  CHECK(find(eager.forward, "activation").launches == 2);
  CHECK(find(eager.forward, "rope").bytes_read == 2 * 11 * 180 / 2);
  CHECK(find(eager.forward, "rope").bytes_written == 2 * 9 * 180 / 2);
  // to fp32 2+4, square 4+4, mean 4, times rsqrt 4+4, to bf16 4+2, times weight 2+2 (and 8 weights)
  CHECK(find(eager.forward, "norm1").bytes_read == (2 + 4 + 4 + 4 + 4 + 2) * 120 + 2 * 8);
  CHECK(find(eager.forward, "norm1").bytes_written == (4 + 4 + 4 + 2 + 2) * 120);

  Workload w = small();
  w.fused_elementwise = true;
  const LayerWork fused = work_of(tiny(), 1, w);
  CHECK(find(fused.forward, "activation").bytes_read == 2 * 2 * 240);
  CHECK(find(fused.forward, "activation").bytes_written == 2 * 240);
  CHECK(find(fused.forward, "rope").bytes_read == 2 * 180);
  CHECK(find(fused.forward, "norm1").bytes_read == 2 * 120 + 2 * 8);
  CHECK(find(fused.forward, "norm1").bytes_written == 2 * 120);
  // the residual and the branch in, their sum and its norm out
  CHECK(find(fused.forward, "norm2").bytes_read == 2 * 2 * 120 + 2 * 8);
  CHECK(find(fused.forward, "norm2").bytes_written == 2 * 2 * 120);
  // the gradients of q, k and v and the input, twice, and the residual's gradient
  CHECK(find(fused.backward, "norm1.backward").bytes_read == 9 * 2 * 120 + 2 * 8);
}

TEST_CASE("LayerNorm and GELU have kernels of their own also in eager software") {
  const LayerWork work = work_of(tiny(Family::gpt2), 1, small());
  CHECK(find(work.forward, "norm1").bytes_read == 2 * 120 + 2 * 2 * 8);
  CHECK(find(work.forward, "norm1").bytes_written == 2 * 120);
  CHECK(find(work.forward, "norm1").launches == 1);
  CHECK(find(work.forward, "activation").bytes_read == 2 * 240);
  CHECK(find(work.backward, "activation.backward").bytes_read == 2 * 2 * 240);
  CHECK(shape_is(find(work.forward, "qkv_proj"), 15, 24, 8));
  // a bias' gradient is a sum over the tokens of what comes back
  CHECK(find(work.backward, "qkv_proj.bias_grad").bytes_read == 2 * 15 * 24);
  CHECK(find(work.backward, "qkv_proj.bias_grad").bytes_written == 2 * 24);
}

TEST_CASE("fused elementwise work launches less and moves less in every catalog model") {
  Workload fused;
  fused.seq_len = 512;
  fused.fused_elementwise = fused.fused_loss = true;
  Workload eager;
  eager.seq_len = 512;
  for (const std::string& name : catalog_models()) {
    CAPTURE(name);
    const Model model = load_model(name);
    if (model.architecture.family == Family::mlp) continue;  // has nothing to fuse
    fused.seq_len = eager.seq_len = takes_images(model.architecture.family) ? 0 : 512;
    const int head = static_cast<int>(model.layers.size()) - 1;
    for (const int layer : {1, head}) {
      const LayerWork a = work_of(model, layer, fused);
      const LayerWork b = work_of(model, layer, eager);
      CHECK(launches(a.forward) < launches(b.forward));
      CHECK(traffic(a.forward) < traffic(b.forward));
      CHECK(a.backward.size() < b.backward.size());
    }
  }
}

TEST_CASE("the eager loss casts to fp32 and back, the fused one stays in 16 bit") {
  const Model model = tiny();
  const LayerWork eager = work_of(model, 4, small());
  CHECK(names(eager.forward) ==
        std::vector<std::string>{"lm_head", "logits_to_fp32", "log_softmax", "nll_loss"});
  CHECK(names(eager.backward) ==
        std::vector<std::string>{"nll_loss.backward", "log_softmax.backward", "logits_grad_cast",
                                 "lm_head.dgrad", "lm_head.wgrad"});
  CHECK(find(eager.forward, "logits_to_fp32").bytes_read == 2 * 15 * 32);
  CHECK(find(eager.forward, "logits_to_fp32").bytes_written == 4 * 15 * 32);
  CHECK(find(eager.backward, "log_softmax.backward").bytes_read == 2 * 4 * 15 * 32);
  CHECK(eager.backward.back().ready == std::vector<int>{0});
  Workload w = small();
  w.compute_dtype = Dtype::fp32;
  CHECK(names(work_of(model, 4, w).forward) ==
        std::vector<std::string>{"lm_head", "log_softmax", "nll_loss"});
  w = small();
  w.fused_loss = true;
  CHECK(names(work_of(model, 4, w).forward) ==
        std::vector<std::string>{"lm_head", "cross_entropy"});
}

TEST_CASE(
    "a tied head completes nothing, the embedding adds both gradients and completes the table") {
  const Model model = tiny(Family::mpt);
  const LayerWork head = work_of(model, 4, small());
  for (const BackwardKernel& step : head.backward) CHECK(step.ready.empty());
  const LayerWork embedding = work_of(model, 0, small());
  CHECK(names(embedding.forward) ==
        std::vector<std::string>{"embedding", "position_embedding", "embedding_add"});
  CHECK(names(embedding.backward) == std::vector<std::string>{"position_embedding.backward",
                                                              "embedding.backward",
                                                              "tied_grad_add"});
  CHECK(embedding.backward[0].ready == std::vector<int>{1});
  CHECK(embedding.backward[1].ready.empty());
  CHECK(embedding.backward[2].ready == std::vector<int>{0});
  CHECK(find(embedding.backward, "tied_grad_add").bytes_read == 2 * 2 * 32 * 8);
  // zeros for the whole table and a row read and written for each token
  CHECK(find(embedding.backward, "embedding.backward").bytes_written == 2 * (32 * 8 + 120));
}

TEST_CASE(
    "autocast casts each weight once a micro-batch and its gradient back before it is ready") {
  Workload w = small();
  w.autocast_weights = true;
  const LayerWork work = work_of(tiny(), 1, w);
  CHECK(find(work.forward, "k_proj.cast").bytes_read == 4 * 32);
  CHECK(find(work.forward, "k_proj.cast").bytes_written == 2 * 32);
  CHECK(find(work.backward, "k_proj.grad_cast").bytes_read == 2 * 32);
  CHECK(find(work.backward, "k_proj.grad_cast").bytes_written == 4 * 32);
  // seven weights, and the fp32 results of two norms
  CHECK(work.forward.size() == work_of(tiny(), 1, small()).forward.size() + 7 + 2);
  for (const BackwardKernel& step : work.backward) {
    if (step.kernel.kind == KernelKind::gemm) CHECK(step.ready.empty());
  }
  w.compute_dtype = Dtype::fp32;  // nothing to cast
  CHECK(work_of(tiny(), 1, w).forward.size() == work_of(tiny(), 1, small()).forward.size());
}

TEST_CASE("under autocast norms and residuals are fp32, with casts into and out of the branches") {
  Workload w = small();
  w.autocast_weights = true;
  const LayerWork eager = work_of(tiny(Family::mpt), 1, w);
  CHECK(find(eager.forward, "norm1").bytes_read == 4 * 120 + 4 * 2 * 8);
  CHECK(find(eager.forward, "norm1").bytes_written == 4 * 120);
  CHECK(find(eager.forward, "norm1.cast").bytes_read == 4 * 120);
  CHECK(find(eager.forward, "norm1.cast").bytes_written == 2 * 120);
  CHECK(find(eager.forward, "residual_add").bytes_read == (4 + 2) * 120);
  CHECK(find(eager.forward, "residual_add").bytes_written == 4 * 120);
  CHECK(find(eager.backward, "branch_grad_cast").bytes_read == 4 * 120);
  CHECK(find(eager.backward, "norm2.grad_cast").bytes_written == 4 * 120);
  CHECK(find(eager.backward, "grad_add").bytes_read == 2 * 4 * 120);
  w.fused_elementwise = true;  // the casts are part of the norms
  const LayerWork fused = work_of(tiny(Family::mpt), 1, w);
  CHECK(find(fused.forward, "norm1").bytes_written == 2 * 120);
  CHECK(find(fused.forward, "norm2").bytes_read == (4 + 2) * 120 + 4 * 2 * 8);
  CHECK(find(fused.forward, "norm2").bytes_written == (4 + 2) * 120);
  // gradient and input twice, the residual's gradient once
  CHECK(find(fused.backward, "norm2.backward").bytes_read == (2 * (2 + 4) + 4) * 120 + 4 * 2 * 8);
  CHECK(work_of(tiny(Family::mpt), 0, w).output == 4 * 120);
  CHECK(work_of(tiny(Family::mpt), 3, w).output == 2 * 120);
}

TEST_CASE(
    "full checkpointing runs the forward again, up to the last product where it stops early") {
  Workload w = small();
  w.checkpointing = Checkpointing::full;
  w.recompute_early_stop = false;
  LayerWork work = work_of(tiny(), 1, w);
  CHECK(work.recompute == work.forward);
  w.recompute_early_stop = true;
  work = work_of(tiny(), 1, w);
  REQUIRE(work.recompute.size() + 2 == work.forward.size());
  CHECK(work.recompute.back().name == Name("activation"));
  CHECK(std::equal(work.recompute.begin(), work.recompute.end(), work.forward.begin()));
  // dropout after the product makes a mask that backward needs
  Architecture a = tiny(Family::gpt2).architecture;
  a.residual_dropout = true;
  work = work_of(build_model("x", a), 1, w);
  CHECK(work.recompute.back().name == Name("dropout"));
  CHECK(work.recompute.size() + 1 == work.forward.size());
  // only blocks are checkpointed
  CHECK(work_of(tiny(), 0, w).recompute.empty());
  CHECK(work_of(tiny(), 4, w).recompute.empty());
}

TEST_CASE(
    "selective checkpointing runs the attention core again, or norms and activation if fused") {
  Workload w = small();
  w.checkpointing = Checkpointing::selective;
  CHECK(names(work_of(tiny(), 1, w).recompute) ==
        std::vector<std::string>{"norm1", "norm2", "activation"});
  w.fused_attention = false;
  CHECK(names(work_of(tiny(), 1, w).recompute) == std::vector<std::string>{"attention"});
}

TEST_CASE("selective-op runs every second product again, and all that is no product") {
  Workload w = small();
  w.fused_elementwise = true;
  w.checkpointing = Checkpointing::selective_op;
  CHECK(names(work_of(tiny(), 1, w).recompute) ==
        std::vector<std::string>{"norm1", "k_proj", "rope", "o_proj", "norm2", "up_proj",
                                 "activation"});
  w.recompute_early_stop = false;  // down is kept; what follows runs again
  CHECK(names(work_of(tiny(), 1, w).recompute).back() == "residual_add");
}

TEST_CASE("selective-op is refused where the order of products is another") {
  Workload w;
  w.seq_len = 128;
  w.checkpointing = Checkpointing::selective_op;
  for (const char* name : {"gpt2", "mixtral-8x7b", "bert-base"}) {
    CHECK_THROWS_WITH_AS(work_of(load_model(name), 1, w),
                         "checkpointing: 'selective-op' is not accepted (did you mean "
                         "'selective'?); accepted: none, "
                         "selective, full",
                         InputError);
  }
}

TEST_CASE("qwen3's norms of q and k run before the rotary embedding, over each head") {
  Architecture a = tiny().architecture;
  a.query_key_norm = true;
  const Model model = build_model("x", a);
  Workload w = small();
  w.fused_elementwise = true;
  const LayerWork work = work_of(model, 1, w);
  CHECK(names(work.forward)[4] == "q_norm");
  CHECK(names(work.forward)[5] == "k_norm");
  CHECK(find(work.forward, "q_norm").bytes_read == 2 * 15 * 8 + 2 * 4);
  CHECK(find(work.forward, "k_norm").bytes_written == 2 * 15 * 4);
  // inputs of both norms are kept besides
  CHECK(work.saved_activations - work_of(tiny(), 1, w).saved_activations == 2 * 15 * (8 + 4));
}

TEST_CASE("a workload that does not fit the model is refused by name") {
  const auto message = [](const Model& model, auto change) {
    Workload w = small();
    change(w);
    try {
      work_of(model, 1, w);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK(message(tiny(Family::mpt), [](Workload& w) { w.seq_len = 6; }) == "accepted");
  CHECK(message(tiny(Family::mpt), [](Workload& w) { w.seq_len = 7; }) ==
        "seq_len: 7 is beyond the 6 learned positions of tiny; accepted: 1 to 6");
  CHECK(message(tiny(), [](Workload& w) { w.seq_len = 7; }) == "accepted");  // rotary
  CHECK(message(tiny(), [](Workload& w) { w.seq_len = -1; }) ==
        "seq_len: -1 is out of range; accepted: 1 to 1073741824 tokens");
  CHECK(message(tiny(), [](Workload& w) { w.micro_batch = 0; }) ==
        "micro_batch: 0 is out of range; accepted: 1 to 1048576 sequences a rank");
  CHECK(message(tiny(), [](Workload& w) { w.compute_dtype = Dtype::int8; }) ==
        "compute_dtype: 'int8' is not accepted; accepted: bf16, fp16, fp32, tf32");
  CHECK(
      message(tiny(), [](Workload& w) {
        w.seq_len = 1 << 30;
        w.micro_batch = 1 << 20;
      }).find("makes tensors of 2.4e+24 elements in tiny; accepted: at most") != std::string::npos);
}

TEST_CASE("without a sequence length the model's positions are taken, or it is asked for") {
  Workload w = small();
  w.seq_len = 0;
  CHECK(find(work_of(tiny(), 1, w).forward, "k_proj").m == 3 * 6);
  Architecture a = tiny().architecture;
  a.max_positions = 0;
  CHECK_THROWS_WITH_AS(
      work_of(build_model("x", a), 1, w),
      "seq_len: is missing, and x has no default; accepted: 1 to 1073741824 tokens", InputError);
}

TEST_CASE("the loss apart: head and loss run the same kernels and hold the same bytes") {
  const Model model = tiny();
  const int head = static_cast<int>(model.layers.size()) - 1;
  const Bytes logits = 2 * 15 * 32;
  for (const bool fused : {false, true}) {
    Workload w = small();
    w.fused_loss = fused;
    const LayerWork whole = work_of(model, head, w);
    w.loss_apart = true;
    const LayerWork projection = work_of(model, head, w);
    const LossWork loss = loss_of(model, w);
    CHECK(projection.output == logits);
    CHECK(loss.logits == logits);
    CHECK(loss.keeps_logits == fused);
    std::vector<Kernel> forward = projection.forward;
    forward.insert(forward.end(), loss.forward.begin(), loss.forward.end());
    CHECK(names(forward) == names(whole.forward));
    CHECK(names(loss.backward).size() + projection.backward.size() == whole.backward.size());
    CHECK(projection.forward_workspace == 0);
    // Eager, of T V logits: 2 logits + 4 cast + 4 log-probabilities, then 4 + (4 + 4) backward.
    // Fused: the logits, 4 bytes a token, and a gradient.
    const Bytes kept = fused ? logits : 0;
    CHECK(projection.saved_activations + kept + loss.saved == whole.saved_activations);
    CHECK(loss.saved == (fused ? 4 * 15 : 2 * logits));
    CHECK(loss.forward_workspace == (fused ? 0 : 2 * logits));
    CHECK(loss.backward_workspace == (fused ? 0 : 3 * logits));
  }
  // Twice the sequences, twice the loss: GPU 0 of two.
  Workload two = small();
  two.micro_batch *= 2;
  CHECK(loss_of(model, two).logits == 2 * logits);
  CHECK(loss_of(model_of_tensors({{Name("w"), {4}}}), small()).logits == 0);
}

// Linear layers in fp8, counted by hand: h 64, 4 query heads and 2 key-value heads of 16, f 128, 16
// tokens, bf16.
#include "models/fp8.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace stepcast;

namespace {

Model small() {
  Architecture a;
  a.family = Family::llama;
  a.hidden = 64;
  a.layers = 1;
  a.heads = 4;
  a.kv_heads = 2;
  a.head_size = 16;
  a.ffn_hidden = 128;
  a.vocabulary = 32;
  a.max_positions = 16;
  return build_model("small", a);
}

LayerWork block(Fp8Recipe recipe, bool compiled, Checkpointing checkpointing = Checkpointing::none,
                bool gathered = false) {
  Workload w;
  w.seq_len = 16;
  w.fp8 = recipe;
  w.fp8_gathered = gathered;
  w.fused_elementwise = compiled;
  w.checkpointing = checkpointing;
  return work_of(small(), 1, w);
}

std::vector<Kernel> kernels(const std::vector<BackwardKernel>& list) {
  std::vector<Kernel> all;
  for (const BackwardKernel& b : list) all.push_back(b.kernel);
  return all;
}

const Kernel& find(const std::vector<Kernel>& list, const std::string& name) {
  const auto it =
      std::find_if(list.begin(), list.end(), [&](const Kernel& k) { return k.name == Name(name); });
  REQUIRE_MESSAGE(it != list.end(), name);
  return *it;
}

bool has(const std::vector<Kernel>& list, const std::string& name) {
  return std::any_of(list.begin(), list.end(),
                     [&](const Kernel& k) { return k.name == Name(name); });
}

void check(const Kernel& kernel, Bytes read, Bytes written, int launches) {
  CAPTURE(kernel.name.str());
  CHECK(kernel.bytes_read == read);
  CHECK(kernel.bytes_written == written);
  CHECK(kernel.launches == launches);
}

}  // namespace

TEST_CASE(
    "an fp8 product reads 8-bit operands and writes a 16-bit result, and the head stays as it is") {
  const LayerWork work = block(Fp8Recipe::te_delayed, false);
  const Kernel& q = find(work.forward, "q_proj");
  CHECK(q.dtype == Dtype::fp8);
  check(q, 16 * 64 + 64 * 64, 2 * 16 * 64, 1);
  const std::vector<Kernel> backward = kernels(work.backward);
  check(find(backward, "down_proj.dgrad"), 16 * 64 + 64 * 128, 2 * 16 * 128, 1);
  check(find(backward, "down_proj.wgrad"), 64 * 16 + 16 * 128, 2 * 64 * 128, 1);
  CHECK(find(work.forward, "attention").dtype == Dtype::bf16);

  Workload w;
  w.seq_len = 16;
  w.fp8 = Fp8Recipe::te_delayed;
  CHECK(find(work_of(small(), 3, w).forward, "lm_head").dtype == Dtype::bf16);
}

TEST_CASE("Transformer Engine reads each operand once and writes it in both layouts") {
  const LayerWork work = block(Fp8Recipe::te_delayed, false);
  check(find(work.forward, "q_proj.fp8_input"), 2 * 1024, 2 * 1024, 1);
  check(find(work.forward, "k_proj.fp8_input"), 2 * 1024, 2 * 1024, 1);  // each linear its own
  check(find(work.forward, "gate_proj.fp8_weight"), 2 * 8192, 2 * 8192, 1);
  const std::vector<Kernel> backward = kernels(work.backward);
  check(find(backward, "gate_proj.fp8_gradient"), 2 * 2048, 2 * 2048, 1);
  CHECK_FALSE(has(backward, "gate_proj.fp8_weight"));
  CHECK_FALSE(has(backward, "gate_proj.fp8_input"));
}

TEST_CASE("Transformer Engine keeps fp8 inputs and weights in place of 16-bit inputs") {
  const LayerWork bf16 = block(Fp8Recipe::none, false);
  const LayerWork te = block(Fp8Recipe::te_delayed, false);
  // Inputs: q, k, v, gate and up 5 x 1,024, o 1,024, down 2,048. No more: both norms' results, 2 x
  // 2,048, and the product that down reads, 4,096. Weights: 4,096 + 2 x 2,048 + 4,096 + 3 x 8,192.
  const Bytes weights = 36'864;
  CHECK(te.weight_copies == weights);
  CHECK(te.saved_activations - bf16.saved_activations == 8'192 - 4'096 - 4'096 + weights);
  const LayerWork full = block(Fp8Recipe::te_delayed, false, Checkpointing::full);
  CHECK(full.saved_activations == bf16.output);
  CHECK(full.recomputed_activations == te.saved_activations - bf16.output);
}

TEST_CASE(
    "under Transformer Engine selective checkpointing runs again what no fp8 copy stands for") {
  const LayerWork none = block(Fp8Recipe::te_delayed, false);
  const LayerWork selective = block(Fp8Recipe::te_delayed, false, Checkpointing::selective);
  // silu's result, 2 x 2,048 elements of 2 bytes; linears keep their fp8 inputs all the same.
  CHECK(none.saved_activations - selective.saved_activations == 2 * 2048);
  CHECK(selective.recomputed_activations == 2 * 2048);
  REQUIRE(selective.recompute.size() == 1);
  check(selective.recompute.front(), 2 * 2048, 2 * 2048, 1);
  // A compiler has one kernel for silu and product, and nothing of it is kept.
  const LayerWork compiled = block(Fp8Recipe::te_delayed, true, Checkpointing::selective);
  CHECK(compiled.recompute.empty());
  CHECK(compiled.saved_activations == block(Fp8Recipe::te_delayed, true).saved_activations);
  // torchao keeps 16-bit inputs: as without fp8.
  CHECK(block(Fp8Recipe::torchao_tensorwise, false, Checkpointing::selective).saved_activations ==
        block(Fp8Recipe::none, false, Checkpointing::selective).saved_activations);
}

TEST_CASE("a norm whose result a 16-bit linear reads is kept beside the fp8 copies") {
  // f = 120 is no multiple of 16: gate, up and down stay in 16 bit, and keep what they read.
  Architecture a = small().architecture;
  a.ffn_hidden = 120;
  const auto saved = [&](Fp8Recipe recipe) {
    Workload w;
    w.seq_len = 16;
    w.fp8 = recipe;
    return work_of(build_model("odd", a), 1, w);
  };
  const LayerWork te = saved(Fp8Recipe::te_delayed);
  // fp8 inputs of q, k, v and o, 4 x 1,024, in place of norm1's result, 2 x 1,024; 12,288 weights.
  CHECK(te.saved_activations - te.weight_copies - saved(Fp8Recipe::none).saved_activations ==
        4 * 1024 - 2 * 1024);
}

TEST_CASE("torchao looks for the largest value, then casts, and casts again for backward") {
  const LayerWork work = block(Fp8Recipe::torchao_tensorwise, true);
  check(find(work.forward, "q_proj.fp8_input"), 2 * 2 * 1024, 1024, 3);
  CHECK_FALSE(has(work.forward, "k_proj.fp8_input"));  // one input, one cast
  CHECK_FALSE(has(work.forward, "up_proj.fp8_input"));
  check(find(work.forward, "q_proj.fp8_weight"), 2 * 2 * 4096, 4096, 3);
  const std::vector<Kernel> backward = kernels(work.backward);
  check(find(backward, "q_proj.fp8_gradient"), 2 * 2 * 1024, 2 * 1024, 3);
  check(find(backward, "q_proj.fp8_weight"), 2 * 4096, 4096, 1);
  check(find(backward, "q_proj.fp8_input"), 2 * 1024, 1024, 1);
  CHECK_FALSE(has(backward, "v_proj.fp8_input"));
  CHECK(work.saved_activations == block(Fp8Recipe::none, true).saved_activations);
}

TEST_CASE("eager torchao passes over the tensor for every operation") {
  const LayerWork work = block(Fp8Recipe::torchao_tensorwise, false);
  // abs 2 + 2, max 2, to fp32 2 + 4, scaled 4 + 4, clamped 4 + 4, to fp8 4 + 1.
  check(find(work.forward, "k_proj.fp8_input"), 18 * 1024, 15 * 1024, 6);
  // And a transposed copy, 1 + 1.
  check(find(kernels(work.backward), "k_proj.fp8_input"), 19 * 1024, 16 * 1024, 7);
}

TEST_CASE("weights that arrive in fp8 are not cast, and transposed for backward") {
  const LayerWork work = block(Fp8Recipe::torchao_tensorwise, true, Checkpointing::none, true);
  CHECK_FALSE(has(work.forward, "q_proj.fp8_weight"));
  check(find(kernels(work.backward), "q_proj.fp8_weight"), 4096, 4096, 1);
}

TEST_CASE("recomputation ends before the last product's casts where a compiler sees them idle") {
  const auto last = [](const LayerWork& work) { return work.recompute.back().name.str(); };
  CHECK(last(block(Fp8Recipe::none, true, Checkpointing::full)) == "activation");
  CHECK(last(block(Fp8Recipe::torchao_tensorwise, true, Checkpointing::full)) == "activation");
  // An eager autograd.Function saves its tensors when its forward is through.
  CHECK(last(block(Fp8Recipe::torchao_tensorwise, false, Checkpointing::full)) == "down_proj");
  CHECK(last(block(Fp8Recipe::te_delayed, true, Checkpointing::full)) == "down_proj");
}

TEST_CASE(
    "selective checkpointing by operator keeps every second fp8 product and its weight's cast") {
  const LayerWork work = block(Fp8Recipe::torchao_tensorwise, true, Checkpointing::selective_op);
  CHECK_FALSE(has(work.recompute, "q_proj"));
  CHECK_FALSE(has(work.recompute, "q_proj.fp8_weight"));
  CHECK(has(work.recompute, "q_proj.fp8_input"));  // of k, too
  CHECK(has(work.recompute, "k_proj"));
  CHECK(has(work.recompute, "k_proj.fp8_weight"));
  CHECK_FALSE(has(work.recompute, "down_proj.fp8_input"));
}

TEST_CASE("linears whose width is no multiple of 16 stay in 16 bit") {
  Model model = small();
  Architecture a = model.architecture;
  a.ffn_hidden = 120;
  Workload w;
  w.seq_len = 16;
  w.fp8 = Fp8Recipe::te_delayed;
  const LayerWork work = work_of(build_model("odd", a), 1, w);
  CHECK(find(work.forward, "up_proj").dtype == Dtype::bf16);
  CHECK(find(work.forward, "o_proj").dtype == Dtype::fp8);
}

// The order in which gradients become ready, and the DDP buckets that follow from it.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "models/model.hpp"

using namespace stepcast;

namespace {

// Parameters (indices into the model) in the order in which backward completes their gradients.
std::vector<int> ready_order(const Model& model, const Workload& workload) {
  std::vector<int> order;
  for (std::size_t i = model.layers.size(); i-- > 0;) {
    const LayerWork work = work_of(model, static_cast<int>(i), workload);
    for (const BackwardKernel& kernel : work.backward) {
      for (const int ready : kernel.ready) order.push_back(model.layers[i].first_parameter + ready);
    }
  }
  return order;
}

// PyTorch's closing rule: add, then close at or above the limit; first 1 MiB, then 25 MiB.
std::vector<Bytes> buckets(const Model& model) {
  std::vector<Bytes> closed;
  Bytes open = 0;
  for (const int parameter : ready_order(model, Workload{})) {
    open += 4 * model.parameters[static_cast<std::size_t>(parameter)].elements();
    if (open >= (closed.empty() ? 1 : 25) * mib) {
      closed.push_back(open);
      open = 0;
    }
  }
  if (open > 0) closed.push_back(open);
  return closed;
}

std::vector<std::string> block_order(const Model& model, int layer, const Workload& workload) {
  std::vector<std::string> names;
  const auto first =
      static_cast<std::size_t>(model.layers[static_cast<std::size_t>(layer)].first_parameter);
  const auto name = [&](int i) -> const std::string& {
    return model.parameters[first + static_cast<std::size_t>(i)].name.str();
  };
  // "transformer.h.0." has three dots
  std::size_t prefix = 0;
  for (int dots = 0; dots < 3; ++prefix) dots += name(0)[prefix] == '.' ? 1 : 0;
  for (const BackwardKernel& kernel : work_of(model, layer, workload).backward) {
    for (const int ready : kernel.ready) names.push_back(name(ready).substr(prefix));
  }
  return names;
}

}  // namespace

TEST_CASE("GPT-2's ready order gives PyTorch's 13 steady buckets, the shared table last") {
  std::vector<Bytes> expected{9446400};  // ln_f (2 x 3,072), c_proj of the last block (9,440,256)
  expected.insert(expected.end(), 11, 28351488);  // a block, from c_fc to the next c_proj
  expected.push_back(
      176446464);  // the first block's rest 18,911,232, wpe 3,145,728, wte 154,389,504
  CHECK(18911232 + 3145728 + 154389504 == 176446464);
  CHECK(buckets(load_model("gpt2")) == expected);
}

TEST_CASE("an untied GPT-2's head is ready first and closes a bucket of its own") {
  Architecture sizes = load_model("gpt2").architecture;
  sizes.tied_embeddings = false;
  std::vector<Bytes> expected{154389504};
  expected.insert(expected.end(), 12, 28351488);
  expected.push_back(157541376);  // ln_1 of the first block 6,144, wpe, wte
  CHECK(6144 + 3145728 + 154389504 == 157541376);
  CHECK(buckets(build_model("gpt2-untied", sizes)) == expected);
}

TEST_CASE("in a GPT-2 block a bias is ready before its weight, a norm's weight before its bias") {
  CHECK(block_order(load_model("gpt2"), 5, Workload{}) ==
        std::vector<std::string>{"mlp.c_proj.bias", "mlp.c_proj.weight", "mlp.c_fc.bias",
                                 "mlp.c_fc.weight", "ln_2.weight", "ln_2.bias", "attn.c_proj.bias",
                                 "attn.c_proj.weight", "attn.c_attn.bias", "attn.c_attn.weight",
                                 "ln_1.weight", "ln_1.bias"});
}

TEST_CASE("in a Llama block down, up, gate are ready in that order, then o, v, k, q") {
  const std::vector<std::string> expected{
      "mlp.down_proj.weight",    "mlp.up_proj.weight",
      "mlp.gate_proj.weight",    "post_attention_layernorm.weight",
      "self_attn.o_proj.weight", "self_attn.v_proj.weight",
      "self_attn.k_proj.weight", "self_attn.q_proj.weight",
      "input_layernorm.weight"};
  const Model model = load_model("llama-3-8b");
  CHECK(block_order(model, 7, Workload{}) == expected);
  Workload compiled;
  compiled.fused_elementwise = true;
  compiled.autocast_weights = true;
  CHECK(block_order(model, 7, compiled) == expected);
}

TEST_CASE(
    "every parameter of every catalog model becomes ready exactly once, whatever the options") {
  Workload fused;
  fused.fused_elementwise = fused.fused_loss = true;
  Workload amp;
  amp.autocast_weights = true;
  amp.checkpointing = Checkpointing::full;
  Workload unfused;
  unfused.fused_attention = false;
  for (const std::string& name : catalog_models()) {
    CAPTURE(name);
    const Model model = load_model(name);
    for (const Workload& workload : {Workload{}, fused, amp, unfused}) {
      std::vector<int> times(model.parameters.size(), 0);
      for (const int parameter : ready_order(model, workload)) {
        ++times[static_cast<std::size_t>(parameter)];
      }
      CHECK(times == std::vector<int>(model.parameters.size(), 1));
    }
  }
}

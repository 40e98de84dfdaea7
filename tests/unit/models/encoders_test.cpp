// BERT and ViT against published counts and hand counts.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "models/model.hpp"

using namespace stepcast;

namespace {

std::vector<std::string> ready_names(const Model& model, int layer, const Workload& workload) {
  const Layer& l = model.layers[static_cast<std::size_t>(layer)];
  std::vector<std::string> names;
  for (const BackwardKernel& k : work_of(model, layer, workload).backward) {
    for (const int i : k.ready) {
      names.push_back(model.parameters[static_cast<std::size_t>(l.first_parameter + i)].name.str());
    }
  }
  return names;
}

}  // namespace

TEST_CASE("BertForPreTraining and ViTForImageClassification have the published counts") {
  // BertModel with pooler 109,482,240 and 335,141,888; the heads add h h + h (transform), 2 h (its
  // norm), V (decoder's bias), 2 h + 2 (next sentence).
  const auto heads = [](std::int64_t h) { return h * h + h + 2 * h + 30522 + 2 * h + 2; };
  const Model base = load_model("bert-base");
  CHECK(base.parameter_elements() == 109'482'240 + heads(768));
  CHECK(base.parameter_elements() == 110'106'428);
  CHECK(load_model("bert-large").parameter_elements() == 335'141'888 + heads(1024));
  CHECK(load_model("bert-large").parameter_elements() == 336'226'108);
  // 5 in front, 16 a layer, pooler 2, predictions 5, next sentence 2.
  CHECK(base.parameters.size() == 5 + 12 * 16 + 9);
  CHECK(load_model("vit-b-16").parameter_elements() == 86'567'656);
  CHECK(load_model("vit-l-16").parameter_elements() == 304'326'632);
  // 384 pixels: 576 patches instead of 196, each with a position.
  CHECK(load_model("vit-b-16", 0, 384).parameter_elements() == 86'567'656 + (576 - 196) * 768);
}

TEST_CASE(
    "BERT's head is ready loss side first, its pooler last, the token table at the very end") {
  const Model model = load_model("bert-base");
  for (const bool autocast : {false, true}) {
    Workload workload;
    workload.autocast_weights = autocast;
    CHECK(ready_names(model, 13, workload) ==
          std::vector<std::string>{
              "cls.seq_relationship.bias", "cls.seq_relationship.weight", "cls.predictions.bias",
              "cls.predictions.transform.LayerNorm.weight",
              "cls.predictions.transform.LayerNorm.bias", "cls.predictions.transform.dense.bias",
              "cls.predictions.transform.dense.weight", "bert.pooler.dense.bias",
              "bert.pooler.dense.weight"});
    CHECK(ready_names(model, 0, workload) ==
          std::vector<std::string>{"bert.embeddings.LayerNorm.weight",
                                   "bert.embeddings.LayerNorm.bias",
                                   "bert.embeddings.position_embeddings.weight",
                                   "bert.embeddings.token_type_embeddings.weight",
                                   "bert.embeddings.word_embeddings.weight"});
    const std::vector<std::string> block = ready_names(model, 1, workload);
    CHECK(block.size() == 16);
    CHECK(block.front() == "bert.encoder.layer.0.output.LayerNorm.weight");
    CHECK(block.back() == "bert.encoder.layer.0.attention.self.query.weight");
  }
  CHECK(model.layers[13].tied_parameter == 0);
}

TEST_CASE("ViT's positions are ready before its class token and its patches") {
  const Model model = load_model("vit-b-16");
  CHECK(ready_names(model, 0, {}) ==
        std::vector<std::string>{"vit.embeddings.position_embeddings", "vit.embeddings.cls_token",
                                 "vit.embeddings.patch_embeddings.projection.weight",
                                 "vit.embeddings.patch_embeddings.projection.bias"});
}

TEST_CASE("encoders attend in both directions") {
  for (const char* name : {"bert-base", "vit-b-16"}) {
    for (const Kernel& k : work_of(load_model(name), 1, {}).forward) {
      if (k.kind == KernelKind::attention_forward) CHECK(!k.causal);
    }
  }
}

TEST_CASE("ViT-B/16 is 17.56 G multiply-adds an image") {
  // Patches 196 x 768 x 768; 12 layers of 197 tokens: 12 h h t + 2 t t h; classifier.
  const double h = 768, t = 197;
  const double expected = 196 * 768 * h + 12 * (12 * h * h * t + 2 * t * t * h) + h * 1000;
  CHECK(expected / 1e9 == doctest::Approx(17.564).epsilon(1e-4));
  CHECK(model_flops_per_sample(load_model("vit-b-16"), {}) / 6.0 == expected);
}

TEST_CASE("a block of BERT keeps 34sbh + 5asbs, as a GPT's does") {
  const Model model = load_model("bert-large");
  Workload workload;
  workload.micro_batch = 4;
  workload.seq_len = 128;
  workload.fused_attention = false;
  // s b h = 524,288; a s b s = 16 * 128 * 4 * 128 = 1,048,576
  CHECK(work_of(model, 1, workload).saved_activations == 34 * 524'288 + 5 * 1'048'576);
  workload.checkpointing = Checkpointing::full;
  CHECK(work_of(model, 1, workload).saved_activations == 2 * 524'288);
}

TEST_CASE("BERT's kernels add up to the formula less what multiplies nothing") {
  const Model model = load_model("bert-large");
  Workload workload;
  workload.seq_len = 512;
  double flops = 0;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const LayerWork work = work_of(model, static_cast<int>(i), workload);
    for (const Kernel& k : work.forward) flops += model_flops(k);
    for (const BackwardKernel& k : work.backward) flops += model_flops(k.kernel);
  }
  CHECK(flops / 512 == doctest::Approx(model_flops_per_token(model, 512)).epsilon(0.01));
}

TEST_CASE("where only masked positions reach the head, its products have that many rows") {
  Workload workload;
  workload.micro_batch = 4;
  workload.seq_len = 128;
  const auto rows_of = [&](const char* name) {
    const Model model = load_model(name);
    const int head = static_cast<int>(model.layers.size()) - 1;
    for (const Kernel& k : work_of(model, head, workload).forward) {
      if (k.name == Name("mlm_decoder")) return k.m;
    }
    return std::int64_t{0};
  };
  CHECK(rows_of("bert-large") == 512);
  CHECK(rows_of("bert-large-masked") == 80);  // 20 of 128, four times
  CHECK(load_model("bert-large-masked").parameter_elements() == 336'226'108);
}

TEST_CASE("a vit's images have the size of its position table") {
  Workload workload;
  workload.image_size = 256;
  CHECK_THROWS_WITH_AS(work_of(load_model("vit-b-16"), 0, workload),
                       "image_size: 256 is not what vit-b-16 has positions for; accepted: 224",
                       InputError);
  CHECK_THROWS_WITH_AS(load_model("vit-b-16", 0, 230),
                       "image_size: 230 is not made of patches of 16; accepted: a multiple of 16",
                       InputError);
}

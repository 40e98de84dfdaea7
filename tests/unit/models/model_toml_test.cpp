// What is written reads back as the same model.
#include "models/model_toml.hpp"

#include <doctest/doctest.h>

#include <string>

#include "base/error.hpp"
#include "models/composition.hpp"
#include "models/model.hpp"

using namespace stepcast;

namespace {

const std::string folder = STEPCAST_TEST_DATA "/data/hf-configs/";

std::string scratch(const std::string& name) { return "model_toml_" + name + ".toml"; }

Model reread(const Model& model, const std::string& name) {
  write_file(scratch(name), model_toml(model));
  return load_model(scratch(name));
}

std::string error_of(const std::string& text, const std::string& name) {
  write_file(scratch(name), text);
  try {
    load_model(scratch(name));
  } catch (const InputError& error) {
    return std::string(error.what()).substr(scratch(name).size());
  }
  return "accepted";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

void check_same(const Model& a, const Model& b) {
  REQUIRE(a.parameters.size() == b.parameters.size());
  for (std::size_t i = 0; i < a.parameters.size(); ++i) {
    CHECK(a.parameters[i].name == b.parameters[i].name);
    CHECK(a.parameters[i].shape == b.parameters[i].shape);
  }
  REQUIRE(a.layers.size() == b.layers.size());
  CHECK(a.stored_dtype == b.stored_dtype);
  CHECK(a.approximations == b.approximations);
  Workload w;
  if (!takes_images(a.architecture.family)) w.seq_len = 64;
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    CHECK(a.layers[i].shape_class == b.layers[i].shape_class);
    const LayerWork mine = work_of(a, static_cast<int>(i), w);
    const LayerWork theirs = work_of(b, static_cast<int>(i), w);
    CHECK(mine.forward == theirs.forward);
    CHECK(mine.backward.size() == theirs.backward.size());
    CHECK(mine.saved_activations == theirs.saved_activations);
  }
}

}  // namespace

TEST_CASE("models of every kind are written and read back") {
  for (const char* file :
       {"mlc_gemma2_2b", "mlc_deepseek_v2_lite", "openai_gpt-oss-20b", "ipex-1layer_jamba",
        "nvidia_Nemotron-H-56B-Base-8K", "whisper-small", "t5-small", "mlc_phi-2",
        "ipex-1layer_bloom", "mlc_llama3_2_3b", "bert-large_nvidia-dle", "Qwen_Qwen3.5-27B"}) {
    CAPTURE(std::string(file));
    const Model model = load_model(folder + file + ".json");
    check_same(model, reread(model, file));
  }
  for (const char* name : {"gpt2", "mpt-7b", "mixtral-8x7b", "vit-b-16", "residual-mlp"}) {
    CAPTURE(std::string(name));
    const Model model = load_model(name);
    check_same(model, reread(model, name));
  }
}

TEST_CASE("layers that repeat are written once") {
  const std::string gemma = model_toml(load_model(folder + "mlc_gemma2_2b.json"));
  CHECK(gemma.find("order = [\"13 dense-window dense\"]") != std::string::npos);
  const std::string deepseek = model_toml(load_model(folder + "mlc_deepseek_v2_lite.json"));
  CHECK(deepseek.find("order = [\"1 dense\", \"26 moe\"]") != std::string::npos);
}

TEST_CASE("a TOML of parts with a mistake is refused by line and key") {
  const std::string text = model_toml(load_model(folder + "mlc_deepseek_v2_lite.json"));
  const auto error = [&](const std::string& from, const std::string& to) {
    const std::string all = error_of(replaced(text, from, to), "wrong");
    return all.substr(all.find(": ") + 2);  // behind the line
  };
  CHECK(
      error("self_attn.q_proj=q", "self_attn.q_proj=queries")
          .find("block[0].modules: 'self_attn.q_proj=queries' 'queries' is no part; accepted: ") ==
      0);
  CHECK(error("26 moe", "26 mole") ==
        "layer[1].order: '26 mole' names 'mole', which is no block; accepted: \"3 dense\", or \"13 "
        "sliding full\" for what repeats");
  CHECK(error("26 moe", "moe").find("layer[1].order: 'moe' does not begin with a number") == 0);
  CHECK(error("26 moe", "99999999999 moe")
            .find("layer[1].order: '99999999999 moe' makes more than "
                  "8192 layers") == 0);
  CHECK(error("\"blocks\"", "\"block\"").find("layer[1].kind: 'block' is not accepted") == 0);
  CHECK(error("kv_rank = 512", "kv_rnk = 512").find("block[0].kv_rnk") == 0);
  CHECK(error("name = \"moe\"", "name = \"dense\"") == "block[1].name: 'dense' is a block already");
}

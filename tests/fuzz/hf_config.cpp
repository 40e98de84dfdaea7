// A model's config.json: what is read also has work, and is written as TOML.

#include "models/hf_config.hpp"

#include "models/model_toml.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stepcast;
  return fuzz::run(data, size, [](const std::string& text) {
    const Model model = model_from_hf_text(text, "fuzz", "fuzz");
    model_toml(model);
    Workload workload;
    if (!takes_images(model.architecture.family)) workload.seq_len = 16;
    int worked_out = -1;
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      if (model.layers[i].shape_class <= worked_out) continue;
      worked_out = model.layers[i].shape_class;
      work_of(model, static_cast<int>(i), workload);
    }
  });
}

// A model's config.json.

#include "models/hf_config.hpp"

#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stepcast;
  return fuzz::run(data, size,
                   [](const std::string& text) { model_from_hf_text(text, "fuzz", "fuzz"); });
}

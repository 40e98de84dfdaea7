// A model's TOML: what is read is written and read again.

#include "models/model_toml.hpp"

#include "models/hf_config.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stepcast;
  return fuzz::run(data, size, [](const std::string& text) { model_from_toml_text(text, "fuzz"); });
}

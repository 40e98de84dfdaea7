// Rows of a tuner plugin's CSV, and NCCL's variables.

#include "sim/collectives/nccl/environment.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stepcast;
  fuzz::run(data, size, [](const std::string& text) { nccl::parse_tuner_csv(text, "fuzz"); });
  return fuzz::run(data, size, [](const std::string& text) {
    if (text.find("FILE") != std::string::npos) return;  // reads files by name
    nccl::Environment environment;
    environment.set_all(text, {"fuzz", 0, "nccl"});
  });
}

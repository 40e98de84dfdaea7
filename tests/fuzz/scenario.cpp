// Scenario TOML.

#include "sim/forecast/scenario.hpp"

#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stepcast;
  return fuzz::run(data, size,
                   [](const std::string& text) { check_ranges(parse_scenario(text, "fuzz")); });
}

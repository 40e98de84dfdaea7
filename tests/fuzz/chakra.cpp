// Chakra execution traces.

#include "sim/interop/chakra.hpp"

#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stepcast;
  return fuzz::run(data, size, [](const std::string& text) {
    is_chakra(text);
    read_chakra(text, "fuzz");
  });
}

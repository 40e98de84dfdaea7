// Calibration files; what is read writes and reads again.

#include "sim/calibration/calibration.hpp"

#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stepcast;
  return fuzz::run(data, size, [](const std::string& text) {
    const std::string written = to_toml(parse_calibration(text, "fuzz"));
    if (to_toml(parse_calibration(written, "fuzz")) != written) std::abort();
  });
}

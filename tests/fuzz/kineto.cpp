// Traces of PyTorch's profiler; each event is asked what it did.

#include "sim/interop/kineto.hpp"

#include <sstream>

#include "sim/interop/trace_ops.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stepcast;
  return fuzz::run(data, size, [](const std::string& text) {
    std::istringstream in(text);
    read_kineto(in, "fuzz", [](const KinetoEvent& event) {
      kernel_of_op(event);
      collective_of(event);
    });
  });
}

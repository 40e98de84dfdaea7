// Machine TOML, and GPU TOML.

#include "tests/fuzz/target.hpp"
#include "topologies/machine_writer.hpp"
#include "topologies/topology.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stepcast;
  fuzz::run(data, size, [](const std::string& text) { parse_gpu(text, "fuzz"); });
  return fuzz::run(data, size, [](const std::string& text) {
    const Machine machine = parse_machine(text, "fuzz");
    parse_machine(to_toml(machine, {}), "written.toml");
  });
}

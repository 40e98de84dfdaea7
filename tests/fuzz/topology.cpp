// NCCL's topology XML and `nvidia-smi topo -m`: what is read is written back and reads the same.

#include "tests/fuzz/target.hpp"
#include "topologies/importers/import.hpp"
#include "topologies/machine_writer.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stepcast;
  const auto with = [&](const ImportOptions& options) {
    return fuzz::run(data, size, [&](const std::string& text) {
      const Imported in = import_topology_text(text, "fuzz", options);
      if (in.machine.gpu.name.empty()) return;  // a GPU that nobody named cannot be written
      const Machine again = parse_machine(to_toml(in.machine, in.notes), "written.toml");
      if (again.gpus.size() != in.machine.gpus.size()) std::abort();
      if (again.nics.size() != in.machine.nics.size()) std::abort();
    });
  };
  with({.gpu = "a100-sxm-80gb", .nic_gbit = {200}});
  return with({.gpu_required = false});
}

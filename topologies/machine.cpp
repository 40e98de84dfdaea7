// Reads a machine from TOML (docs/topologies.md explains every key) and checks what it says: each
// GPU and NIC sits at exactly one place, NVLinks do not exceed those of the part, parents exist.
// Reading one machine parses its own file, its GPU's and the list of networks: some 0.1 ms.

#include <algorithm>

#include "base/error.hpp"
#include "topologies/catalog.hpp"
#include "topologies/machine_reader.hpp"

namespace stepcast {
namespace {

Machine read_machine(TomlTable root) {
  using namespace machine_reader;  // NOLINT(google-build-using-namespace): its own parts
  const std::string full_name = root.string("full_name");
  const std::string source = root.string("source");
  if (source.empty()) {
    throw InputError(root.where("source"), "is empty; accepted: where the figures come from");
  }
  const std::string gpu_name = root.string("gpu");
  const catalog::File gpu_file = catalog::find("gpu", gpu_name, root.where("gpu"));
  Gpu gpu = parse_gpu(gpu_file.text, gpu_file.name);
  gpu.name = gpu_file.key;
  gpu.pcie_p2p = root.boolean_or("pcie_p2p", gpu.pcie_p2p);
  gpu.gpudirect_rdma = root.boolean_or("gpudirect_rdma", gpu.gpudirect_rdma);
  const auto gpus = static_cast<int>(root.integer("gpus", {1, max_devices}));

  const std::string network = root.string("network");
  std::vector<std::string> networks = network_classes();
  networks.emplace_back("none");
  if (std::find(networks.begin(), networks.end(), network) == networks.end()) {
    throw not_accepted(root.where("network"), network, networks);
  }

  if (std::optional<TomlTable> graph = root.table("graph")) {
    const double known = root.number_or("host_memory_gb", 0, {0.001, 1e6});  // 0: not known
    Machine machine = read_graph(*graph, gpu, gpus, gpu.pcie_p2p);
    root.finish();
    if (machine.nics.empty() != (network == "none")) {
      throw InputError(root.where("network"),
                       machine.nics.empty()
                           ? "names a class, but [graph] has no NIC; accepted: none"
                           : "is none, but [graph] has NICs");
    }
    machine.full_name = full_name;
    machine.source = source;
    machine.network = network;
    machine.host_memory_bytes = known * 1e9;
    return machine;
  }
  const double host_memory_gb = root.number("host_memory_gb", {0.001, 1e6});

  MachineBuilder builder(gpu);
  read_latencies(root, builder);
  const Cpus cpus = read_cpus(root, gpu.pcie_p2p, builder);
  const NicPart nic = read_nic(root, network);
  read_pcie(root, gpu, gpus, nic, cpus, builder);
  read_nvlinks(root, gpu, gpus, builder);
  root.finish();

  Machine machine = builder.finish(cpus.socket_gbps);
  machine.full_name = full_name;
  machine.source = source;
  machine.network = network;
  machine.host_memory_bytes = host_memory_gb * 1e9;
  return machine;
}

}  // namespace

Machine parse_machine(std::string_view text, const std::string& file) {
  Machine machine = read_machine(TomlTable::from_text(text, file));
  machine.name = file;
  return machine;
}

Machine load_machine(const std::string& name_or_path) {
  const catalog::File file = catalog::find("machine", name_or_path);
  Machine machine = parse_machine(file.text, file.name);
  machine.name = file.key;
  return machine;
}

std::vector<std::string> catalog_machines() { return catalog::keys("machine"); }

}  // namespace stepcast

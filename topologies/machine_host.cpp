// The host side of a machine's TOML: delays, CPUs, NICs.

#include <algorithm>

#include "topologies/machine_reader.hpp"

namespace stepcast::machine_reader {

void read_latencies(TomlTable& root, MachineBuilder& builder) {
  std::optional<TomlTable> table = root.table("latency_us");
  if (!table) return;
  for (const LinkKind kind : {LinkKind::nvlink, LinkKind::c2c, LinkKind::pcie, LinkKind::socket}) {
    const std::optional<double> value = table->optional_number(to_string(kind), {0, 1e6});
    if (value) builder.set_latency_us(kind, *value);
  }
  table->finish();
}

Cpus read_cpus(TomlTable& root, bool pcie_p2p, MachineBuilder& builder) {
  std::optional<TomlTable> table = root.table("cpu");
  if (!table) throw InputError(root.where("cpu"), "is missing; accepted: a table [cpu]");
  Device cpu;
  cpu.product = table->string_or("name", "");
  cpu.cpu_arch = table->string("arch");
  const std::vector<std::string> arches = {"x86_64", "aarch64", "ppc64le"};
  if (std::find(arches.begin(), arches.end(), cpu.cpu_arch) == arches.end()) {
    throw not_accepted(table->where("arch"), cpu.cpu_arch, arches);
  }
  cpu.cpu_vendor = table->string("vendor");
  cpu.cpu_family = static_cast<int>(table->integer("family", {0, 100000}));
  cpu.cpu_model = static_cast<int>(table->integer("model", {0, 100000}));
  cpu.pcie_p2p = pcie_p2p;
  const auto numa_nodes = static_cast<int>(table->integer("numa_nodes", {1, 64}));
  Cpus cpus;
  if (numa_nodes > 1) {
    cpus.socket_gbps = table->number("socket_gbps", {0.001, 1e6});
  } else {
    table->optional_number("socket_gbps", {0.001, 1e6});
  }
  table->finish();
  for (int i = 0; i < numa_nodes; ++i) cpus.vertices.push_back(builder.add_cpu(cpu));
  return cpus;
}

NicPart read_nic(TomlTable& root, const std::string& network) {
  NicPart nic;
  std::optional<TomlTable> table = root.table("nic");
  if (!table) {
    if (network == "none") return nic;
    throw InputError(root.where("nic"),
                     "is missing; accepted: a table [nic], or network = \"none\"");
  }
  if (network == "none") {
    throw InputError(table->where(),
                     "contradicts network = \"none\"; accepted: no [nic], or one of "
                     "the network classes");
  }
  nic.device.product = table->string_or("name", "");
  nic.count = static_cast<int>(table->integer("count", {1, max_devices}));
  nic.device.nic_gbps = table->number("gbit_per_s", {0.001, 1e5}) / 8;
  nic.device.nic_latency_us = table->number_or("latency_us", 0, {0, 1e6});
  nic.device.gpudirect_rdma = table->boolean_or("gpudirect_rdma", true);
  nic.ports_per_card = static_cast<int>(table->integer_or("ports_per_card", 1, {1, 16}));
  nic.pcie_generation = static_cast<int>(table->integer("pcie_generation", {1, 6}));
  nic.pcie_width = static_cast<int>(table->integer_or("pcie_width", 16, {1, 32}));
  table->finish();
  return nic;
}

}  // namespace stepcast::machine_reader

// Reads a machine from TOML (docs/topologies.md explains every key) and checks what it says: each
// GPU and NIC sits at exactly one place, NVLinks do not exceed those of the part, parents exist.
// Reading one machine parses two files, its own and its GPU's.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "topologies/catalog.hpp"
#include "topologies/machine_builder.hpp"
#include "topologies/topology.hpp"

namespace stepcast {
namespace {

constexpr int max_devices = 1024;  // GPUs or NICs of a node; more is a typing error

struct NicPart {
  Device device;
  int count = 0;
  int ports_per_card = 1;
  int pcie_generation = 0;
  int pcie_width = 16;
};

// An array of device numbers below `count`: [0, 1, 2].
std::vector<int> device_numbers(TomlTable& table, const std::string& key, int count) {
  std::vector<int> result;
  for (const double value : table.numbers(key)) {
    if (std::floor(value) != value || value < 0 || value >= count) {
      const std::string accepted = count > 0
                                       ? fmt::format("whole numbers 0 to {}", count - 1)
                                       : fmt::format("none, since this machine has no {}", key);
      throw InputError(table.where(key), fmt::format("{} is not among the {} of this machine; "
                                                     "accepted: {}",
                                                     value, key, accepted));
    }
    result.push_back(static_cast<int>(value));
  }
  return result;
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

// Reads [cpu] and adds its NUMA nodes; returns their vertices and the speed of a socket link.
struct Cpus {
  std::vector<Vertex> vertices;
  double socket_gbps = 0;
};

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

void read_latencies(TomlTable& root, MachineBuilder& builder) {
  std::optional<TomlTable> table = root.table("latency_us");
  if (!table) return;
  for (const LinkKind kind : {LinkKind::nvlink, LinkKind::c2c, LinkKind::pcie, LinkKind::socket}) {
    const std::optional<double> value = table->optional_number(to_string(kind), {0, 1e6});
    if (value) builder.set_latency_us(kind, *value);
  }
  table->finish();
}

// The PCIe tree: [pcie] generation, switches, direct.
class PcieReader {
 public:
  PcieReader(MachineBuilder& builder, const Gpu& gpu, const NicPart& nic, const Cpus& cpus,
             int gpu_count)
      : builder_(builder), gpu_(gpu), nic_(nic), cpus_(cpus), gpu_count_(gpu_count) {}

  void read(TomlTable& root) {
    std::optional<TomlTable> table = root.table("pcie");
    if (!table) throw InputError(root.where("pcie"), "is missing; accepted: a table [pcie]");
    generation_ = static_cast<int>(table->integer("generation", {1, 6}));
    for (TomlTable& entry : table->tables("switches")) {
      const Vertex parent = read_parent(entry, true);
      const auto generation = static_cast<int>(entry.integer_or("generation", generation_, {1, 6}));
      const auto width = static_cast<int>(entry.integer_or("width", 16, {1, 32}));
      const Vertex vertex = builder_.add_pcie_switch(parent, generation, width);
      attach(entry, vertex);
      switches_.push_back(vertex);
      entry.finish();
    }
    for (TomlTable& entry : table->tables("direct")) {
      attach(entry, read_parent(entry, false));
      entry.finish();
    }
    table->finish();
    check_complete(*table);
  }

 private:
  // cpu = N, or for switches under = N, an earlier switch.
  Vertex read_parent(TomlTable& entry, bool may_nest) {
    const auto last_cpu = static_cast<double>(cpus_.vertices.size()) - 1;
    const bool nested = may_nest && entry.has("under");
    if (nested && entry.has("cpu")) {
      throw InputError(entry.where("under"), "contradicts cpu; accepted: one of the two");
    }
    if (!nested) {
      return cpus_.vertices[static_cast<std::size_t>(entry.integer("cpu", {0, last_cpu}))];
    }
    if (switches_.empty()) {
      throw InputError(entry.where("under"), "has no earlier switch to name; accepted: cpu");
    }
    const auto last = static_cast<double>(switches_.size()) - 1;
    return switches_[static_cast<std::size_t>(entry.integer("under", {0, last}))];
  }

  void attach(TomlTable& entry, Vertex parent) {
    // A link runs at the slower of its two ends.
    for (const int index : device_numbers(entry, "gpus", gpu_count_)) {
      if (builder_.has_gpu(index)) {
        throw InputError(entry.where("gpus"), fmt::format("GPU {} is placed twice; accepted: every "
                                                          "GPU once",
                                                          index));
      }
      builder_.add_gpu(index, parent, std::min(generation_, gpu_.pcie_generation), gpu_.pcie_width);
    }
    for (const int index : device_numbers(entry, "nics", nic_.count)) {
      if (builder_.has_nic(index)) {
        throw InputError(entry.where("nics"), fmt::format("NIC {} is placed twice; accepted: every "
                                                          "NIC once",
                                                          index));
      }
      Device device = nic_.device;
      device.nic_port = 1 + index % nic_.ports_per_card;
      device.nic_guid = 0x1000 + static_cast<std::uint64_t>(index / nic_.ports_per_card);
      builder_.add_nic(index, parent, std::move(device),
                       std::min(generation_, nic_.pcie_generation), nic_.pcie_width);
    }
  }

  void check_complete(const TomlTable& table) const {
    for (int i = 0; i < gpu_count_; ++i) {
      if (builder_.has_gpu(i)) continue;
      throw InputError(table.where(), fmt::format("GPU {} is nowhere in switches or direct; "
                                                  "accepted: every GPU once",
                                                  i));
    }
    for (int i = 0; i < nic_.count; ++i) {
      if (builder_.has_nic(i)) continue;
      throw InputError(table.where(), fmt::format("NIC {} is nowhere in switches or direct; "
                                                  "accepted: every NIC once",
                                                  i));
    }
  }

  MachineBuilder& builder_;
  const Gpu& gpu_;
  const NicPart& nic_;
  const Cpus& cpus_;
  int gpu_count_;
  int generation_ = 0;
  std::vector<Vertex> switches_;
};

// Adds `links` NVLinks after checking that the part has them.
void add_pair(TomlTable& table, MachineBuilder& builder, const Gpu& gpu, int a, int b, int links,
              std::string_view key) {
  for (const int end : {a, b}) {
    if (builder.nvlinks_of(end) + links > gpu.nvlinks) {
      throw InputError(table.where(key),
                       fmt::format("GPU {} would have {} NVLinks; accepted: at most the {} of {}",
                                   end, builder.nvlinks_of(end) + links, gpu.nvlinks, gpu.name));
    }
  }
  builder.link_nvlinks(a, b, links);
}

void read_pairs(TomlTable& table, MachineBuilder& builder, const Gpu& gpu, int gpus) {
  const auto bad = [&table, gpus](std::string_view why) {
    return InputError(
        table.where("pairs"),
        fmt::format("{}; accepted: [GPU, GPU, links] with two GPUs of 0 to {}", why, gpus - 1));
  };
  std::set<std::pair<int, int>> seen;
  const auto rows = table.string_rows("pairs");
  if (rows.empty()) throw bad("is missing or empty");
  for (const std::vector<std::string>& row : rows) {
    const std::string text = fmt::format("[{}]", fmt::join(row, ", "));
    std::vector<int> numbers;
    for (const std::string& cell : row) {
      if (cell.empty() || cell.size() > 6 ||
          cell.find_first_not_of("0123456789") != std::string::npos) {
        throw bad(text + " holds something else than whole numbers");
      }
      numbers.push_back(std::stoi(cell));
    }
    if (numbers.size() != 3) throw bad(text + " has not three numbers");
    const int a = std::min(numbers[0], numbers[1]);
    const int b = std::max(numbers[0], numbers[1]);
    if (a == b || b >= gpus || numbers[2] < 1) throw bad(text + " is no pair of this machine");
    if (!seen.emplace(a, b).second) throw bad(text + " names a pair twice");
    add_pair(table, builder, gpu, a, b, numbers[2], "pairs");
  }
}

void read_nvlinks(TomlTable& root, MachineBuilder& builder, const Gpu& gpu, int gpus) {
  std::optional<TomlTable> table = root.table("nvlink");
  if (!table) return;
  if (gpu.nvlinks == 0) {
    throw InputError(table->where(),
                     fmt::format("{} has no NVLink; accepted: no [nvlink]", gpu.name));
  }
  const std::string kind = table->string("kind");
  const std::vector<std::string> kinds = {"nvswitch", "all_to_all", "pairs"};
  if (kind == "nvswitch") {
    builder.add_nvswitch();
  } else if (kind == "all_to_all") {
    const auto links = static_cast<int>(table->integer("links_per_pair", {1, 1000}));
    for (int a = 0; a < gpus; ++a) {
      for (int b = a + 1; b < gpus; ++b) {
        add_pair(*table, builder, gpu, a, b, links, "links_per_pair");
      }
    }
  } else if (kind == "pairs") {
    read_pairs(*table, builder, gpu, gpus);
  } else {
    throw not_accepted(table->where("kind"), kind, kinds);
  }
  table->finish();
}

Machine read_machine(TomlTable root) {
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
  const double host_memory_gb = root.number("host_memory_gb", {0.001, 1e6});

  MachineBuilder builder(gpu);
  read_latencies(root, builder);
  const Cpus cpus = read_cpus(root, gpu.pcie_p2p, builder);
  const NicPart nic = read_nic(root, network);
  PcieReader(builder, gpu, nic, cpus, gpus).read(root);
  read_nvlinks(root, builder, gpu, gpus);
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

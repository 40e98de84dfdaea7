// The graph of a machine, written out device by device and link by link: [graph] in a machine's
// TOML. It says what [cpu], [nic], [nvlink] and [pcie] cannot, because there all devices of a kind
// are alike: NICs of different speeds, GPUs on narrow PCIe links, CPUs of an odd numbering.
// machine_writer.cpp writes it; the importers live on that.
//
//   [graph]
//   devices = [
//     { name = "cpu0", arch = "x86_64", vendor = "AuthenticAMD", family = 25, model = 1 },
//     { name = "gpu0" },
//     { name = "nic0", gbit_per_s = 200 },
//   ]
//   links = [
//     { a = "gpu0", b = "cpu0", kind = "pcie", generation = 4, width = 8 },   # a hangs below b
//     { a = "nic0", b = "cpu0", kind = "pcie", generation = 4, width = 16 },
//   ]
//
// A name is the kind (cpu, pcie, gpu, nic, nvswitch) and a number. Checked here, so that nobody
// behind has to: the PCIe links are trees with CPUs as roots, every GPU and NIC hangs in one, GPUs
// and NICs are numbered 0, 1, 2, ..., NVLinks join GPUs and NVSwitches. Tested by
// tests/unit/topologies/machine_graph_test.cpp.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>

#include "topologies/link_rates.hpp"
#include "topologies/machine_reader.hpp"

namespace stepcast::machine_reader {
namespace {

constexpr std::size_t max_graph_devices = 4096;
constexpr std::size_t max_graph_links = 65536;
constexpr std::size_t max_tree_depth = 64;
constexpr DeviceKind device_kinds[] = {DeviceKind::cpu, DeviceKind::pcie_switch, DeviceKind::gpu,
                                       DeviceKind::nic, DeviceKind::nvswitch};

std::string prefix_of(DeviceKind kind) {
  return kind == DeviceKind::pcie_switch ? "pcie" : std::string(to_string(kind));
}

class GraphReader {
 public:
  GraphReader(TomlTable& table, const Gpu& gpu, int gpus, bool pcie_p2p)
      : table_(table), gpu_count_(gpus), pcie_p2p_(pcie_p2p) {
    machine_.gpu = gpu;
  }

  Machine read() {
    std::vector<TomlTable> devices = table_.tables("devices");
    if (devices.empty() || devices.size() > max_graph_devices) {
      throw InputError(table_.where("devices"), fmt::format("holds {} devices; accepted: 1 to {}",
                                                            devices.size(), max_graph_devices));
    }
    for (TomlTable& entry : devices) add_device(entry);
    std::vector<TomlTable> links = table_.tables("links");
    if (links.size() > max_graph_links) {
      throw InputError(table_.where("links"), fmt::format("holds {} links; accepted: at most {}",
                                                          links.size(), max_graph_links));
    }
    for (TomlTable& entry : links) add_link(entry);
    table_.finish();
    machine_.gpus = numbered(DeviceKind::gpu);
    machine_.nics = numbered(DeviceKind::nic);
    if (static_cast<int>(machine_.gpus.size()) != gpu_count_) {
      throw InputError(table_.where("devices"),
                       fmt::format("holds {} GPUs; accepted: {}, as gpus says",
                                   machine_.gpus.size(), gpu_count_));
    }
    check_trees();
    return std::move(machine_);
  }

 private:
  void add_device(TomlTable& entry) {
    Device device;
    device.name = entry.string("name");
    if (!parse_name(device)) {
      throw InputError(entry.where("name"),
                       fmt::format("'{}' is not a device; accepted: cpu, pcie, gpu, nic or "
                                   "nvswitch and a number, as gpu0",
                                   device.name));
    }
    if (vertices_.count(device.name) > 0) {
      throw InputError(entry.where("name"), fmt::format("'{}' is there twice", device.name));
    }
    switch (device.kind) {
      case DeviceKind::cpu:
        device.product = entry.string_or("product", "");
        device.cpu_arch = entry.string("arch");
        device.cpu_vendor = entry.string_or("vendor", "");
        device.cpu_family = static_cast<int>(entry.integer_or("family", 0, {0, 1 << 20}));
        device.cpu_model = static_cast<int>(entry.integer_or("model", 0, {0, 1 << 20}));
        device.numa_node =
            static_cast<int>(entry.integer_or("numa_node", device.index, {-1, 1 << 20}));
        device.pcie_p2p = pcie_p2p_;
        break;
      case DeviceKind::gpu:
        device.gpudirect_rdma = entry.boolean_or("gpudirect_rdma", machine_.gpu.gpudirect_rdma);
        break;
      case DeviceKind::nic:
        device.product = entry.string_or("product", "");
        device.nic_gbps = entry.number("gbit_per_s", {0.001, 1e6}) / 8;
        device.nic_port = static_cast<int>(entry.integer_or("port", 1, {0, 1 << 20}));
        device.nic_guid = guid(entry, device.index);
        device.nic_latency_us = entry.number_or("latency_us", 0, {0, 1e6});
        device.gpudirect_rdma = entry.boolean_or("gpudirect_rdma", true);
        break;
      case DeviceKind::pcie_switch:
      case DeviceKind::nvswitch: break;
    }
    entry.finish();
    const std::string name = device.name;
    vertices_[name] = boost::add_vertex(std::move(device), machine_.graph);
  }

  static bool parse_name(Device& device) {
    for (const DeviceKind kind : device_kinds) {
      const std::string prefix = prefix_of(kind);
      if (device.name.substr(0, prefix.size()) != prefix) continue;
      const std::string digits = device.name.substr(prefix.size());
      if (digits.empty() || digits.size() > 5) return false;
      if (digits.find_first_not_of("0123456789") != std::string::npos) return false;
      device.kind = kind;
      device.index = std::atoi(digits.c_str());
      return true;
    }
    return false;
  }

  // 64 bits, which TOML's integers do not hold: a text "0x...".
  static std::uint64_t guid(TomlTable& entry, int index) {
    const std::optional<std::string> text = entry.optional_string("guid");
    if (!text) return 0x1000 + static_cast<std::uint64_t>(index);
    char* end = nullptr;
    const std::uint64_t value = std::strtoull(text->c_str(), &end, 16);
    if (text->substr(0, 2) != "0x" || text->size() > 18 || text->size() < 3 || *end != '\0') {
      throw InputError(entry.where("guid"),
                       fmt::format("'{}' is no guid; accepted: \"0x\" and up to 16 hexadecimal "
                                   "digits",
                                   *text));
    }
    return value;
  }

  Vertex end_of(TomlTable& entry, const char* key) {
    const std::string name = entry.string(key);
    const auto found = vertices_.find(name);
    if (found != vertices_.end()) return found->second;
    throw InputError(entry.where(key), fmt::format("'{}' is not among the devices", name));
  }

  void add_link(TomlTable& entry) {
    const Vertex a = end_of(entry, "a");
    const Vertex b = end_of(entry, "b");
    const std::string kind = entry.string("kind");
    Link link;
    if (kind == "pcie") {
      link.kind = LinkKind::pcie;
      if (entry.has("gbps")) {  // a virtual NIC: nothing that has a generation
        link.gbps = entry.number("gbps", {0.001, 1e6});
      } else {
        link.pcie_generation = static_cast<int>(entry.integer("generation", {1, 6}));
        link.pcie_width = static_cast<int>(entry.integer_or("width", 16, {1, 64}));
        link.gbps = pcie_gbps(link.pcie_generation, link.pcie_width);
      }
      set_parent(entry, a, b);
    } else if (kind == "nvlink") {
      link.kind = LinkKind::nvlink;
      link.count = static_cast<int>(entry.integer("count", {1, 1024}));
      link.gbps = machine_.gpu.nvlink_gbps * link.count;
      check_ends(entry, a, b, {DeviceKind::gpu, DeviceKind::nvswitch});
    } else if (kind == "c2c") {
      link.kind = LinkKind::c2c;
      link.count = static_cast<int>(entry.integer("count", {1, 1024}));
      link.gbps = entry.number("gbps", {0.001, 1e6});
      check_ends(entry, a, b, {DeviceKind::gpu, DeviceKind::cpu});
    } else if (kind == "socket") {
      link.kind = LinkKind::socket;
      link.gbps = entry.number_or("gbps", 0, {0, 1e6});  // 0: not known
      check_ends(entry, a, b, {DeviceKind::cpu});
    } else {
      throw not_accepted(entry.where("kind"), kind, {"pcie", "nvlink", "c2c", "socket"});
    }
    link.latency_us = entry.number_or("latency_us", default_latency_us(link.kind), {0, 1e6});
    entry.finish();
    boost::add_edge(a, b, link, machine_.graph);
  }

  void check_ends(const TomlTable& entry, Vertex a, Vertex b,
                  const std::vector<DeviceKind>& accepted) const {
    for (const Vertex end : {a, b}) {
      const Device& device = machine_.graph[end];
      if (std::find(accepted.begin(), accepted.end(), device.kind) != accepted.end()) continue;
      std::vector<std::string> names;
      for (const DeviceKind kind : accepted) names.push_back(prefix_of(kind));
      throw InputError(entry.where("kind"), fmt::format("{} cannot have such a link; accepted: {}",
                                                        device.name, fmt::join(names, ", ")));
    }
  }

  void set_parent(const TomlTable& entry, Vertex child, Vertex parent) {
    const Device& below = machine_.graph[child];
    const Device& above = machine_.graph[parent];
    if (below.kind == DeviceKind::cpu || below.kind == DeviceKind::nvswitch) {
      throw InputError(entry.where("a"), below.name +
                                             " cannot hang below something; accepted: "
                                             "a GPU, a NIC or a PCIe switch");
    }
    if (above.kind != DeviceKind::cpu && above.kind != DeviceKind::pcie_switch) {
      throw InputError(entry.where("b"),
                       "nothing hangs below " + above.name + "; accepted: a CPU or a PCIe switch");
    }
    if (!parents_.emplace(child, parent).second) {
      throw InputError(entry.where("a"), below.name +
                                             " hangs below two; accepted: one PCIe link "
                                             "up");
    }
  }

  std::vector<Vertex> numbered(DeviceKind kind) const {
    std::vector<Vertex> out;
    for (int i = 0;; ++i) {
      const auto found = vertices_.find(prefix_of(kind) + std::to_string(i));
      if (found == vertices_.end()) break;
      out.push_back(found->second);
    }
    std::size_t all = 0;
    for (const Vertex v : boost::make_iterator_range(boost::vertices(machine_.graph))) {
      all += machine_.graph[v].kind == kind ? 1 : 0;
    }
    if (all != out.size()) {
      throw InputError(
          table_.where("devices"),
          fmt::format("numbers its {0}s with a gap; accepted: {0}0, {0}1, ...", prefix_of(kind)));
    }
    return out;
  }

  void check_trees() const {
    for (const Vertex v : boost::make_iterator_range(boost::vertices(machine_.graph))) {
      const DeviceKind kind = machine_.graph[v].kind;
      if (kind == DeviceKind::cpu || kind == DeviceKind::nvswitch) continue;
      Vertex at = v;
      std::size_t steps = 0;
      for (; machine_.graph[at].kind != DeviceKind::cpu; ++steps) {
        const auto up = parents_.find(at);
        if (up == parents_.end() || steps > max_tree_depth) {
          throw InputError(table_.where("links"),
                           fmt::format("{} hangs on no CPU; accepted: at most {} PCIe links that "
                                       "lead up to one",
                                       machine_.graph[v].name, max_tree_depth));
        }
        at = up->second;
      }
    }
  }

  TomlTable& table_;
  int gpu_count_;
  bool pcie_p2p_;
  Machine machine_;
  std::map<std::string, Vertex> vertices_;
  std::map<Vertex, Vertex> parents_;  // by PCIe
};

}  // namespace

Machine read_graph(TomlTable& graph, const Gpu& gpu, int gpus, bool pcie_p2p) {
  return GraphReader(graph, gpu, gpus, pcie_p2p).read();
}

}  // namespace stepcast::machine_reader

// The file is a tree: system > cpu > pci > pci > gpu or nic > net. Example (attributes shortened):
//
//   <system version="1">
//     <cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="143" modelid="49">
//       <pci busid="0000:07:00.0" link_speed="16.0 GT/s PCIe" link_width="16">
//         <gpu dev="0" sm="80"><nvlink target="0000:c4:00.0" count="2" tclass="0x068000"/></gpu>
//
// link_speed may be empty in virtual machines (NCCL then takes Gen3), link_width 0 means 16.
// NVSwitches are targets of NVLinks and otherwise not in the file.
// Source: NCCL 2.28.9, src/graph/xml.cc and topo.cc.

#include "topologies/importers/nccl_xml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <pugixml.hpp>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "topologies/link_rates.hpp"

namespace stepcast {
namespace {

constexpr int max_depth = 32;
constexpr int max_devices = 4096;
constexpr std::size_t max_cpus = 128;  // NUMA nodes; every two are linked

struct NvlinkEnd {
  Vertex gpu;
  std::string target;
  int count;
  bool to_switch;
  pugi::xml_node node;
};

class Reader {
 public:
  Reader(const std::string& text, const std::string& file, const ImportOptions& options)
      : path_(file), text_(text), options_(options) {
    if (!options.gpu.empty()) machine_.gpu = load_gpu(options.gpu);
    named_ = !options.gpu.empty();
  }

  Imported read() {
    pugi::xml_document document;
    const pugi::xml_parse_result parsed = document.load_buffer(text_.data(), text_.size());
    if (!parsed) {
      throw InputError({path_, line_of(parsed.offset), ""},
                       fmt::format("not valid XML: {}", parsed.description()));
    }
    if (document.child("graphs")) {
      throw InputError({path_, 0, ""},
                       "is a graph that NCCL found on some machine, not the machine; accepted: "
                       "NCCL_TOPO_DUMP_FILE (`stepcast topo show` prints a graph)");
    }
    const pugi::xml_node system = document.child("system");
    if (!system) {
      throw InputError({path_, 0, ""},
                       "has no element <system>; accepted: an NCCL topology (NCCL_TOPO_DUMP_FILE)");
    }
    check_one_host(system);
    partial_ = !system.select_node(".//gpu");
    for (const pugi::xml_node cpu : system.children("cpu")) add_cpu(cpu);
    if (gpus_.empty()) {
      throw InputError(
          {path_, 0, ""},
          "lists no <gpu>; accepted: a complete topology as NCCL_TOPO_DUMP_FILE writes "
          "it, or one whose PCI devices have the class of GPUs (0x0302 or 0x0300)");
    }
    if (!named_ && options_.gpu_required) {
      throw InputError(
          {path_, 0, ""},
          fmt::format("does not say which GPU of compute capability {}.{} it has; "
                      "give --gpu {}",
                      machine_.gpu.compute_capability / 10, machine_.gpu.compute_capability % 10,
                      importing::gpus_for(machine_.gpu.compute_capability)));
    }
    // The file does not say what the driver refuses; the part does.
    for (const Vertex cpu : cpus_) machine_.graph[cpu].pcie_p2p = machine_.gpu.pcie_p2p;
    add_nvlinks();
    connect_cpus();
    number_devices();
    if (partial_) complete_nvlinks();
    set_nic_speeds();
    say_what_was_assumed();
    machine_.name = machine_.full_name = path_;
    machine_.source = "NCCL topology file " + path_;
    machine_.network = network();
    return {std::move(machine_), std::move(notes_)};
  }

 private:
  int line_of(std::ptrdiff_t offset) const {
    const auto end = text_.begin() + std::clamp<std::ptrdiff_t>(
                                         offset, 0, static_cast<std::ptrdiff_t>(text_.size()));
    return 1 + static_cast<int>(std::count(text_.begin(), end, '\n'));
  }

  InputError error(const pugi::xml_node& node, std::string_view key, const std::string& message) {
    const std::string name = node.name();
    return InputError(
        {path_, line_of(node.offset_debug()), key.empty() ? name : fmt::format("{}.{}", name, key)},
        message);
  }

  double number(const pugi::xml_node& node, const char* key, double fallback, double least,
                double most) {
    const char* text = node.attribute(key).value();
    if (*text == '\0') return fallback;
    char* end = nullptr;
    const double value = std::strtod(text, &end);
    if (*end != '\0' || !std::isfinite(value) || value < least || value > most) {
      throw error(node, key,
                  fmt::format("\"{}\" is not a number from {} to {}", text, least, most));
    }
    return value;
  }

  int integer(const pugi::xml_node& node, const char* key, int fallback, int least, int most) {
    const double value = number(node, key, fallback, least, most);
    if (value != std::floor(value)) throw error(node, key, "accepted: a whole number");
    return static_cast<int>(value);
  }

  Vertex add(const Device& device, const pugi::xml_node& node) {
    if (boost::num_vertices(machine_.graph) >= max_devices) {
      throw error(node, "", fmt::format("more than {} devices", max_devices));
    }
    return boost::add_vertex(device, machine_.graph);
  }

  // Dumps of an NVLink domain over nodes (GB200 NVL72) hold all its hosts.
  void check_one_host(const pugi::xml_node& system) {
    std::string first;
    for (const pugi::xml_node cpu : system.children("cpu")) {
      const std::string host = cpu.attribute("host_hash").value();
      if (!first.empty() && !host.empty() && host != first) {
        throw error(cpu, "host_hash",
                    "differs from the first CPU's: the file holds several hosts; accepted: one "
                    "node");
      }
      if (first.empty()) first = host;
    }
  }

  // Top byte and the next of a PCI class: 0x0302 for "0x030200"; 0 where there is none.
  static unsigned pci_class(const pugi::xml_node& pci) {
    return static_cast<unsigned>(std::strtoul(pci.attribute("class").value(), nullptr, 16) >> 8) &
           0xffff;
  }

  // A GPU of a file that lists PCI devices only: the machine's GPU is the named one, or the one of
  // this device id.
  void add_bare_gpu(const pugi::xml_node& pci, Vertex parent) {
    if (!named_) {
      const auto id = static_cast<unsigned>(
          std::strtoul(pci.attribute("device").value(), nullptr, 16) & 0xffff);
      const std::string name = importing::gpu_of_pci_id(id);
      if (name.empty()) {
        throw error(pci, "",
                    fmt::format("is a GPU without <gpu>: the file is partial and is completed with "
                                "--gpu NAME{}; accepted: {}",
                                options_.nic_gbit.empty() ? " and --nic-speed GBIT" : "",
                                importing::gpus_for(0)));
      }
      machine_.gpu = load_gpu(name);
      named_ = true;
      notes_.push_back(fmt::format("GPU {} by its PCI device id {:#06x}", name, id));
    }
    Device device;
    device.kind = DeviceKind::gpu;
    device.index = static_cast<int>(gpus_.size());
    device.gpudirect_rdma = machine_.gpu.gpudirect_rdma;
    const Vertex vertex = add(device, pci);
    gpus_.push_back(vertex);
    on_bus(pci, vertex);
    connect_pcie(vertex, parent, pci);
  }

  // NVLinks name their other end by its bus id, so no two GPUs have the same.
  void on_bus(const pugi::xml_node& pci, Vertex vertex) {
    const std::string id = pci.attribute("busid").value();
    if (of_bus_.emplace(id, vertex).second || id.empty()) return;
    throw error(pci, "busid",
                fmt::format("is {}, as of another GPU; accepted: a bus id each", id.substr(0, 40)));
  }

  void add_bare_nic(const pugi::xml_node& pci, Vertex parent) {
    if (options_.nic_gbit.empty()) {
      throw error(pci, "",
                  "is a NIC without <net>: the file is partial and is completed with --nic-speed "
                  "GBIT (one for all NICs, or one each with commas)");
    }
    const std::string_view vendor = pci.attribute("vendor").value();
    Device device;
    device.kind = DeviceKind::nic;
    device.product = vendor == "0x1d0f" ? "efa" : vendor == "0x14e4" ? "bnxt" : "";
    bare_nic_network_ = vendor == "0x1d0f"         ? "efa"
                        : pci_class(pci) == 0x0207 ? "infiniband"
                                                   : "roce";
    device.nic_guid = (std::uint64_t{1} << 62) + nics_.size();
    const Vertex vertex = add(device, pci);
    nics_.push_back(vertex);
    connect_pcie(vertex, parent, pci);
  }

  void complete_nvlinks() {
    using importing::NvlinkLayout;
    const int gpus = static_cast<int>(machine_.gpus.size());
    const NvlinkLayout layout =
        importing::nvlink_layout(options_, path_, machine_.gpu, gpus, notes_);
    if (layout == NvlinkLayout::nvswitch) {
      Device device;
      device.kind = DeviceKind::nvswitch;
      device.name = "nvswitch0";
      const Vertex hub = boost::add_vertex(device, machine_.graph);
      for (const Vertex gpu : machine_.gpus) connect_nvlink(gpu, hub, machine_.gpu.nvlinks);
    }
    if (layout != NvlinkLayout::all_to_all) return;
    for (int a = 0; a < gpus; ++a) {
      for (int b = a + 1; b < gpus; ++b) {
        connect_nvlink(machine_.gpus[a], machine_.gpus[b], machine_.gpu.nvlinks / (gpus - 1));
      }
    }
  }

  // --nic-speed completes partial files and overrides what others say.
  void set_nic_speeds() {
    if (options_.nic_gbit.empty()) return;
    for (std::size_t i = 0; i < machine_.nics.size(); ++i) {
      const double gbit = importing::nic_gbit_of(options_, path_, i, machine_.nics.size());
      if (gbit <= 0) {
        throw InputError({"--nic-speed", 0, ""},
                         "0 is not accepted for an XML file; accepted: more than 0 Gb/s");
      }
      machine_.graph[machine_.nics[i]].nic_gbps = gbit / 8;
    }
  }

  std::string network() const {
    if (machine_.nics.empty()) return "none";
    if (!bare_nic_network_.empty()) return bare_nic_network_;
    for (const Vertex nic : machine_.nics) {
      const std::string by_name = importing::network_of(machine_.graph[nic].product);
      if (!by_name.empty()) return by_name;
    }
    return "infiniband";
  }

  void say_what_was_assumed() {
    if (unknown_speeds_ > 0) {
      notes_.push_back(
          fmt::format("{} PCIe links have no speed in the file; Gen3 taken, as NCCL "
                      "does",
                      unknown_speeds_));
    }
    if (unknown_cpus_ > 0 && options_.cpu.empty()) {
      notes_.push_back(
          fmt::format("{} CPUs have no vendor in the file: AMD EPYC hosts assumed; "
                      "--cpu says otherwise",
                      unknown_cpus_));
    }
  }

  // Generation from "16.0 GT/s PCIe", "8 GT/s", ""; 0: not known.
  int generation(const pugi::xml_node& pci) {
    const double speed = std::strtod(pci.attribute("link_speed").value(), nullptr);
    constexpr double gt_per_s[] = {2.5, 5, 8, 16, 32, 64};
    for (int g = 0; g < 6; ++g) {
      if (speed == gt_per_s[g]) return g + 1;
    }
    return 0;
  }

  void connect_pcie(Vertex child, Vertex parent, const pugi::xml_node& pci) {
    Link link;
    link.kind = LinkKind::pcie;
    const int known = generation(pci);
    if (known == 0) ++unknown_speeds_;
    const int lanes = integer(pci, "link_width", 0, 0, 64);
    link.pcie_generation = known > 0 ? known : 3;
    link.pcie_width = lanes > 0 ? lanes : 16;
    link.gbps = pcie_gbps(link.pcie_generation, link.pcie_width);
    link.latency_us = default_latency_us(LinkKind::pcie);
    boost::add_edge(child, parent, link, machine_.graph);
  }

  void add_cpu(const pugi::xml_node& cpu) {
    if (cpus_.size() >= max_cpus) {
      throw error(cpu, "", fmt::format("more than {} CPUs; accepted: one node", max_cpus));
    }
    Device device;
    device.kind = DeviceKind::cpu;
    device.index = static_cast<int>(cpus_.size());
    device.name = fmt::format("cpu{}", device.index);
    device.cpu_arch = cpu.attribute("arch").value();
    device.cpu_vendor = cpu.attribute("vendor").value();
    device.cpu_family = integer(cpu, "familyid", 0, 0, 1 << 20);
    device.cpu_model = integer(cpu, "modelid", 0, 0, 1 << 20);
    device.numa_node = integer(cpu, "numaid", -1, -1, 1 << 20);
    if (device.cpu_arch.empty()) {
      importing::set_host(device, options_.cpu.empty() ? "amd" : options_.cpu);
      ++unknown_cpus_;
    } else if (!options_.cpu.empty()) {
      importing::set_host(device, options_.cpu);
    }
    const Vertex vertex = add(device, cpu);
    cpus_.push_back(vertex);
    for (const pugi::xml_node child : cpu.children()) {
      if (std::string_view(child.name()) == "pci") add_pci(child, vertex, 0);
      if (std::string_view(child.name()) == "nic") add_nic(child, vertex, {});
    }
  }

  void add_pci(const pugi::xml_node& pci, Vertex parent, int depth) {
    if (depth > max_depth) throw error(pci, "", "nested too deeply");
    if (const pugi::xml_node gpu = pci.child("gpu")) return add_gpu(gpu, pci, parent);
    if (const pugi::xml_node nic = pci.child("nic")) return add_nic(nic, parent, pci);
    if (partial_ && !pci.child("pci")) {
      const unsigned kind = pci_class(pci);
      if (kind == 0x0302 || kind == 0x0300) return add_bare_gpu(pci, parent);
      if (kind >> 8 == 0x02) return add_bare_nic(pci, parent);
      if (kind == 0 && gpus_.empty()) {
        throw error(pci, "class",
                    fmt::format("is missing: nothing says whether {} is a GPU or a NIC; accepted: "
                                "a file with classes, or NCCL_TOPO_DUMP_FILE on the machine",
                                pci.attribute("busid").value()));
      }
      if (kind != 0) return;  // a disk, an NVSwitch: nothing that moves gradients
    }
    Device device;
    device.kind = DeviceKind::pcie_switch;
    device.index = switches_++;
    device.name = fmt::format("pcie{}", device.index);
    const Vertex vertex = add(device, pci);
    connect_pcie(vertex, parent, pci);
    for (const pugi::xml_node child : pci.children("pci")) {
      if (broadcom_generation(pci, 0) > 0 &&
          broadcom_generation(child, 1) == broadcom_generation(pci, 0)) {
        for (const pugi::xml_node below : child.children("pci")) add_pci(below, vertex, depth + 2);
      } else {
        add_pci(child, vertex, depth + 1);
      }
    }
  }

  // Broadcom PEX switches show two levels although every port has the full rate: they are one.
  static int broadcom_generation(const pugi::xml_node& pci, std::uint64_t level) {
    const auto part = [&](const char* key) {
      return std::strtoull(pci.attribute(key).value(), nullptr, 16) & 0xffff;
    };
    const std::uint64_t id = part("vendor") << 48 | part("device") << 32 |
                             part("subsystem_vendor") << 16 | (part("subsystem_device") & 0xf000);
    if (id == (0x1000c0101000a000 | level << 12)) return 4;
    if (id == (0x1000c03010000000 | level << 12)) return 5;
    return 0;
  }

  void name_gpu(int sm, const pugi::xml_node& pci) {
    const auto id =
        static_cast<unsigned>(std::strtoul(pci.attribute("device").value(), nullptr, 16) & 0xffff);
    const std::string name = importing::gpu_of_pci_id(id);
    if (!name.empty()) {
      machine_.gpu = load_gpu(name);
      named_ = true;
      notes_.push_back(fmt::format("GPU {} by its PCI device id {:#06x}", name, id));
      return;
    }
    machine_.gpu.name = fmt::format("sm{}", sm);
    machine_.gpu.full_name = fmt::format("GPU of compute capability {}.{}", sm / 10, sm % 10);
    machine_.gpu.compute_capability = sm;
  }

  void add_gpu(const pugi::xml_node& gpu, const pugi::xml_node& pci, Vertex parent) {
    const int sm = integer(gpu, "sm", 0, 0, 10000);
    if (sm == 0) throw error(gpu, "sm", "is missing; accepted: a compute capability such as 80");
    if (!named_) {
      if (gpus_.empty()) name_gpu(sm, pci);
    }
    if (sm != machine_.gpu.compute_capability) {
      throw error(gpu, "sm",
                  fmt::format("is {}; accepted: {} as {} has, all GPUs of a machine being alike",
                              sm, machine_.gpu.compute_capability,
                              named_ ? machine_.gpu.name : "the first GPU"));
    }
    Device device;
    device.kind = DeviceKind::gpu;
    device.index = integer(gpu, "dev", static_cast<int>(gpus_.size()), 0, max_devices);
    device.gpudirect_rdma = integer(gpu, "gdr", 0, 0, 1) != 0;
    const Vertex vertex = add(device, gpu);
    gpus_.push_back(vertex);
    on_bus(pci, vertex);
    connect_pcie(vertex, parent, pci);
    for (const pugi::xml_node nvlink : gpu.children("nvlink")) {
      const std::string_view kind = nvlink.attribute("tclass").value();
      nvlinks_.push_back({vertex, nvlink.attribute("target").value(),
                          integer(nvlink, "count", 1, 1, 1024), kind.substr(0, 8) == "0x068000",
                          nvlink});
    }
    for (const pugi::xml_node c2c : gpu.children("c2c")) {
      Link link;
      link.kind = LinkKind::c2c;
      link.count = integer(c2c, "count", 1, 1, 1024);
      link.gbps = number(c2c, "bw", 0, 0, 1e9) * link.count / 1000;
      link.latency_us = default_latency_us(LinkKind::c2c);
      boost::add_edge(vertex, parent, link, machine_.graph);
    }
  }

  void add_nic(const pugi::xml_node& nic, Vertex parent, const pugi::xml_node& pci) {
    for (const pugi::xml_node net : nic.children("net")) {
      Device device;
      device.kind = DeviceKind::nic;
      device.product = net.attribute("name").value();
      const double megabits = number(net, "speed", 0, -1e9, 1e9);
      device.nic_gbps = (megabits > 0 ? megabits : 10000) / 8000;
      device.nic_port = integer(net, "port", 0, 0, 1 << 20);
      device.nic_guid = guid(net, nics_.size());
      device.nic_latency_us = number(net, "latency", 0, 0, 1e6);
      device.gpudirect_rdma = integer(net, "gdr", 0, 0, 1) != 0;
      const Vertex vertex = add(device, net);
      nics_.push_back(vertex);
      if (pci) {
        connect_pcie(vertex, parent, pci);
      } else {  // a virtual NIC: nothing between it and the CPU
        Link link;
        link.kind = LinkKind::pcie;
        link.gbps = 5000;
        link.latency_us = default_latency_us(LinkKind::pcie);
        boost::add_edge(vertex, parent, link, machine_.graph);
      }
    }
  }

  // Ports of equal guid share an ASIC; NCCL takes those that say 0 for one, too.
  static std::uint64_t guid(const pugi::xml_node& net, std::size_t number) {
    if (!net.attribute("guid")) return (std::uint64_t{1} << 62) + number;
    const std::uint64_t value = std::strtoull(net.attribute("guid").value(), nullptr, 0);
    return value != 0 ? value : std::uint64_t{1} << 61;
  }

  void add_nvlinks() {
    std::map<Vertex, int> to_switch;
    for (const NvlinkEnd& end : nvlinks_) {
      if (end.to_switch) {
        to_switch[end.gpu] += end.count;
        continue;
      }
      const auto peer = of_bus_.find(end.target);
      if (peer == of_bus_.end()) continue;   // a GPU that takes no part, or a CPU of POWER
      if (end.gpu > peer->second) continue;  // both ends list the link: once
      connect_nvlink(end.gpu, peer->second, end.count);
    }
    if (to_switch.empty()) return;
    Device device;
    device.kind = DeviceKind::nvswitch;
    device.name = "nvswitch0";
    const Vertex hub = boost::add_vertex(device, machine_.graph);
    for (const Vertex gpu : gpus_) {
      if (to_switch.count(gpu)) connect_nvlink(gpu, hub, to_switch[gpu]);
    }
  }

  void connect_nvlink(Vertex a, Vertex b, int count) {
    Link link;
    link.kind = LinkKind::nvlink;
    link.count = count;
    link.gbps = machine_.gpu.nvlink_gbps * count;
    link.latency_us = default_latency_us(LinkKind::nvlink);
    boost::add_edge(a, b, link, machine_.graph);
  }

  void connect_cpus() {  // the file has no links between CPUs; speed 0: not known
    for (std::size_t a = 0; a < cpus_.size(); ++a) {
      for (std::size_t b = a + 1; b < cpus_.size(); ++b) {
        Link link;
        link.kind = LinkKind::socket;
        link.latency_us = default_latency_us(LinkKind::socket);
        boost::add_edge(cpus_[a], cpus_[b], link, machine_.graph);
      }
    }
  }

  // GPUs by their CUDA number where the file numbers all of them 0, 1, ...; else in file order.
  void number_devices() {
    std::vector<Vertex> by_number(gpus_.size(), gpus_.front());
    std::vector<bool> seen(gpus_.size(), false);
    bool numbered = true;
    for (const Vertex v : gpus_) {
      const auto index = static_cast<std::size_t>(machine_.graph[v].index);
      if (index >= gpus_.size() || seen[index]) {
        numbered = false;
        break;
      }
      seen[index] = true;
      by_number[index] = v;
    }
    machine_.gpus = numbered ? by_number : gpus_;
    for (std::size_t i = 0; i < machine_.gpus.size(); ++i) {
      Device& device = machine_.graph[machine_.gpus[i]];
      device.index = static_cast<int>(i);
      device.name = fmt::format("gpu{}", i);
    }
    machine_.nics = nics_;
    for (std::size_t i = 0; i < nics_.size(); ++i) {
      Device& device = machine_.graph[nics_[i]];
      device.index = static_cast<int>(i);
      device.name = fmt::format("nic{}", i);
    }
  }

  const std::string& path_;
  const std::string& text_;
  const ImportOptions& options_;
  bool named_ = false;
  bool partial_ = false;  // no <gpu>: only CPUs and PCI devices
  std::string bare_nic_network_;
  int unknown_speeds_ = 0;
  int unknown_cpus_ = 0;
  std::vector<std::string> notes_;
  Machine machine_;
  std::vector<Vertex> cpus_, gpus_, nics_;
  std::vector<NvlinkEnd> nvlinks_;
  std::map<std::string, Vertex> of_bus_;
  int switches_ = 0;
};

}  // namespace

Imported read_nccl_xml_text(const std::string& text, const std::string& file,
                            const ImportOptions& options) {
  return Reader(text, file, options).read();
}

Machine read_nccl_xml(const std::string& path, const std::string& gpu) {
  ImportOptions options;
  options.gpu = gpu;
  options.gpu_required = false;
  return read_nccl_xml_text(read_file(path), path, options).machine;
}

}  // namespace stepcast

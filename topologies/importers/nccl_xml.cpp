// The file is a tree: system > cpu > pci > pci > gpu or nic > net. Example (attributes shortened):
//
//   <system version="1">
//     <cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="143" modelid="49">
//       <pci busid="0000:07:00.0" link_speed="16.0 GT/s PCIe" link_width="16">
//         <gpu dev="0" sm="80"><nvlink target="0000:c4:00.0" count="2" tclass="0x068000"/></gpu>
//
// link_speed may be empty in virtual machines (NCCL then takes Gen3), link_width 0 means 16.
// NVSwitches are targets of NVLinks and otherwise not in the file. What becomes of devices and
// links: nccl_xml_graph.cpp. Source: NCCL 2.28.9, src/graph/xml.cc and topo.cc.

#include "topologies/importers/nccl_xml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <pugixml.hpp>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/letters.hpp"
#include "base/toml.hpp"
#include "topologies/importers/nccl_xml_attributes.hpp"
#include "topologies/importers/nccl_xml_graph.hpp"

namespace stepcast {
namespace {

constexpr int max_depth = 32;
constexpr std::size_t max_devices = 4096;
constexpr std::size_t max_cpus = 128;  // NUMA nodes; every two are linked

class Reader {
 public:
  Reader(const std::string& text, const std::string& file, const ImportOptions& options)
      : path_(file), text_(text), options_(options), xml_(file, text) {
    if (!options.gpu.empty()) machine_.gpu = load_gpu(options.gpu);
    named_ = !options.gpu.empty();
  }

  Imported read() {
    pugi::xml_document document;
    const pugi::xml_parse_result parsed = document.load_buffer(text_.data(), text_.size());
    if (!parsed) {
      throw InputError({path_, xml_.line_of(parsed.offset), ""},
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
    if (const pugi::xml_node second = system.next_sibling("system")) {
      throw xml_.error(second, "",
                       "is there twice: the file holds several machines; accepted: one node");
    }
    check_one_host(system);
    partial_ = !system.select_node(".//gpu");
    for (const pugi::xml_node cpu : system.children("cpu")) add_cpu(cpu);
    check_named_nics();
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
    check_numbers();
    // The file does not say what the driver refuses; the part does.
    for (const Vertex cpu : cpus_) machine_.graph[cpu].pcie_p2p = machine_.gpu.pcie_p2p;
    graph_.finish();
    if (partial_) complete_nvlinks();
    set_nic_speeds();
    say_what_was_assumed();
    machine_.name = machine_.full_name = path_;
    machine_.source = "NCCL topology file " + path_;
    machine_.network = network();
    return {std::move(machine_), std::move(notes_)};
  }

 private:
  void check_room(const pugi::xml_node& node) {
    if (graph_.size() >= max_devices) {
      throw xml_.error(node, "", fmt::format("more than {} devices", max_devices));
    }
  }

  // NCCL tells GPUs apart by their number. Where each rank sees one GPU alone, all say 0.
  void check_numbers() {
    std::set<int> seen;
    pugi::xml_node again;
    for (const auto& [number, gpu] : numbers_) {
      if (!seen.insert(number).second && !again) again = gpu;
    }
    if (!again) return;
    const char* number = again.attribute("dev").value();
    if (seen.size() > 1) {
      throw xml_.error(again, "dev",
                       fmt::format("is {}, as of another GPU; accepted: a number each", number));
    }
    notes_.push_back(fmt::format("all {} GPUs say dev=\"{}\": they are numbered as in the file",
                                 numbers_.size(), number));
  }

  // Dumps of an NVLink domain over nodes (GB200 NVL72) hold all its hosts.
  void check_one_host(const pugi::xml_node& system) {
    std::string first;
    for (const pugi::xml_node cpu : system.children("cpu")) {
      const std::string host = cpu.attribute("host_hash").value();
      if (!first.empty() && !host.empty() && host != first) {
        throw xml_.error(
            cpu, "host_hash",
            "differs from the first CPU's: the file holds several hosts; accepted: one "
            "node");
      }
      if (first.empty()) first = host;
    }
  }

  // A GPU of a file that lists PCI devices only: the machine's GPU is the named one, or the one of
  // this device id.
  void add_bare_gpu(const pugi::xml_node& pci, Vertex parent) {
    if (!named_) {
      const unsigned id = importing::device_id(pci);
      const std::string name = importing::gpu_of_pci_id(id);
      if (name.empty()) {
        throw xml_.error(
            pci, "",
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
    device.index = static_cast<int>(gpus_.size());
    device.gpudirect_rdma = machine_.gpu.gpudirect_rdma;
    place_gpu(std::move(device), pci, parent);
  }

  // A PCI device without a class, in a file whose NICs the user named.
  void add_unclassed(const pugi::xml_node& pci, Vertex parent) {
    const std::string bus = pci.attribute("busid").value();
    unclassed_.push_back(bus);
    const bool nic =
        std::any_of(options_.nics.begin(), options_.nics.end(),
                    [&](const std::string& named) { return same_letters(named, bus); });
    if (!nic) return add_bare_gpu(pci, parent);
    add_bare_nic(pci, parent);
    bare_nic_network_ = "ethernet";
    if (options_.network.empty() && !said_network_) {
      said_network_ = true;
      notes_.push_back(
          "which network the NICs are on is not in the file: ethernet taken; --network says "
          "otherwise");
    }
  }

  // NICs that were named, and are none of the file's.
  void check_named_nics() {
    if (options_.nics.empty() || options_.nics == std::vector<std::string>{"none"}) return;
    for (const std::string& named : options_.nics) {
      const bool there =
          std::any_of(unclassed_.begin(), unclassed_.end(),
                      [&](const std::string& bus) { return same_letters(named, bus); });
      if (!there && unclassed_.empty()) {
        throw InputError({"--nics", 0, ""}, path_ +
                                                " has no PCI device without a class, and so says "
                                                "itself what is a NIC; accepted: without it");
      }
      if (!there) throw not_accepted({"--nics", 0, ""}, named, unclassed_);
    }
  }

  // NVLinks name their other end by its bus id, so no two GPUs have the same.
  Vertex place_gpu(Device device, const pugi::xml_node& pci, Vertex parent) {
    const std::string id = pci.attribute("busid").value();
    if (!graph_.free_bus(id)) {
      throw xml_.error(
          pci, "busid",
          fmt::format("is {}, as of another GPU; accepted: a bus id each", id.substr(0, 40)));
    }
    check_room(pci);
    return graph_.add_gpu(std::move(device), id, parent, generation(pci), xml_.lanes(pci));
  }

  void add_bare_nic(const pugi::xml_node& pci, Vertex parent) {
    if (options_.nic_gbit.empty()) {
      throw xml_.error(
          pci, "",
          "is a NIC without <net>: the file is partial and is completed with --nic-speed "
          "GBIT (one for all NICs, or one each with commas)");
    }
    const std::string_view vendor = pci.attribute("vendor").value();
    Device device;
    device.product = vendor == "0x1d0f" ? "efa" : vendor == "0x14e4" ? "bnxt" : "";
    bare_nic_network_ = vendor == "0x1d0f"                    ? "efa"
                        : importing::pci_class(pci) == 0x0207 ? "infiniband"
                                                              : "roce";
    device.nic_guid = (std::uint64_t{1} << 62) + nics_.size();
    check_room(pci);
    graph_.add_nic(std::move(device), parent, generation(pci), xml_.lanes(pci));
  }

  void complete_nvlinks() {
    using importing::NvlinkLayout;
    const int gpus = static_cast<int>(machine_.gpus.size());
    switch (importing::nvlink_layout(options_, path_, machine_.gpu, gpus, notes_)) {
      case NvlinkLayout::nvswitch: graph_.add_nvswitch(); break;
      case NvlinkLayout::all_to_all: graph_.add_nvlinks_between_all(); break;
      case NvlinkLayout::none: break;
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
    if (cpu_nvlinks_ > 0) {
      notes_.push_back("NVLinks between GPUs and CPUs (POWER) are left out: PCIe is taken there");
    }
    if (graph_.guessed_nvswitch > 0) {
      notes_.push_back(
          "NVLinks without tclass lead to devices that are not in the file: NVSwitches taken, as "
          "NCCL does");
    }
    if (graph_.one_sided > 0) {
      notes_.push_back(
          fmt::format("{} NVLink connection{} listed by one end alone: taken for both directions",
                      graph_.one_sided, graph_.one_sided == 1 ? " is" : "s are"));
    }
    if (unknown_speeds_ > 0) {
      notes_.push_back(
          fmt::format("{} PCIe links have no speed in the file; Gen3 taken, as NCCL "
                      "does",
                      unknown_speeds_));
    }
    if (completed_speeds_ > 0) {
      notes_.push_back(
          fmt::format("{} PCIe links have no speed in the file: Gen{} taken, as {} has",
                      completed_speeds_, machine_.gpu.pcie_generation, machine_.gpu.name));
    }
    if (unknown_nics_ > 0 && options_.nic_gbit.empty()) {
      notes_.push_back(fmt::format(
          "{} NIC{} no speed above 0 in the file: 10 Gb/s taken, as NCCL does; --nic-speed says "
          "otherwise",
          unknown_nics_, unknown_nics_ == 1 ? " has" : "s have"));
    }
    if (unknown_cpus_ > 0 && options_.cpu.empty()) {
      notes_.push_back(
          fmt::format("{} CPUs have no vendor in the file: AMD EPYC hosts assumed; "
                      "--cpu says otherwise",
                      unknown_cpus_));
    }
  }

  int generation(const pugi::xml_node& pci) {
    const int known = importing::pcie_generation(pci);
    if (known > 0) return known;
    // NCCL completes what is not there by the machine's own sysfs, where the GPU's links are its.
    if (partial_ && named_ && !pci.attribute("link_speed")) {
      ++completed_speeds_;
      return machine_.gpu.pcie_generation;
    }
    ++unknown_speeds_;
    return 3;
  }

  void add_cpu(const pugi::xml_node& cpu) {
    if (cpus_.size() >= max_cpus) {
      throw xml_.error(cpu, "", fmt::format("more than {} CPUs; accepted: one node", max_cpus));
    }
    Device device;
    device.cpu_arch = cpu.attribute("arch").value();
    device.cpu_vendor = cpu.attribute("vendor").value();
    device.cpu_family = xml_.integer(cpu, "familyid", 0, 0, 1 << 20);
    device.cpu_model = xml_.integer(cpu, "modelid", 0, 0, 1 << 20);
    device.numa_node = xml_.integer(cpu, "numaid", -1, -1, 1 << 20);
    if (device.cpu_arch.empty()) {
      importing::set_host(device, options_.cpu.empty() ? "amd" : options_.cpu);
      ++unknown_cpus_;
    } else if (!options_.cpu.empty()) {
      importing::set_host(device, options_.cpu);
    }
    check_room(cpu);
    const Vertex vertex = cpu_ = graph_.add_cpu(std::move(device));
    for (const pugi::xml_node child : cpu.children()) {
      if (std::string_view(child.name()) == "pci") add_pci(child, vertex, 0);
      if (std::string_view(child.name()) == "nic") add_nic(child, vertex, {});
    }
  }

  void add_pci(const pugi::xml_node& pci, Vertex parent, int depth) {
    if (depth > max_depth) throw xml_.error(pci, "", "nested too deeply");
    if (const pugi::xml_node gpu = pci.child("gpu")) return add_gpu(gpu, pci, parent);
    if (const pugi::xml_node nic = pci.child("nic")) return add_nic(nic, parent, pci);
    if (partial_ && !pci.child("pci")) {
      const unsigned kind = importing::pci_class(pci);
      const std::string_view vendor = pci.attribute("vendor").value();
      if (kind == 0x0300 && vendor.size() > 2 && vendor != "0x10de") return;  // a server's console
      if (kind == 0x0302 || kind == 0x0300) return add_bare_gpu(pci, parent);
      if (kind >> 8 == 0x02) return add_bare_nic(pci, parent);
      if (kind != 0) return;  // a disk, an NVSwitch: nothing that moves gradients
      if (!options_.nics.empty()) return add_unclassed(pci, parent);
      if (gpus_.empty()) {
        throw xml_.error(
            pci, "class",
            fmt::format("is missing: nothing says whether {} is a GPU or a NIC; accepted: --nics "
                        "BUSID,... (the others are GPUs; none: there is no NIC), a file with "
                        "classes, or NCCL_TOPO_DUMP_FILE on the machine",
                        pci.attribute("busid").value()));
      }
    }
    check_room(pci);
    const Vertex vertex = graph_.add_switch(parent, generation(pci), xml_.lanes(pci));
    for (const pugi::xml_node child : pci.children("pci")) {
      if (importing::broadcom_generation(pci, 0) > 0 &&
          importing::broadcom_generation(child, 1) == importing::broadcom_generation(pci, 0)) {
        for (const pugi::xml_node below : child.children("pci")) add_pci(below, vertex, depth + 2);
      } else {
        add_pci(child, vertex, depth + 1);
      }
    }
  }

  void name_gpu(int sm, const pugi::xml_node& pci) {
    const unsigned id = importing::device_id(pci);
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
    int sm = xml_.integer(gpu, "sm", 0, 0, 10000);
    if (!named_ && gpus_.empty()) name_gpu(sm, pci);
    if (sm == 0 && named_) sm = machine_.gpu.compute_capability;
    if (sm == 0)
      throw xml_.error(gpu, "sm", "is missing; accepted: a compute capability such as 80");
    if (sm != machine_.gpu.compute_capability) {
      throw xml_.error(
          gpu, "sm",
          fmt::format("is {}; accepted: {} as {} has, all GPUs of a machine being alike", sm,
                      machine_.gpu.compute_capability,
                      named_ ? machine_.gpu.name : "the first GPU"));
    }
    Device device;
    device.index = xml_.integer(gpu, "dev", static_cast<int>(gpus_.size()), 0, max_devices);
    numbers_.emplace_back(device.index, gpu);
    device.gpudirect_rdma = xml_.integer(gpu, "gdr", 0, 0, 1) != 0;
    const Vertex vertex = place_gpu(std::move(device), pci, parent);
    for (const pugi::xml_node nvlink : gpu.children("nvlink")) {
      const std::string_view kind = nvlink.attribute("tclass").value();
      if (kind == "0x068001") ++cpu_nvlinks_;
      using Far = importing::NcclXmlGraph::FarEnd;
      graph_.add_nvlinks(vertex, nvlink.attribute("target").value(),
                         xml_.integer(nvlink, "count", 1, 1, 1024),
                         kind.empty()                      ? Far::unknown
                         : kind.substr(0, 8) == "0x068000" ? Far::nvswitch
                                                           : Far::device);
    }
    for (const pugi::xml_node c2c : gpu.children("c2c")) {
      const int count = xml_.integer(c2c, "count", 1, 1, 1024);
      // Its PCIe may come by a switch, as that of a NIC does (GB300); C2C goes to the CPU itself.
      graph_.add_c2c(vertex, cpu_, count, xml_.number(c2c, "bw", 0, 0, 1e9) * count / 1000);
    }
  }

  void add_nic(const pugi::xml_node& nic, Vertex parent, const pugi::xml_node& pci) {
    for (const pugi::xml_node net : nic.children("net")) {
      Device device;
      device.product = net.attribute("name").value();
      const double megabits = xml_.number(net, "speed", 0, -1e9, 1e9);
      if (!(megabits > 0)) ++unknown_nics_;
      device.nic_gbps = (megabits > 0 ? megabits : 10000) / 8000;
      device.nic_port = xml_.integer(net, "port", 0, 0, 1 << 20);
      device.nic_guid = importing::port_guid(net, nics_.size());
      device.nic_latency_us = xml_.number(net, "latency", 0, 0, 1e6);
      device.gpudirect_rdma = xml_.integer(net, "gdr", 0, 0, 1) != 0;
      check_room(net);
      if (pci) {
        graph_.add_nic(std::move(device), parent, generation(pci), xml_.lanes(pci));
      } else {
        graph_.add_virtual_nic(std::move(device), parent);
      }
    }
  }

  const std::string& path_;
  const std::string& text_;
  const ImportOptions& options_;
  importing::XmlAttributes xml_;
  Vertex cpu_ = 0;  // whose devices are read
  bool named_ = false;
  bool partial_ = false;  // no <gpu>: only CPUs and PCI devices
  std::string bare_nic_network_;
  std::vector<std::string> unclassed_;  // bus ids of PCI devices without a class
  bool said_network_ = false;
  std::vector<std::pair<int, pugi::xml_node>> numbers_;  // of each <gpu>
  int unknown_nics_ = 0;                                 // without a speed
  int unknown_speeds_ = 0;
  int completed_speeds_ = 0;
  int unknown_cpus_ = 0;
  int cpu_nvlinks_ = 0;
  std::vector<std::string> notes_;
  importing::NcclXmlGraph graph_;
  Machine& machine_ = graph_.machine;
  const std::vector<Vertex>&cpus_ = graph_.cpus, &gpus_ = graph_.gpus, &nics_ = graph_.nics;
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

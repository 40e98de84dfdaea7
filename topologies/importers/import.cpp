#include "topologies/importers/import.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/toml.hpp"
#include "topologies/importers/nccl_xml.hpp"
#include "topologies/importers/smi.hpp"

namespace stepcast {
namespace {

struct Host {
  const char* name;
  const char* arch;
  const char* vendor;
  int family;
  int model;
};
// Families and models as CPUID gives them; the borders between NCCL's speeds for the link between
// sockets lie at Intel's models 0x55, 0x8F and 0xCF (docs/sources.md, NCCL).
constexpr Host hosts[] = {{"amd", "x86_64", "AuthenticAMD", 25, 1},
                          {"intel-broadwell", "x86_64", "GenuineIntel", 6, 0x4f},
                          {"intel-skylake", "x86_64", "GenuineIntel", 6, 0x55},
                          {"intel-icelake", "x86_64", "GenuineIntel", 6, 0x6a},
                          {"intel-sapphire-rapids", "x86_64", "GenuineIntel", 6, 0x8f},
                          {"intel-emerald-rapids", "x86_64", "GenuineIntel", 6, 0xcf},
                          {"grace", "aarch64", "NVIDIA", 0, 0}};

struct PciId {
  unsigned device;
  const char* gpu;
};
// Device ids of vendor 0x10de, from the PCI ID repository (pci-ids.ucw.cz), for the parts that the
// catalog has.
constexpr PciId pci_ids[] = {{0x1db1, "v100-sxm2-16gb"},
                             {0x1db4, "v100-pcie-16gb"},
                             {0x1db5, "v100-sxm2-32gb"},
                             {0x1e02, "titan-rtx"},
                             {0x1eb8, "t4"},
                             {0x20b0, "a100-sxm-40gb"},
                             {0x20b2, "a100-sxm-80gb"},
                             {0x20f1, "a100-pcie-40gb"},
                             {0x20b5, "a100-pcie-80gb"},
                             {0x20b7, "a30"},
                             {0x20f3, "a800-sxm-80gb"},
                             {0x2204, "rtx-3090"},
                             {0x2230, "rtx-a6000"},
                             {0x2235, "a40"},
                             {0x2236, "a10"},
                             {0x2237, "a10g"},
                             {0x2321, "h100-nvl"},
                             {0x2324, "h800-sxm"},
                             {0x2329, "h20"},
                             {0x2330, "h100-sxm"},
                             {0x2331, "h100-pcie"},
                             {0x2335, "h200"},
                             {0x233b, "h200-nvl"},
                             {0x2342, "gh200-96gb"},
                             {0x2684, "rtx-4090"},
                             {0x26b1, "rtx-6000-ada"},
                             {0x26b5, "l40"},
                             {0x26b9, "l40s"},
                             {0x27b8, "l4"},
                             {0x2901, "b200"},
                             {0x2941, "gb200"},
                             {0x2b85, "rtx-5090"},
                             {0x2bb1, "rtx-pro-6000"},
                             {0x2bb5, "rtx-pro-6000"},
                             {0x3182, "b300"},
                             {0x31c2, "gb300"}};

}  // namespace

std::vector<std::string> host_names() {
  std::vector<std::string> names;
  for (const Host& host : hosts) names.emplace_back(host.name);
  return names;
}

namespace importing {

std::string gpu_of_pci_id(unsigned device_id) {
  for (const PciId& id : pci_ids) {
    if (id.device == device_id) return id.gpu;
  }
  return "";
}

std::string gpus_for(int compute_capability) {
  std::string names;
  for (const std::string& name : catalog_gpus()) {
    if (compute_capability != 0 && load_gpu(name).compute_capability != compute_capability) {
      continue;
    }
    names += (names.empty() ? "" : ", ") + name;
  }
  return names.empty() ? "a GPU TOML (docs/topologies.md); the catalog has none of it"
                       : names + ", or a GPU TOML";
}

void set_host(Device& cpu, const std::string& name) {
  for (const Host& host : hosts) {
    if (name != host.name) continue;
    cpu.cpu_arch = host.arch;
    cpu.cpu_vendor = host.vendor;
    cpu.cpu_family = host.family;
    cpu.cpu_model = host.model;
    return;
  }
  throw not_accepted({"--cpu", 0, ""}, name, host_names());
}

std::string usual_host(const Gpu& gpu) { return gpu.c2c_links > 0 ? "grace" : "amd"; }

std::string network_of(const std::string& nic_name) {
  const auto starts = [&](const char* prefix) { return nic_name.rfind(prefix, 0) == 0; };
  if (starts("mlx") || starts("ib")) return "infiniband";
  if (starts("bnxt") || starts("roce")) return "roce";
  if (starts("rdmap") || starts("efa")) return "efa";
  if (starts("cxi") || starts("hsn")) return "slingshot";
  if (starts("eth") || starts("en") || starts("bond") || starts("lo")) return "ethernet";
  return "";
}

double nic_gbit_of(const ImportOptions& options, const std::string& file, std::size_t index,
                   std::size_t count) {
  const std::vector<double>& speeds = options.nic_gbit;
  if (speeds.size() == 1) return speeds.front();
  if (speeds.size() != count) {
    throw InputError({"--nic-speed", 0, ""},
                     fmt::format("gives {} speeds, {} has {} NICs; accepted: one Gb/s for all, or "
                                 "one each (0 leaves a NIC out)",
                                 speeds.size(), file, count));
  }
  return speeds[index];
}

bool always_linked(const Gpu& gpu) {
  const auto named = [&](const char* word) {
    return gpu.full_name.find(word) != std::string::npos;
  };
  return gpu.nvlinks > 4 && !named("PCIe") && !named(" NVL ");  // H100 NVL, a card
}

NvlinkLayout nvlink_layout(const ImportOptions& options, const std::string& file, const Gpu& gpu,
                           int gpus, std::vector<std::string>& notes) {
  const std::vector<std::string> names = {"nvswitch", "all_to_all", "none"};
  if (!options.nvlink.empty()) {
    if (options.nvlink == "none") return NvlinkLayout::none;
    if (gpu.nvlinks == 0) {
      throw InputError({"--nvlink", 0, ""}, gpu.name + " has no NVLink; accepted: none");
    }
    if (options.nvlink == "nvswitch") return NvlinkLayout::nvswitch;
    if (options.nvlink != "all_to_all") {
      throw not_accepted({"--nvlink", 0, ""}, options.nvlink, names);
    }
    if (gpus < 2 || gpu.nvlinks % (gpus - 1) != 0) {
      throw InputError({"--nvlink", 0, ""},
                       fmt::format("{} NVLinks of {} do not spread over {} peers; accepted: "
                                   "nvswitch, none",
                                   gpu.nvlinks, gpu.name, gpus - 1));
    }
    return NvlinkLayout::all_to_all;
  }
  if (gpus < 2 || gpu.nvlinks == 0) return NvlinkLayout::none;
  if (!always_linked(gpu)) {
    notes.push_back(
        fmt::format("NVLink bridges are not in the file: none assumed between {}; "
                    "--nvlink says otherwise",
                    gpu.name));
    return NvlinkLayout::none;
  }
  const bool tray = gpu.c2c_links > 0 && gpu.compute_capability >= 100;  // of an NVL72 rack
  if (gpu.compute_capability >= 80 && (gpus == 8 || tray)) {
    notes.push_back(
        fmt::format("NVLinks are not in the file: assumed all {} of each of the {} {} "
                    "on NVSwitches; --nvlink says otherwise",
                    gpu.nvlinks, gpus, gpu.name));
    return NvlinkLayout::nvswitch;
  }
  if (gpu.compute_capability >= 80 && gpus == 4 && gpu.nvlinks % 3 == 0) {
    notes.push_back(
        fmt::format("NVLinks are not in the file: assumed {} between every two of the "
                    "4 {}; --nvlink says otherwise",
                    gpu.nvlinks / 3, gpu.name));
    return NvlinkLayout::all_to_all;
  }
  throw InputError({file, 0, ""},
                   fmt::format("does not say how the NVLinks of {} {} run; give --nvlink {}", gpus,
                               gpu.name, fmt::join(names, ", ")));
}

}  // namespace importing

namespace {

// A file that begins with XML, or where somebody pasted a prompt or quotes before it: then without
// those, in the same lines. "": no XML.
std::string xml_of(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (first == std::string::npos) return "";
  if (text[first] == '<') return text;
  const std::size_t begin = std::min(text.find("<system"), text.find("<graphs"));
  if (begin == std::string::npos) return "";
  std::string xml = text;
  std::replace_if(
      xml.begin(), xml.begin() + static_cast<std::ptrdiff_t>(begin),
      [](char c) { return c != '\n'; }, ' ');
  return xml;
}

}  // namespace

Imported import_topology_text(const std::string& text, const std::string& file,
                              const ImportOptions& options) {
  if (!options.cpu.empty()) {
    Device tried;
    importing::set_host(tried, options.cpu);
  }
  for (const double gbit : options.nic_gbit) {
    if (!(gbit >= 0 && gbit <= 100000)) {
      throw InputError({"--nic-speed", 0, ""},
                       fmt::format("{} is out of range; accepted: 0 to 100000 Gb/s", gbit));
    }
  }
  const std::string xml = xml_of(text);
  if (xml.empty() && !options.nics.empty()) {
    throw InputError({"--nics", 0, ""}, "is of an XML file without classes of devices, and " +
                                            file +
                                            " is none; accepted: --nic-speed 0 leaves a NIC out");
  }
  Imported imported =
      xml.empty() ? read_smi_text(text, file, options) : read_nccl_xml_text(xml, file, options);
  Machine& machine = imported.machine;
  // By the file's stem: a path in every headline says nothing more; the source has it.
  const std::string stem = std::filesystem::path(file).stem().string();
  machine.name = machine.full_name = stem.empty() ? file : stem;
  if (!options.network.empty() && !machine.nics.empty()) {
    const std::vector<std::string> known = network_classes();
    if (std::find(known.begin(), known.end(), options.network) == known.end()) {
      throw not_accepted({"--network", 0, ""}, options.network, known);
    }
    machine.network = options.network;
  }
  return imported;
}

Imported import_topology(const std::string& path, const ImportOptions& options) {
  return import_topology_text(read_file(path, 16ll << 20), path, options);
}

}  // namespace stepcast

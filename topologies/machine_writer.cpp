#include "topologies/machine_writer.hpp"

#include <fmt/format.h>

#include "topologies/describe.hpp"
#include "topologies/link_rates.hpp"

namespace stepcast {
namespace {

// A TOML basic string. What is not printable ASCII becomes a space: names come out of files that
// others wrote.
std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') out += '\\';
    out += byte < 0x20 || byte >= 0x7f ? ' ' : c;
  }
  return out + "\"";
}

const char* truth(bool value) { return value ? "true" : "false"; }

std::string device_text(const Machine& machine, const Device& d) {
  std::string out = fmt::format("  {{ name = {}", in_quotes(d.name));
  switch (d.kind) {
    case DeviceKind::cpu:
      if (!d.product.empty()) out += fmt::format(", product = {}", in_quotes(d.product));
      out += fmt::format(", arch = {}, vendor = {}, family = {}, model = {}, numa_node = {}",
                         in_quotes(d.cpu_arch), in_quotes(d.cpu_vendor), d.cpu_family, d.cpu_model,
                         d.numa_node);
      break;
    case DeviceKind::gpu:
      if (d.gpudirect_rdma != machine.gpu.gpudirect_rdma) {
        out += fmt::format(", gpudirect_rdma = {}", truth(d.gpudirect_rdma));
      }
      break;
    case DeviceKind::nic:
      if (!d.product.empty()) out += fmt::format(", product = {}", in_quotes(d.product));
      out += fmt::format(", gbit_per_s = {}, port = {}, guid = \"{:#x}\"", d.nic_gbps * 8,
                         d.nic_port, d.nic_guid);
      if (d.nic_latency_us != 0) out += fmt::format(", latency_us = {}", d.nic_latency_us);
      out += fmt::format(", gpudirect_rdma = {}", truth(d.gpudirect_rdma));
      break;
    case DeviceKind::pcie_switch:
    case DeviceKind::nvswitch: break;
  }
  return out + " },\n";
}

std::string link_text(const std::string& a, const std::string& b, const Link& link) {
  std::string out = fmt::format("  {{ a = {}, b = {}, kind = \"{}\"", in_quotes(a), in_quotes(b),
                                to_string(link.kind));
  switch (link.kind) {
    case LinkKind::pcie:
      if (link.pcie_generation > 0) {
        out += fmt::format(", generation = {}, width = {}", link.pcie_generation, link.pcie_width);
      } else {
        out += fmt::format(", gbps = {}", link.gbps);
      }
      break;
    case LinkKind::nvlink: out += fmt::format(", count = {}", link.count); break;
    case LinkKind::c2c: out += fmt::format(", count = {}, gbps = {}", link.count, link.gbps); break;
    case LinkKind::socket:
      if (link.gbps > 0) out += fmt::format(", gbps = {}", link.gbps);
      break;
  }
  if (link.latency_us != default_latency_us(link.kind)) {
    out += fmt::format(", latency_us = {}", link.latency_us);
  }
  return out + " },\n";
}

}  // namespace

std::string to_toml(const Machine& machine, const std::vector<std::string>& comments) {
  std::string out;
  for (const std::string& comment : comments) {
    std::string line = comment;
    for (char& c : line) {
      if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f) c = ' ';
    }
    out += "# " + line + "\n";
  }
  out += fmt::format("full_name = {}\ngpu = {}\ngpus = {}\nnetwork = {}\n",
                     in_quotes(machine.full_name), in_quotes(machine.gpu.name), machine.gpus.size(),
                     in_quotes(machine.network));
  if (machine.host_memory_bytes > 0) {
    out += fmt::format("host_memory_gb = {}\n", machine.host_memory_bytes / 1e9);
  }
  out += fmt::format("source = {}\n", in_quotes(machine.source));
  const Device* cpu = host_of(machine).cpu;
  const bool pcie_p2p = cpu == nullptr ? machine.gpu.pcie_p2p : cpu->pcie_p2p;
  out += fmt::format("pcie_p2p = {}\ngpudirect_rdma = {}\n", truth(pcie_p2p),
                     truth(machine.gpu.gpudirect_rdma));
  out += "\n[graph]\ndevices = [\n";
  for (const Vertex v : boost::make_iterator_range(boost::vertices(machine.graph))) {
    out += device_text(machine, machine.graph[v]);
  }
  out += "]\nlinks = [\n";
  for (const auto edge : boost::make_iterator_range(boost::edges(machine.graph))) {
    const Device& a = machine.graph[boost::source(edge, machine.graph)];
    const Device& b = machine.graph[boost::target(edge, machine.graph)];
    out += link_text(a.name, b.name, machine.graph[edge]);
  }
  return out + "]\n";
}

}  // namespace stepcast

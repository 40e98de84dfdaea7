#include "topologies/describe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "topologies/cut.hpp"
#include "topologies/fabric.hpp"
#include "topologies/paths.hpp"

namespace stepcast {
namespace {

void row(std::string& out, std::string_view name, const std::string& value) {
  out += fmt::format("  {:<13}{}\n", name, value);
}

void end_line(std::string& out) {
  while (out.back() == ' ') out.pop_back();
  out += '\n';
}

// 989.4, 450, 15.75: no more digits than the figure has.
std::string figure(double value) { return fmt::format("{:.5g}", value); }

// "GPU - NVSwitch" and the like.
std::string end_names(const LinkGroup& group) {
  return fmt::format("{} - {}", to_string(group.a), to_string(group.b));
}

std::string link_text(const Link& link) {
  switch (link.kind) {
    case LinkKind::nvlink:
      return fmt::format("{} NVLink{}", link.count, link.count == 1 ? "" : "s");
    case LinkKind::c2c: return fmt::format("{} C2C links", link.count);
    case LinkKind::pcie: return fmt::format("Gen{} x{}", link.pcie_generation, link.pcie_width);
    case LinkKind::socket: return "socket link";
  }
  return "";
}

// A line a group: how many, between what, how fast.
void describe_links(std::string& out, const Machine& machine) {
  out += "\nLinks (GB/s in one direction, line rate; latency a hop)\n";
  for (const LinkGroup& group : link_groups(machine)) {
    const Link& link = group.link;
    out += fmt::format("  {:>3}x {:<7} {:<25} {:<12} {:>7} GB/s  {:>4} us\n", group.count,
                       to_string(link.kind), end_names(group), link_text(link),
                       link.gbps > 0 ? figure(link.gbps) : "?", figure(link.latency_us));
  }
}

void describe_paths(std::string& out, const Machine& machine) {
  constexpr std::size_t widest = 16;  // more columns do not fit a terminal
  if (machine.gpus.size() > widest) return;
  out += "\nPaths between GPUs, and the NICs nearest to each\n        ";
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    out += fmt::format("{:<6}", fmt::format("GPU{}", i));
  }
  end_line(out);
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    out += fmt::format("  {:<6}", fmt::format("GPU{}", i));
    for (const Vertex other : machine.gpus) {
      out += fmt::format("{:<6}", path_name(machine, machine.gpus[i], other));
    }
    const std::vector<int> nics = nearest_nics(machine, static_cast<int>(i));
    if (!nics.empty()) {
      const Vertex nic = machine.nics[static_cast<std::size_t>(nics.front())];
      const std::optional<Path> path = find_path(machine, machine.gpus[i], nic);
      out += fmt::format("{} to NIC {}", to_string(path->type), fmt::join(nics, ", "));
    }
    end_line(out);
  }
}

std::string host_text(const Machine& machine) {
  const auto [cpu, nodes] = host_of(machine);
  std::string text = machine.host_memory_bytes > 0
                         ? fmt::format("{:.0f} GB", machine.host_memory_bytes / 1e9)
                         : "memory not known";
  if (cpu == nullptr) return text;
  return fmt::format("{}, {} NUMA node{}, {}{}", cpu->product.empty() ? "CPU" : cpu->product, nodes,
                     nodes == 1 ? "" : "s", text,
                     cpu->pcie_p2p ? "" : ", no GPU peer access over PCIe");
}

std::string nic_text(const Machine& machine) {
  if (machine.nics.empty()) return "none";
  const Device& nic = machine.graph[machine.nics.front()];
  return fmt::format(
      "{}x {}, {} Gb/s ({} GB/s) each, {}, GPUDirect RDMA {}", machine.nics.size(),
      nic.product.empty() ? "NIC" : nic.product, figure(nic.nic_gbps * 8), figure(nic.nic_gbps),
      machine.network,
      nic.gpudirect_rdma && machine.gpu.gpudirect_rdma ? "possible" : "not possible");
}

std::string bisection_text(const Machine& machine) {
  const std::optional<Bisection> all = bisection(machine);
  if (!all) return "";
  std::string text = fmt::format("{} GB/s a direction over all links", figure(all->gbps));
  const std::optional<Bisection> nvlink = bisection(machine, {LinkKind::nvlink});
  if (nvlink->gbps > 0) text += fmt::format(", {} over NVLink alone", figure(nvlink->gbps));
  if (!all->exact) text += " (over halves of neighbours only)";
  return text;
}

}  // namespace

std::string source_of(const Gpu& gpu, std::string_view group) {
  for (const auto& [name, source] : gpu.sources) {
    if (name == group) return source;
  }
  return "";
}

std::vector<LinkGroup> link_groups(const Machine& machine) {
  // By what a line of text says of them, so that two lines are never the same.
  using Key = std::tuple<LinkKind, std::string, std::string, double, double>;
  std::map<Key, LinkGroup> groups;
  for (const auto edge : boost::make_iterator_range(boost::edges(machine.graph))) {
    LinkGroup one;
    one.link = machine.graph[edge];
    one.a = machine.graph[boost::source(edge, machine.graph)].kind;
    one.b = machine.graph[boost::target(edge, machine.graph)].kind;
    if (one.b < one.a) std::swap(one.a, one.b);
    LinkGroup& group = groups
                           .insert({{one.link.kind, end_names(one), link_text(one.link),
                                     one.link.gbps, one.link.latency_us},
                                    one})
                           .first->second;
    ++group.count;
  }
  std::vector<LinkGroup> list;
  for (const auto& [key, group] : groups) list.push_back(group);
  return list;
}

Host host_of(const Machine& machine) {
  Host host;
  for (const Vertex vertex : boost::make_iterator_range(boost::vertices(machine.graph))) {
    if (machine.graph[vertex].kind != DeviceKind::cpu) continue;
    host.cpu = &machine.graph[vertex];
    ++host.numa_nodes;
  }
  return host;
}

std::string path_name(const Machine& machine, Vertex a, Vertex b) {
  if (a == b) return "X";
  const std::optional<Path> path = find_path(machine, a, b);
  if (!path) return "-";
  if (path->type != PathType::nvlink) return std::string(to_string(path->type));
  int links = 0;
  for (const auto edge :
       boost::make_iterator_range(boost::out_edges(path->vertices[0], machine.graph))) {
    if (boost::target(edge, machine.graph) == path->vertices[1] &&
        machine.graph[edge].kind == LinkKind::nvlink) {
      links += machine.graph[edge].count;
    }
  }
  return fmt::format("NV{}", links);
}

std::string describe(const Gpu& gpu) {
  std::string out = fmt::format("{}: {}\n", gpu.name, gpu.full_name);
  const auto sourced = [&out, &gpu](std::string_view name, const std::string& value,
                                    std::string_view group) {
    row(out, name, value);
    row(out, "", fmt::format("[{}]", source_of(gpu, group)));
  };
  sourced("processor",
          fmt::format("compute capability {}.{}, {} SMs, {} MHz boost", gpu.compute_capability / 10,
                      gpu.compute_capability % 10, gpu.sm_count, figure(gpu.boost_mhz)),
          "processor");
  std::string peaks;
  const auto peak = [&peaks](const char* name, const std::optional<double>& flops) {
    const std::string text = flops ? figure(*flops / 1e12) : "none";
    peaks += fmt::format("{}{} {}", peaks.empty() ? "" : ", ", name, text);
  };
  peak("fp64", gpu.peak_fp64);
  peak("fp32", gpu.peak_fp32);
  peak("tf32", gpu.peak_tf32);
  peak("fp16", gpu.peak_fp16);
  peak("bf16", gpu.peak_bf16);
  peak("fp8", gpu.peak_fp8);
  sourced("dense peak", peaks + " TFLOP/s", "dense_tflops");
  sourced("memory",
          fmt::format("{:.2f} GiB ({:.2f} GB) usable, {} GB/s, L2 {} MiB",
                      static_cast<double>(gpu.memory_bytes) / static_cast<double>(gib),
                      static_cast<double>(gpu.memory_bytes) / 1e9, figure(gpu.memory_gbps),
                      figure(gpu.l2_mib)),
          "memory");
  if (gpu.nvlinks > 0) {
    sourced("NVLink",
            fmt::format("{} links of {} GB/s a direction, {} GB/s together", gpu.nvlinks,
                        figure(gpu.nvlink_gbps), figure(gpu.nvlink_gbps * gpu.nvlinks)),
            "nvlink");
  } else {
    row(out, "NVLink", "none");
  }
  if (gpu.c2c_links > 0) {
    sourced("C2C", fmt::format("{} GB/s a direction to the CPU", figure(gpu.c2c_gbps)), "c2c");
  }
  sourced("PCIe",
          fmt::format("Gen{} x{}{}", gpu.pcie_generation, gpu.pcie_width,
                      gpu.pcie_p2p ? "" : ", no peer access"),
          "pcie");
  sourced("power", fmt::format("{} W", figure(gpu.power_watts)), "power");
  return out;
}

std::string describe(const Machine& machine) {
  std::string out = fmt::format("{}: {}\n", machine.name, machine.full_name);
  row(out, "GPUs", fmt::format("{}x {}", machine.gpus.size(), machine.gpu.full_name));
  row(out, "host", host_text(machine));
  row(out, "NICs", nic_text(machine));
  const std::string cut = bisection_text(machine);
  if (!cut.empty()) row(out, "bisection", cut);
  row(out, "source", machine.source);
  describe_links(out, machine);
  describe_paths(out, machine);
  if (machine.gpu.sm_count > 0) out += "\nGPU " + describe(machine.gpu);  // else nobody named it
  return out;
}

std::string describe(const Cluster& cluster) {
  std::string out = fmt::format("{} GPU{} on {} {} node{}", cluster.world_size,
                                cluster.world_size == 1 ? "" : "s", cluster.nodes,
                                cluster.machine.name, cluster.nodes == 1 ? "" : "s");
  const int last = cluster.ranks_on(cluster.nodes - 1);
  if (cluster.nodes > 1 && last != cluster.gpus_per_node)
    out += fmt::format(" ({} on the last)", last);
  if (cluster.nodes == 1) return out;
  const Fabric& fabric = cluster.fabric;
  out += fmt::format(", {} {}, {} leaf switch{}", fabric.network, to_string(fabric.kind),
                     leaf_count(cluster), leaf_count(cluster) == 1 ? "" : "es");
  if (fabric.oversubscription > 1) out += fmt::format(" {}:1", figure(fabric.oversubscription));
  out += fmt::format(", {} GB/s a NIC", figure(nic_gbps(cluster, ring_crossing(cluster))));
  if (!fabric.gpudirect_rdma) out += ", no GPUDirect RDMA";
  return out;
}

}  // namespace stepcast

#include "sim/collectives/nccl/system.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.hpp"
#include "sim/collectives/nccl/link_speeds.hpp"
#include "sim/collectives/nccl/paths.hpp"

namespace stepcast::nccl {

// Links of a node are kept in NCCL's order, because its searches take the first of equals: by
// speed, fastest first, equals in the order they were made; then PCIe down before PCIe up.
class SystemBuilder {
 public:
  SystemBuilder(System& system, const Machine& machine, const std::vector<int>& local_gpus,
                const SystemOptions& options)
      : s_(system), machine_(machine), local_gpus_(local_gpus), options_(options) {}

  void build() {
    std::vector<Vertex> cpus;
    for (const Vertex v : boost::make_iterator_range(boost::vertices(machine_.graph))) {
      if (machine_.graph[v].kind == DeviceKind::cpu) cpus.push_back(v);
    }
    for (const Vertex cpu : in_order(cpus, nowhere)) add_tree(cpu);
    STEPCAST_ASSERT(s_.gpus.size() == local_gpus_.size(), "a GPU that hangs on no CPU");
    add_nvlinks();
    add_c2c();
    connect_cpus();
    for (const SystemVertex cpu : s_.cpus) order_pcie(cpu, cpu);
    move_links_to_graph();
  }

 private:
  struct Pending {
    SystemVertex to;
    PathType type;
    double gbps;
  };

  SystemVertex add(Node node) {
    const SystemVertex v = boost::add_vertex(node, s_.graph);
    pending_.emplace_back();
    return v;
  }

  void connect_one_way(SystemVertex from, SystemVertex to, PathType type, double gbps) {
    std::vector<Pending>& list = pending_[from];
    auto at = std::find_if(list.begin(), list.end(),
                           [&](const Pending& p) { return p.to == to && p.type == type; });
    if (at == list.end()) at = list.insert(list.end(), Pending{to, type, 0});
    at->gbps += gbps;
    for (; at != list.begin() && (at - 1)->gbps < at->gbps; --at) std::iter_swap(at - 1, at);
  }

  void connect(SystemVertex a, SystemVertex b, PathType type, double gbps) {
    connect_one_way(a, b, type, gbps);
    connect_one_way(b, a, type, gbps);
  }

  static constexpr Vertex nowhere = static_cast<Vertex>(-1);

  // Devices are taken by the lowest GPU they are or lead to, then by the lowest NIC, then by their
  // own number: the PCI order where GPUs are numbered as CUDA does. The order in which a machine
  // lists them does not matter.
  using Rank = std::tuple<int, int, int>;
  Rank rank_of(Vertex v, Vertex parent) const {
    constexpr int none = 1 << 30;
    const Device& d = machine_.graph[v];
    Rank rank{none, none, d.index};
    if (d.kind == DeviceKind::gpu) std::get<0>(rank) = d.index;
    if (d.kind == DeviceKind::nic) std::get<1>(rank) = d.index;
    if (d.kind != DeviceKind::cpu && d.kind != DeviceKind::pcie_switch) return rank;
    for (const Vertex child : children_of(v, parent)) {
      const Rank below = rank_of(child, v);
      std::get<0>(rank) = std::min(std::get<0>(rank), std::get<0>(below));
      std::get<1>(rank) = std::min(std::get<1>(rank), std::get<1>(below));
    }
    return rank;
  }

  std::vector<Vertex> children_of(Vertex v, Vertex parent) const {
    std::vector<Vertex> children;
    for (const auto edge : boost::make_iterator_range(boost::out_edges(v, machine_.graph))) {
      const Vertex child = boost::target(edge, machine_.graph);
      const bool down = machine_.graph[child].kind != DeviceKind::cpu && child != parent;
      if (machine_.graph[edge].kind == LinkKind::pcie && down) children.push_back(child);
    }
    return children;
  }

  std::vector<Vertex> in_order(const std::vector<Vertex>& devices, Vertex parent) const {
    std::vector<std::pair<Rank, Vertex>> ranked;
    for (const Vertex v : devices) ranked.emplace_back(rank_of(v, parent), v);
    std::sort(ranked.begin(), ranked.end());
    std::vector<Vertex> out;
    for (const auto& [rank, v] : ranked) out.push_back(v);
    return out;
  }

  bool used(const Device& gpu) const {
    return std::find(local_gpus_.begin(), local_gpus_.end(), gpu.index) != local_gpus_.end();
  }

  // A CPU and the PCIe tree below it, children before their link up.
  void add_tree(Vertex cpu) {
    const Device& device = machine_.graph[cpu];
    Node node;
    node.kind = NodeKind::cpu;
    node.index = static_cast<int>(s_.cpus.size());
    node.arch = cpu_arch_of(device.cpu_arch);
    node.vendor = cpu_vendor_of(device.cpu_vendor);
    node.p2p = device.pcie_p2p;
    node.of_machine = cpu;
    const SystemVertex v = add(node);
    s_.cpus.push_back(v);
    of_machine_[cpu] = v;
    add_children(cpu, nowhere, v);
  }

  void add_children(Vertex parent, Vertex grandparent, SystemVertex parent_node) {
    std::map<std::uint64_t, SystemVertex> nic_of_guid;  // ports of one NIC share its PCIe link
    for (const Vertex child : in_order(children_of(parent, grandparent), grandparent)) {
      const Link& link = pcie_link(child, parent);
      const Device& device = machine_.graph[child];
      const double gbps =
          link.pcie_generation > 0 ? pcie_gbps(link.pcie_generation, link.pcie_width) : local_gbps;
      switch (device.kind) {
        case DeviceKind::gpu:
          if (used(device)) connect(add_gpu(child, device), parent_node, PathType::pix, gbps);
          break;
        case DeviceKind::nic: {
          if (!options_.across_nodes) break;
          const auto known = nic_of_guid.find(device.nic_guid);
          if (device.nic_guid != 0 && known != nic_of_guid.end()) {
            add_net(child, device, known->second);
            break;
          }
          Node node;
          node.kind = NodeKind::nic;
          node.of_machine = child;
          const SystemVertex nic = add(node);
          nic_of_guid[device.nic_guid] = nic;
          add_net(child, device, nic);
          connect(nic, parent_node, PathType::pix, gbps);
          break;
        }
        case DeviceKind::pcie_switch: {
          Node node;
          node.kind = NodeKind::pci;
          node.of_machine = child;
          const SystemVertex v = add(node);
          of_machine_[child] = v;
          add_children(child, parent, v);
          connect(v, parent_node, PathType::pix, gbps);
          break;
        }
        case DeviceKind::cpu:
        case DeviceKind::nvswitch: break;
      }
    }
  }

  // Grace Hopper has a C2C link beside it.
  const Link& pcie_link(Vertex a, Vertex b) const {
    for (const auto edge : boost::make_iterator_range(boost::out_edges(a, machine_.graph))) {
      const bool there = boost::target(edge, machine_.graph) == b;
      if (there && machine_.graph[edge].kind == LinkKind::pcie) return machine_.graph[edge];
    }
    STEPCAST_ASSERT(false, "no PCIe link");
  }

  SystemVertex add_gpu(Vertex vertex, const Device& device) {
    Node node;
    node.kind = NodeKind::gpu;
    node.index = static_cast<int>(s_.gpus.size());
    node.device = device.index;
    node.of_machine = vertex;
    node.compute_capability = machine_.gpu.compute_capability;
    node.gdr = device.gpudirect_rdma;
    const SystemVertex v = add(node);
    s_.gpus.push_back(v);
    of_machine_[vertex] = v;
    return v;
  }

  void add_net(Vertex vertex, const Device& device, SystemVertex nic) {
    Node node;
    node.kind = NodeKind::net;
    node.index = static_cast<int>(s_.nets.size());
    node.device = device.index;
    node.of_machine = vertex;
    node.gbps = options_.nic_gbps > 0 ? options_.nic_gbps : device.nic_gbps;
    node.asic = device.nic_guid != 0 ? device.nic_guid : (std::uint64_t{1} << 63) + device.index;
    node.port = device.nic_port;
    node.latency_us = device.nic_latency_us;
    node.gdr = device.gpudirect_rdma && options_.gpudirect_rdma;
    const SystemVertex net = add(node);
    s_.nets.push_back(net);
    connect(nic, net, PathType::net, node.gbps);
  }

  void add_nvlinks() {
    using Bundle = std::tuple<int, int, Vertex, Vertex, int>;  // GPU, peer, their vertices, links
    std::vector<Bundle> bundles;
    for (const auto edge : boost::make_iterator_range(boost::edges(machine_.graph))) {
      const Link& link = machine_.graph[edge];
      if (link.kind != LinkKind::nvlink) continue;
      Vertex a = boost::source(edge, machine_.graph);
      Vertex b = boost::target(edge, machine_.graph);
      const auto later = [&](Vertex v) {
        const Device& d = machine_.graph[v];
        return std::pair(d.kind == DeviceKind::nvswitch, d.index);
      };
      if (later(a) > later(b)) std::swap(a, b);
      bundles.emplace_back(machine_.graph[a].index, machine_.graph[b].index, a, b, link.count);
    }
    std::sort(bundles.begin(), bundles.end());
    const double link_gbps = nvlink_gbps(machine_.gpu.compute_capability);
    for (const auto& [gpu, peer, a, b, count] : bundles) {
      if (!of_machine_.count(a)) continue;  // a GPU outside the communicator
      const double gbps = count * link_gbps;
      if (machine_.graph[b].kind == DeviceKind::nvswitch) {
        connect(of_machine_[a], switch_node(b), PathType::nvl, gbps);
      } else if (a == b) {
        connect_one_way(of_machine_[a], of_machine_[b], PathType::nvl, gbps);
      } else if (of_machine_.count(b)) {
        connect(of_machine_[a], of_machine_[b], PathType::nvl, gbps);
      }
    }
  }

  SystemVertex switch_node(Vertex hub) {  // all switches of a node are one
    if (s_.nvs.empty()) {
      Node node;
      node.kind = NodeKind::nvs;
      node.of_machine = hub;
      s_.nvs.push_back(add(node));
    }
    return s_.nvs.front();
  }

  void add_c2c() {
    for (const auto edge : boost::make_iterator_range(boost::edges(machine_.graph))) {
      const Link& link = machine_.graph[edge];
      const auto a = of_machine_.find(boost::source(edge, machine_.graph));
      const auto b = of_machine_.find(boost::target(edge, machine_.graph));
      if (link.kind != LinkKind::c2c || a == of_machine_.end() || b == of_machine_.end()) continue;
      connect(a->second, b->second, PathType::c2c, link.gbps);
    }
  }

  // NCCL joins every two CPUs and takes the speed from the model, not from the board.
  void connect_cpus() {
    for (const SystemVertex cpu : s_.cpus) {
      const Device& d = machine_.graph[s_.graph[cpu].of_machine];
      const double gbps = socket_gbps(cpu_arch_of(d.cpu_arch), cpu_vendor_of(d.cpu_vendor),
                                      d.cpu_family, d.cpu_model);
      for (const SystemVertex other : s_.cpus) {
        if (other != cpu) connect_one_way(cpu, other, PathType::sys, gbps);
      }
    }
  }

  void order_pcie(SystemVertex v, SystemVertex up) {
    std::vector<Pending>& list = pending_[v];
    if (up != v) {
      // The first link to the parent goes last.
      const auto first =
          std::find_if(list.begin(), list.end(), [&](const Pending& p) { return p.to == up; });
      if (first != list.end()) std::rotate(first, first + 1, list.end());
    }
    for (const Pending& p : std::vector<Pending>(list)) {
      if (p.type == PathType::pix && p.to != up) order_pcie(p.to, v);
    }
  }

  void move_links_to_graph() {
    std::map<std::pair<std::pair<SystemVertex, SystemVertex>, PathType>, int> ids;
    for (SystemVertex from = 0; from < pending_.size(); ++from) {
      for (const Pending& p : pending_[from]) {
        const int id = static_cast<int>(s_.links.size());
        boost::add_edge(from, p.to, SystemLink{id, p.type, p.gbps}, s_.graph);
        s_.links.push_back({from, p.to, p.type, static_cast<float>(p.gbps), -1});
        ids[{{from, p.to}, p.type}] = id;
      }
    }
    for (FlatLink& link : s_.links) {
      const auto back = ids.find({{link.to, link.from}, link.type});
      if (back != ids.end()) link.reverse = back->second;
    }
  }

  System& s_;
  const Machine& machine_;
  const std::vector<int>& local_gpus_;
  const SystemOptions& options_;
  std::vector<std::vector<Pending>> pending_;
  std::map<Vertex, SystemVertex> of_machine_;
};

System::System(const Machine& machine, const std::vector<int>& local_gpus, SystemOptions options) {
  limits = options.limits;
  SystemBuilder(*this, machine, local_gpus, options).build();
  find_paths(*this);
  if (nets.empty() && gpus.size() == 1) {
    max_gbps = total_gbps = local_gbps;
    return;
  }
  for (const SystemVertex gpu : gpus) {
    for (const SystemVertex to : nets.empty() ? gpus : nets) {
      if (path(gpu, to).hops() > 0) {
        max_gbps = std::max(max_gbps, static_cast<double>(path(gpu, to).gbps));
      }
    }
    double nvlink = 0;
    double pcie = 0;
    for (const auto edge : boost::make_iterator_range(boost::out_edges(gpu, graph))) {
      if (graph[edge].type == PathType::nvl) nvlink += graph[edge].gbps;
      if (graph[edge].type == PathType::pix) pcie = graph[edge].gbps;
    }
    total_gbps = std::max({total_gbps, nvlink, pcie});
  }
}

int System::min_compute_capability() const {
  int least = graph[gpus.front()].compute_capability;
  for (const SystemVertex gpu : gpus) least = std::min(least, graph[gpu].compute_capability);
  return least;
}

CpuArch System::arch() const { return graph[cpus.front()].arch; }

CpuVendor System::vendor() const { return graph[cpus.front()].vendor; }

int System::local_cpu(int gpu) const {
  int best = -1;
  int fewest = 0;
  for (std::size_t c = 0; c < cpus.size(); ++c) {
    const int hops = path(gpus[gpu], cpus[c]).hops();
    if (hops > 0 && (best < 0 || hops < fewest)) {
      best = static_cast<int>(c);
      fewest = hops;
    }
  }
  return best;
}

}  // namespace stepcast::nccl

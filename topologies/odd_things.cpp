#include "topologies/odd_things.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "topologies/paths.hpp"

namespace stepcast {
namespace {

constexpr PathType farthest_direct = PathType::pcie_switches;  // NCCL's PXB: for P2P and for GDR

std::string list(const char* kind, const std::vector<int>& numbers) {
  return fmt::format("{}{} {}", kind, numbers.size() == 1 ? "" : "s", fmt::join(numbers, ", "));
}

class Checker {
 public:
  explicit Checker(const Machine& machine) : m_(machine) {}

  std::vector<OddThing> run() {
    near_nics();
    peers();
    pcie_links();
    gpudirect();
    rails();
    nvlinks();
    return std::move(found_);
  }

 private:
  void say(std::string what, std::string why) {
    found_.push_back({std::move(what), std::move(why)});
  }

  int gpu_count() const { return static_cast<int>(m_.gpus.size()); }

  void near_nics() {
    if (m_.nics.empty()) return;
    std::map<PathType, std::vector<int>> far;
    for (int g = 0; g < gpu_count(); ++g) {
      const std::vector<int> nics = nearest_nics(m_, g);
      if (nics.empty()) {
        say(list("GPU", {g}) + " reaches no NIC", "it can only work on one node");
        continue;
      }
      const auto path = find_path(m_, m_.gpus[g], m_.nics[static_cast<std::size_t>(nics.front())]);
      if (path->type > farthest_direct && path->type != PathType::c2c_pcie) {
        far[path->type].push_back(g);
      }
    }
    for (const auto& [type, gpus] : far) {
      say(fmt::format("{}: no near NIC, the nearest is {} away", list("GPU", gpus),
                      to_string(type)),
          "traffic between nodes goes through a neighbour over NVLink (PXN) or through host "
          "memory");
    }
  }

  // GPUs that cannot write each other's memory, as pairs by the reason.
  void peers() {
    std::map<PathType, std::vector<std::string>> pairs;
    int refused = 0;
    bool bridge_allows = m_.gpu.pcie_p2p;
    for (const Vertex v : boost::make_iterator_range(boost::vertices(m_.graph))) {
      if (m_.graph[v].kind == DeviceKind::cpu)
        bridge_allows = bridge_allows && m_.graph[v].pcie_p2p;
    }
    for (int a = 0; a < gpu_count(); ++a) {
      for (int b = a + 1; b < gpu_count(); ++b) {
        const std::optional<Path> path = find_path(m_, m_.gpus[a], m_.gpus[b]);
        if (!path || path->type <= PathType::nvlink) continue;
        if (find_path(m_, m_.gpus[a], m_.gpus[b], Transit::nvlink_gpus)) continue;  // NVB
        if (!bridge_allows) ++refused;
        if (path->type > farthest_direct) {
          pairs[path->type].push_back(fmt::format("{}-{}", a, b));
        }
      }
    }
    if (refused > 0) {
      say(fmt::format("{} pair{} of GPUs: the driver refuses peer access over PCIe", refused,
                      refused == 1 ? "" : "s"),
          "NCCL copies through host memory (SHM)");
    }
    for (const auto& [type, named] : pairs) {
      const std::size_t shown = std::min<std::size_t>(named.size(), 8);
      const std::vector<std::string> first(named.begin(),
                                           named.begin() + static_cast<std::ptrdiff_t>(shown));
      say(fmt::format(
              "no P2P between GPUs {}{}: {} away", fmt::join(first, ", "),
              named.size() > shown ? fmt::format(" and {} more pairs", named.size() - shown) : "",
              to_string(type)),
          "NCCL goes direct up to PXB only (NCCL_P2P_LEVEL); beyond, through host memory");
    }
  }

  // The best link of each kind of device is what the others are measured by; for GPUs the part.
  void pcie_links() {
    const auto each = [this](const auto& visit) {
      for (const auto edge : boost::make_iterator_range(boost::edges(m_.graph))) {
        const Link& link = m_.graph[edge];
        if (link.kind != LinkKind::pcie || link.pcie_generation == 0) continue;
        visit(m_.graph[boost::source(edge, m_.graph)], m_.graph[boost::target(edge, m_.graph)],
              link);
      }
    };
    std::map<DeviceKind, int> widest;
    std::map<DeviceKind, int> newest;
    if (m_.gpu.pcie_generation > 0) {
      widest[DeviceKind::gpu] = m_.gpu.pcie_width;
      newest[DeviceKind::gpu] = m_.gpu.pcie_generation;
    }
    each([&](const Device& a, const Device&, const Link& link) {
      widest[a.kind] = std::max(widest[a.kind], link.pcie_width);
      newest[a.kind] = std::max(newest[a.kind], link.pcie_generation);
    });
    each([&](const Device& a, const Device& b, const Link& link) {
      if (link.pcie_width < widest[a.kind]) {
        say(fmt::format("{} - {}: x{} instead of x{}", a.name, b.name, link.pcie_width,
                        widest[a.kind]),
            fmt::format("{:.3g} GB/s are left; a riser, a slot or a bad contact", link.gbps));
      }
      if (a.kind != DeviceKind::pcie_switch && link.pcie_generation < newest[a.kind]) {
        say(fmt::format("{} - {}: Gen{} instead of Gen{}", a.name, b.name, link.pcie_generation,
                        newest[a.kind]),
            fmt::format("{:.3g} GB/s are left; the host, a riser, or power saving while idle",
                        link.gbps));
      }
    });
    // A NIC behind a narrower link than its port.
    each([&](const Device& a, const Device&, const Link& link) {
      if (a.kind == DeviceKind::nic && a.nic_gbps > link.gbps * 1.001) {
        say(fmt::format("{}: {:.4g} Gb/s on Gen{} x{}", a.name, a.nic_gbps * 8,
                        link.pcie_generation, link.pcie_width),
            fmt::format("PCIe gives it {:.4g} Gb/s at most", link.gbps * 8));
      }
    });
  }

  void gpudirect() {
    if (m_.nics.empty()) return;
    std::vector<int> gpus, nics;
    for (int g = 0; g < gpu_count(); ++g) {
      if (!m_.graph[m_.gpus[g]].gpudirect_rdma || !m_.gpu.gpudirect_rdma) gpus.push_back(g);
    }
    for (std::size_t n = 0; n < m_.nics.size(); ++n) {
      if (!m_.graph[m_.nics[n]].gpudirect_rdma) nics.push_back(static_cast<int>(n));
    }
    const char* why = "traffic between nodes goes through host memory";
    if (!gpus.empty()) say(list("GPU", gpus) + ": no GPUDirect RDMA", why);
    if (!nics.empty()) say(list("NIC", nics) + ": no GPUDirect RDMA", why);
  }

  void rails() {
    if (m_.nics.empty()) return;
    std::set<double> speeds;
    for (const Vertex nic : m_.nics) speeds.insert(m_.graph[nic].nic_gbps * 8);
    if (speeds.size() > 1) {
      say(fmt::format("NICs of {} Gb/s", fmt::join(speeds, ", ")),
          "rings take the slowest rail's pace");
    }
    const int nics = static_cast<int>(m_.nics.size());
    if (nics < gpu_count() && gpu_count() % nics != 0) {
      say(fmt::format("{} GPUs share {} NICs", gpu_count(), nics), "some rails carry more");
    } else if (nics > gpu_count() && nics % gpu_count() != 0) {
      say(fmt::format("{} NICs serve {} GPUs", nics, gpu_count()), "some rails carry less");
    }
    std::map<std::pair<PathType, std::size_t>, std::vector<int>> alike;
    for (int g = 0; g < gpu_count(); ++g) {
      const std::vector<int> near = nearest_nics(m_, g);
      if (near.empty()) continue;
      const auto path = find_path(m_, m_.gpus[g], m_.nics[static_cast<std::size_t>(near.front())]);
      alike[{path->type, near.size()}].push_back(g);
    }
    if (alike.size() < 2) return;
    std::string text;
    for (const auto& [place, gpus] : alike) {
      text += fmt::format("{}{} {} of {}", text.empty() ? "" : "; ", list("GPU", gpus),
                          to_string(place.first),
                          place.second == 1 ? "one NIC" : fmt::format("{} NICs", place.second));
    }
    say("asymmetric rails: " + text, "ranks differ in their way to the network");
  }

  void nvlinks() {
    std::map<int, std::vector<int>> by_count;
    for (int g = 0; g < gpu_count(); ++g) {
      int links = 0;
      for (const auto edge : boost::make_iterator_range(boost::out_edges(m_.gpus[g], m_.graph))) {
        if (m_.graph[edge].kind == LinkKind::nvlink) links += m_.graph[edge].count;
      }
      by_count[links].push_back(g);
    }
    if (by_count.size() < 2) return;
    std::string text;
    for (const auto& [links, gpus] : by_count) {
      text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", list("GPU", gpus), links);
    }
    say("unequal numbers of NVLinks: " + text, "rings are as fast as the GPU with the fewest");
  }

  const Machine& m_;
  std::vector<OddThing> found_;
};

}  // namespace

std::vector<OddThing> odd_things(const Machine& machine) { return Checker(machine).run(); }

}  // namespace stepcast

// The matrix of `nvidia-smi topo -m` says how far every two devices are apart, not what lies
// between them. A tree that gives the same distances is built from it:
//
//         GPU0  GPU1  GPU2  NIC0   CPU Affinity
//   GPU0   X    NV4   SYS   PXB    0-15            cpu0 ─ switch ┬ switch ─ gpu0
//   GPU1  NV4    X    SYS   SYS    0-15                          └ switch ─ nic0
//   GPU2  SYS   SYS    X    SYS    16-31           cpu0 ─ gpu1    cpu1 ─ gpu2
//   NIC0  PXB   SYS   SYS    X
//
//   * PIX: below one switch. PXB: below switches that share one. PHB and NODE: on one CPU (a NUMA
//     node's host bridges are one to NCCL, so the two are the same here). SYS or SOC: on two CPUs.
//   * NV# hides where two GPUs sit; their affinity columns tell, unless a cell contradicts.
//   * NV#, the same between all GPUs and more than a GPU has for so many peers: NVSwitch, and # are
//     a GPU's links to it. Else it is the number of links between the two.
//
// How the text becomes a matrix: smi_matrix.cpp. The GPU's model and the NICs' speeds are not in it
// and must be given. Source: docs/sources.md, NVIDIA driver.

#include "topologies/importers/smi.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "topologies/importers/smi_matrix.hpp"
#include "topologies/machine_builder.hpp"
#include "topologies/paths.hpp"

namespace stepcast {
namespace {

class MachineOfMatrix {
 public:
  MachineOfMatrix(SmiMatrix matrix, const std::string& file, const ImportOptions& options)
      : m_(std::move(matrix)), file_(file), options_(options) {}

  Imported read() {
    load_gpu_part();
    choose_nics();
    group();
    Imported out;
    out.machine = build();
    check_distances(out.machine);
    out.machine.source = "nvidia-smi topo -m, " + file_;
    out.machine.network = network();
    out.notes = notes_;
    return out;
  }

 private:
  InputError error(const std::string& message) const {
    return InputError({file_, m_.header_line, ""}, message);
  }

  void load_gpu_part() {
    gpus_ = static_cast<int>(std::count(m_.gpu.begin(), m_.gpu.end(), true));
    for (std::size_t i = 0; i < m_.names.size(); ++i) {
      if (m_.gpu[i]) devices_.push_back(i);
    }
    if (options_.gpu.empty()) {
      throw error(fmt::format("lists {} GPUs without their model; give --gpu {}", gpus_,
                              importing::gpus_for(0)));
    }
    gpu_ = load_gpu(options_.gpu);
  }

  void choose_nics() {
    std::vector<std::size_t> nics;
    for (std::size_t i = 0; i < m_.names.size(); ++i) {
      if (!m_.gpu[i]) nics.push_back(i);
    }
    if (nics.empty()) return;
    if (options_.nic_gbit.empty()) {
      throw error(
          fmt::format("lists {} NICs without their speed; give --nic-speed GBIT (one for "
                      "all, or one each with commas; 0 leaves a NIC out)",
                      nics.size()));
    }
    for (std::size_t k = 0; k < nics.size(); ++k) {
      const double gbit = importing::nic_gbit_of(options_, file_, k, nics.size());
      if (gbit <= 0) {
        notes_.push_back(fmt::format("{} is left out (speed 0)", nic_name(nics[k])));
        continue;
      }
      devices_.push_back(nics[k]);
      gbit_[nics[k]] = gbit;
    }
  }

  std::string nic_name(std::size_t i) const {
    const auto named = m_.legend.find(m_.names[i]);
    return named == m_.legend.end() ? m_.names[i] : named->second;
  }

  std::string network() {
    if (gbit_.empty()) return "none";
    for (const auto& [i, gbit] : gbit_) {
      const std::string by_name = importing::network_of(nic_name(i));
      if (!by_name.empty()) return by_name;
    }
    if (options_.network.empty()) {
      notes_.push_back(
          "the NICs' names do not say which network: infiniband assumed; --network "
          "says otherwise");
    }
    return "infiniband";
  }

  // ---- groups: devices on one CPU, below one set of switches, below one switch
  static std::size_t root(std::vector<std::size_t>& parent, std::size_t i) {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
  }

  template <typename Joined>
  std::vector<std::size_t> join(const Joined& joined) const {
    std::vector<std::size_t> parent(m_.names.size());
    std::iota(parent.begin(), parent.end(), std::size_t{0});
    for (const std::size_t a : devices_) {
      for (const std::size_t b : devices_) {
        if (a != b && joined(m_.cells[a][b].near)) parent[root(parent, a)] = root(parent, b);
      }
    }
    for (std::size_t i = 0; i < parent.size(); ++i) parent[i] = root(parent, i);
    return parent;
  }

  void group() {
    below_one_switch_ = join([](Near n) { return n == Near::pix; });
    below_switches_ = join([](Near n) { return n == Near::pix || n == Near::pxb; });
    on_cpu_ = join([](Near n) {
      return n == Near::pix || n == Near::pxb || n == Near::phb || n == Near::node;
    });
    // GPUs whose distance NVLink hides: the affinity columns, where no cell says SYS.
    for (const std::size_t a : devices_) {
      for (const std::size_t b : devices_) {
        if (a >= b || !m_.gpu[a] || !m_.gpu[b] || on_cpu_[a] == on_cpu_[b]) continue;
        const bool hidden = m_.cells[a][b].near == Near::nvlink;
        if (hidden && m_.affinity[a] == m_.affinity[b] && !apart(on_cpu_[a], on_cpu_[b])) {
          const std::size_t from = on_cpu_[a];
          const std::size_t to = on_cpu_[b];
          std::replace(on_cpu_.begin(), on_cpu_.end(), from, to);
        }
      }
    }
  }

  bool apart(std::size_t group_a, std::size_t group_b) const {
    for (const std::size_t a : devices_) {
      for (const std::size_t b : devices_) {
        if (on_cpu_[a] == group_a && on_cpu_[b] == group_b && m_.cells[a][b].near == Near::sys) {
          return true;
        }
      }
    }
    return false;
  }

  bool shares(const std::vector<std::size_t>& groups, std::size_t i) const {
    return std::any_of(devices_.begin(), devices_.end(),
                       [&](std::size_t other) { return other != i && groups[other] == groups[i]; });
  }

  // ---- the machine
  Machine build() {
    MachineBuilder builder(gpu_);
    std::map<std::size_t, Vertex> cpus, outer, inner;
    int next_gpu = 0;
    int next_nic = 0;
    Device cpu;
    const std::string host = options_.cpu.empty() ? importing::usual_host(gpu_) : options_.cpu;
    if (options_.cpu.empty() && gpu_.c2c_links == 0) {
      notes_.push_back(
          "the CPU is not in the text: an AMD EPYC host assumed; --cpu says otherwise");
    }
    importing::set_host(cpu, host);
    cpu.pcie_p2p = gpu_.pcie_p2p;
    const int generation = gpu_.pcie_generation;
    notes_.push_back(fmt::format("PCIe links are not in the text: Gen{} x{} assumed, as {} has",
                                 generation, gpu_.pcie_width, gpu_.name));
    for (const std::size_t i : devices_) {
      const std::size_t group = on_cpu_[i];
      if (cpus.count(group) == 0) cpus[group] = builder.add_cpu(cpu);
      Vertex parent = cpus[group];
      const bool one = shares(below_one_switch_, i);
      const bool several = std::any_of(devices_.begin(), devices_.end(), [&](std::size_t other) {
        return below_switches_[other] == below_switches_[i] &&
               below_one_switch_[other] != below_one_switch_[i];
      });
      if (several) {
        const std::size_t key = below_switches_[i];
        if (outer.count(key) == 0) outer[key] = builder.add_pcie_switch(parent, generation, 16);
        parent = outer[key];
      }
      if (one || several) {
        const std::size_t key = below_one_switch_[i];
        if (inner.count(key) == 0) inner[key] = builder.add_pcie_switch(parent, generation, 16);
        parent = inner[key];
      }
      if (m_.gpu[i]) {
        builder.add_gpu(next_gpu++, parent, generation, gpu_.pcie_width);
      } else {
        Device nic;
        nic.product = nic_name(i);
        nic.nic_gbps = gbit_.at(i) / 8;
        nic.nic_guid = 0x1000 + static_cast<std::uint64_t>(next_nic);
        nic.gpudirect_rdma = importing::network_of(nic.product) != "ethernet";
        builder.add_nic(next_nic++, parent, std::move(nic), generation, 16);
      }
    }
    add_nvlinks(builder);
    return builder.finish(0);
  }

  void add_nvlinks(MachineBuilder& builder) {
    int links = 0;
    bool equal = true;
    bool any = false;
    for (int a = 0; a < gpus_; ++a) {
      for (int b = 0; b < gpus_; ++b) {
        if (a == b) continue;
        const SmiCell& cell = m_.cells[devices_[a]][devices_[b]];
        any = any || cell.links > 0;
        links = std::max(links, cell.links);
        equal = equal && cell.links == m_.cells[devices_[0]][devices_[1]].links && cell.links > 0;
      }
    }
    if (!any) {  // a single GPU, or nvidia-smi topo -mp
      add_unseen_nvlinks(builder);
      return;
    }
    const bool known = options_.nvlink == "nvswitch" || options_.nvlink == "all_to_all";
    if (!options_.nvlink.empty() && !known && options_.nvlink != "none") {
      throw not_accepted({"--nvlink", 0, ""}, options_.nvlink, {"nvswitch", "all_to_all", "none"});
    }
    if (options_.nvlink == "none") return;
    if (gpu_.nvlinks == 0) {
      throw InputError({"--gpu", 0, ""},
                       fmt::format("{} has no NVLink, but {} shows NV{}", gpu_.name, file_, links));
    }
    if (links > gpu_.nvlinks) {
      throw InputError({"--gpu", 0, ""},
                       fmt::format("{} has {} NVLinks, but {} shows NV{}; accepted: a GPU of at "
                                   "least {}",
                                   gpu_.name, gpu_.nvlinks, file_, links, links));
    }
    if (options_.nvlink == "nvswitch" || (options_.nvlink.empty() && equal && on_switches(links))) {
      if (links != gpu_.nvlinks) {
        notes_.push_back(
            fmt::format("NV{} between all GPUs, but {} has {} NVLinks: the text's {} taken, on "
                        "NVSwitches",
                        links, gpu_.name, gpu_.nvlinks, links));
      }
      builder.add_nvswitch(links);
      return;
    }
    for (int a = 0; a < gpus_; ++a) {
      for (int b = a + 1; b < gpus_; ++b) {
        const int count = m_.cells[devices_[a]][devices_[b]].links;
        if (count == 0) continue;
        for (const int end : {a, b}) {
          if (builder.nvlinks_of(end) + count <= gpu_.nvlinks) continue;
          throw InputError({"--gpu", 0, ""},
                           fmt::format("GPU {} of {} has more NVLinks than the {} of {}", end,
                                       file_, gpu_.nvlinks, gpu_.name));
        }
        builder.link_nvlinks(a, b, count);
      }
    }
  }

  // More links to all peers together than a GPU has: they go to switches. Two GPUs leave that open,
  // but no board but Grace Hopper's spends all links of a GPU on one peer; bridged cards do.
  bool on_switches(int links) {
    if (gpus_ > 2) return links * (gpus_ - 1) > gpu_.nvlinks;
    if (links < gpu_.nvlinks || !importing::always_linked(gpu_)) return false;
    if (gpu_.c2c_links > 0 && gpu_.compute_capability < 100) return false;
    notes_.push_back(
        fmt::format("NV{} between two {}: taken as two of a machine with NVSwitches; --nvlink "
                    "all_to_all says otherwise",
                    links, gpu_.name));
    return true;
  }

  // Without NV# there is no NVLink, unless somebody says so: -mp leaves them out.
  void add_unseen_nvlinks(MachineBuilder& builder) {
    if (options_.nvlink.empty()) {
      if (gpus_ > 1 && importing::always_linked(gpu_)) {
        notes_.push_back(
            fmt::format("no NV# between the GPUs, so no NVLink, although {} has {} (nvidia-smi "
                        "topo -mp leaves them out); --nvlink says otherwise",
                        gpu_.name, gpu_.nvlinks));
      }
      return;
    }
    switch (importing::nvlink_layout(options_, file_, gpu_, gpus_, notes_)) {
      case importing::NvlinkLayout::none: return;
      case importing::NvlinkLayout::nvswitch: builder.add_nvswitch(); return;
      case importing::NvlinkLayout::all_to_all:
        for (int a = 0; a < gpus_; ++a) {
          for (int b = a + 1; b < gpus_; ++b) {
            builder.link_nvlinks(a, b, gpu_.nvlinks / (gpus_ - 1));
          }
        }
    }
  }

  // The tree gives back the matrix, or says where it does not.
  void check_distances(const Machine& machine) {
    const auto vertex = [&](std::size_t k) {
      return k < machine.gpus.size() ? machine.gpus[k] : machine.nics[k - machine.gpus.size()];
    };
    int different = 0;
    std::string first;
    for (std::size_t a = 0; a < devices_.size(); ++a) {
      for (std::size_t b = a + 1; b < devices_.size(); ++b) {
        const SmiCell& cell = m_.cells[devices_[a]][devices_[b]];
        if (cell.near == Near::nvlink) continue;
        const std::optional<Path> path = find_path(machine, vertex(a), vertex(b));
        if (path && same(cell.near, path->type)) continue;
        if (++different == 1) {
          first = fmt::format("{} and {}", m_.names[devices_[a]], m_.names[devices_[b]]);
        }
      }
    }
    if (different == 0) return;
    notes_.push_back(
        fmt::format("no tree has all of these distances: {} differ, the first between "
                    "{}",
                    different, first));
  }

  static bool same(Near near, PathType type) {
    switch (near) {
      case Near::pix: return type == PathType::pcie_switch;
      case Near::pxb: return type == PathType::pcie_switches;
      case Near::phb:
      case Near::node: return type == PathType::host_bridge || type == PathType::c2c_pcie;
      case Near::sys: return type == PathType::socket;
      case Near::self:
      case Near::nvlink:
      case Near::unknown: return true;
    }
    return true;
  }

  SmiMatrix m_;
  const std::string& file_;
  const ImportOptions& options_;
  int gpus_ = 0;
  Gpu gpu_;
  std::vector<std::size_t> devices_;  // columns taken: GPUs, then NICs
  std::map<std::size_t, double> gbit_;
  std::vector<std::size_t> below_one_switch_, below_switches_, on_cpu_;
  std::vector<std::string> notes_;
};

}  // namespace

Imported read_smi_text(const std::string& text, const std::string& file,
                       const ImportOptions& options) {
  return MachineOfMatrix(read_smi_matrix(text, file, options.others), file, options).read();
}

}  // namespace stepcast

#include "topologies/importers/fabric_import.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace stepcast {

namespace {

using importing::FabricGraph;

template <typename Value>
Value most_common(const std::map<Value, int>& counts) {  // the larger of two
  Value best{};
  int most = 0;
  for (const auto& [value, count] : counts) {
    if (count >= most) {
      best = value;
      most = count;
    }
  }
  return best;
}

class Reading {
 public:
  Reading(const FabricGraph& graph, const std::string& file, ImportedFabric& out)
      : graph_(graph), file_(file), out_(out) {}

  void run() {
    keep_hosts();
    find_leaves();
    find_levels();
    find_parts();
    choose_kind();
    find_oversubscription();
  }

 private:
  // Hosts with the usual number of NICs.
  void keep_hosts() {
    std::map<std::size_t, int> nics;
    for (const FabricGraph::Host& host : graph_.hosts) {
      if (!host.leaves.empty()) ++nics[host.leaves.size()];
    }
    if (nics.empty()) {
      throw InputError({file_, 0, ""}, "has no host on any switch; accepted: a file with hosts");
    }
    nics_ = most_common(nics);
    kept_.resize(graph_.hosts.size());
    int left_out = 0;
    for (std::size_t h = 0; h < graph_.hosts.size(); ++h) {
      kept_[h] = graph_.hosts[h].leaves.size() == nics_;
      (kept_[h] ? out_.hosts : left_out) += 1;
    }
    if (left_out > 0) {
      out_.notes.push_back(
          fmt::format("{} left out for another number of {} than {}",
                      left_out == 1 ? "1 host is" : fmt::format("{} hosts are", left_out),
                      out_.format.starts_with("Slurm") ? "leaves" : "NICs", nics_));
    }
  }

  void find_leaves() {
    std::map<int, int> sizes;
    on_leaf_.resize(graph_.switches.size(), 0);
    for (std::size_t s = 0; s < graph_.switches.size(); ++s) {
      std::set<int> hosts;
      for (const int host : graph_.switches[s].hosts) {
        if (kept_[static_cast<std::size_t>(host)]) hosts.insert(host);
      }
      on_leaf_[s] = static_cast<int>(hosts.size());
      if (hosts.empty()) continue;
      ++out_.leaves;
      ++sizes[on_leaf_[s]];
    }
    out_.leaf_ports = most_common(sizes);
    if (sizes.size() > 1) {
      out_.notes.push_back(fmt::format("leaves have {} to {} hosts: {}, the most common, is taken",
                                       sizes.begin()->first, sizes.rbegin()->first,
                                       out_.leaf_ports));
    }
    std::map<int, int> rails;
    for (std::size_t h = 0; h < graph_.hosts.size(); ++h) {
      if (!kept_[h]) continue;
      const std::vector<int>& leaves = graph_.hosts[h].leaves;
      ++rails[static_cast<int>(std::set<int>(leaves.begin(), leaves.end()).size())];
    }
    out_.rails = most_common(rails);
    if (rails.size() > 1) {
      out_.notes.push_back(fmt::format("hosts are on {} to {} leaves each: {} is taken",
                                       rails.begin()->first, rails.rbegin()->first, out_.rails));
    }
    if (out_.rails > 1 && static_cast<std::size_t>(out_.rails) != nics_) {
      out_.notes.push_back(fmt::format("{} NICs of a host share {} leaves: taken as a leaf a NIC",
                                       nics_, out_.rails));
    }
  }

  // A switch's level is its distance from the next leaf.
  void find_levels() {
    std::vector<int> level(graph_.switches.size(), -1);
    std::vector<int> now;
    bool joined = false;
    for (std::size_t s = 0; s < graph_.switches.size(); ++s) {
      if (on_leaf_[s] == 0) continue;
      level[s] = 0;
      now.push_back(static_cast<int>(s));
      for (const int other : graph_.switches[s].switches) {
        joined = joined || on_leaf_[static_cast<std::size_t>(other)] > 0;
      }
    }
    while (!now.empty()) {
      std::vector<int> next;
      for (const int s : now) {
        out_.levels = std::max(out_.levels, level[static_cast<std::size_t>(s)] + 1);
        for (const int other : graph_.switches[static_cast<std::size_t>(s)].switches) {
          int& at = level[static_cast<std::size_t>(other)];
          if (at >= 0) continue;
          at = level[static_cast<std::size_t>(s)] + 1;
          next.push_back(other);
        }
      }
      now = std::move(next);
    }
    if (joined) {
      out_.notes.emplace_back(
          "leaves are joined directly (a dragonfly, a torus?): taken as leaves below spines; "
          "--fabric dragonfly says otherwise");
    }
  }

  // Parts of the fabric that no switch joins.
  void find_parts() {
    part_.assign(graph_.switches.size(), -1);
    for (std::size_t s = 0; s < graph_.switches.size(); ++s) {
      if (part_[s] >= 0) continue;
      std::vector<int> open = {static_cast<int>(s)};
      part_[s] = static_cast<int>(s);
      while (!open.empty()) {
        const int at = open.back();
        open.pop_back();
        for (const int other : graph_.switches[static_cast<std::size_t>(at)].switches) {
          if (part_[static_cast<std::size_t>(other)] >= 0) continue;
          part_[static_cast<std::size_t>(other)] = static_cast<int>(s);
          open.push_back(other);
        }
      }
    }
    for (std::size_t s = 0; s < graph_.switches.size(); ++s) {
      if (on_leaf_[s] > 0) parts_.insert(part_[s]);
    }
  }

  // Whether the leaves of a host's NICs lie in parts of their own.
  bool rails_apart() const {
    for (std::size_t h = 0; h < graph_.hosts.size(); ++h) {
      if (!kept_[h]) continue;
      std::set<int> leaves(graph_.hosts[h].leaves.begin(), graph_.hosts[h].leaves.end()), parts;
      for (const int leaf : leaves) parts.insert(part_[static_cast<std::size_t>(leaf)]);
      if (parts.size() != leaves.size()) return false;
    }
    return true;
  }

  void choose_kind() {
    if (out_.leaves == 1) {
      out_.kind = FabricKind::single_switch;
      return;
    }
    if (out_.rails > 1) {
      const bool apart = rails_apart();
      out_.kind = apart ? FabricKind::rail_only : FabricKind::rail_optimised;
      if (apart && out_.levels > 1) {
        out_.notes.emplace_back("each rail has spines of its own: taken as one switch a rail");
      }
      if (!apart && out_.levels > 2) {
        out_.notes.push_back(fmt::format(
            "{} levels of switches: rails have one above their leaves, and no key says more",
            out_.levels));
      }
      if (!apart && parts_.size() > 1) not_joined();
      return;
    }
    if (parts_.size() > 1) not_joined();
    out_.kind = out_.levels > 2 ? FabricKind::fat_tree : FabricKind::leaf_spine;
    if (out_.levels > 2) {
      out_.notes.push_back(fmt::format(
          "{} levels of switches: a fat tree here has pods of {} leaves (leaf_ports), whatever the "
          "file's pods are",
          out_.levels, out_.leaf_ports));
    }
  }

  void not_joined() {
    out_.notes.push_back(fmt::format(
        "the fabric is in {} parts that no switch joins: taken as joined", parts_.size()));
  }

  void find_oversubscription() {
    const bool none = out_.kind == FabricKind::single_switch || out_.kind == FabricKind::rail_only;
    std::vector<double> ratios;
    for (std::size_t s = 0; s < graph_.switches.size(); ++s) {
      const FabricGraph::Switch& each = graph_.switches[s];
      if (on_leaf_[s] == 0 || each.down_gbit <= 0 || each.up_gbit <= 0) continue;
      ratios.push_back(each.down_gbit / each.up_gbit);
    }
    if (none || ratios.empty()) return;
    std::sort(ratios.begin(), ratios.end());
    const double middle = ratios[ratios.size() / 2];
    out_.oversubscription = std::max(1.0, middle);
    if (middle < 1) {
      out_.notes.push_back(fmt::format(
          "leaves have more speed upwards than to hosts ({:.2f}:1): 1 is taken", middle));
    }
    if (ratios.back() > ratios.front() * 1.001) {
      out_.notes.push_back(fmt::format("oversubscription is {:.2f} to {:.2f} by leaf: the median",
                                       ratios.front(), ratios.back()));
    }
  }

  const FabricGraph& graph_;
  const std::string& file_;
  ImportedFabric& out_;
  std::size_t nics_ = 1;
  std::vector<bool> kept_;
  std::vector<int> on_leaf_;  // hosts, by switch
  std::vector<int> part_;     // by switch: the first switch of its part
  std::set<int> parts_;       // of leaves
};

}  // namespace

bool is_fabric(const std::string& text) {
  return importing::is_slurm_topology(text) || importing::is_ibnetdiscover(text);
}

ImportedFabric import_fabric_text(const std::string& text, const std::string& file) {
  ImportedFabric out;
  const FabricGraph graph = importing::is_slurm_topology(text)
                                ? importing::read_slurm_topology(text, file, out)
                                : importing::read_ibnetdiscover(text, file, out);
  Reading(graph, file, out).run();
  return out;
}

std::string describe(const ImportedFabric& f) {
  std::string out = fmt::format("{}: {} host{} on {} leaf switch{}", f.format, f.hosts,
                                f.hosts == 1 ? "" : "s", f.leaves, f.leaves == 1 ? "" : "es");
  if (f.leaves > 1) out += fmt::format(" of {}", f.leaf_ports);
  out += fmt::format(", {} level{} of switches", f.levels, f.levels == 1 ? "" : "s");
  if (f.rails > 1) out += fmt::format(", {} rails", f.rails);
  return out;
}

std::string to_toml(const ImportedFabric& f, const std::vector<std::string>& comments) {
  std::string out;
  for (std::string line : comments) {
    for (char& c : line) {
      if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) c = ' ';
    }
    out += "# " + line + "\n";
  }
  out += fmt::format("fabric = \"{}\"\n", to_string(f.kind));
  if (f.kind != FabricKind::single_switch && f.kind != FabricKind::rail_only) {
    out += fmt::format("leaf_ports = {}\n", f.leaf_ports);
    if (f.oversubscription) out += fmt::format("oversubscription = {:.4g}\n", *f.oversubscription);
  }
  if (f.network) out += fmt::format("network = \"{}\"\n", *f.network);
  if (f.nic_gbps) out += fmt::format("nic_gbps = {:.4g}\n", *f.nic_gbps);
  return out;
}

}  // namespace stepcast

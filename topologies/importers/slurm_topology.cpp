// Slurm's topology files to a graph: what topology.conf and topology.yaml declare.
//
// Tested by tests/unit/importers/fabric_test.cpp.

#include "topologies/importers/slurm_topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "topologies/importers/hostlist.hpp"

namespace stepcast::importing {

namespace {

// What messages call the keys.
struct Words {
  const char* name;  // of the file, in notes
  const char* switch_name;
  const char* block_name;
  const char* nodes;
  const char* children;
};
constexpr Words conf_words{"topology.conf", "SwitchName", "BlockName", "Nodes", "Switches"};
constexpr Words yaml_words{"topology.yaml", "switch", "block", "nodes", "children"};

// Declarations to a graph.
class Reader {
 public:
  Reader(const Words& words, const std::string& file, ImportedFabric& fabric)
      : words_(words), file_(file), fabric_(fabric) {}

  FabricGraph read(const std::vector<Declaration>& declarations) {
    for (const Declaration& each : declarations) take(each);
    if (graph_.switches.empty()) {
      throw InputError({file_, 0, ""},
                       fmt::format("declares no switch and no block; accepted: {} or {}",
                                   words_.switch_name, words_.block_name));
    }
    join();
    fabric_.format = fmt::format("Slurm {} ({})", words_.name, blocks_ ? "block" : "tree");
    if (blocks_) {
      fabric_.notes.emplace_back(
          "a block is taken as a leaf: what joins the blocks is not in the file");
    }
    if (speeds_) {
      fabric_.notes.emplace_back("LinkSpeed is not used: Slurm gives it no unit; --nic-gbps does");
    }
    fabric_.notes.emplace_back(
        "Slurm knows hosts, not NICs: on rails a leaf of it is a pod, so give --fabric "
        "rail_optimised; oversubscription is not in the file");
    return std::move(graph_);
  }

 private:
  Where at(int line, const std::string& key = {}) const { return {file_, line, key}; }

  void take(const Declaration& each) {
    static const std::vector<std::string> known = {"switchname", "nodes",     "switches",
                                                   "linkspeed",  "blockname", "blocksizes"};
    for (const auto& [key, value] : each.values) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      throw InputError(at(each.line, key),
                       "is not known; accepted: SwitchName, Nodes, Switches, LinkSpeed, "
                       "BlockName, BlockSizes");
    }
    const auto value = [&](const char* key) {
      const auto found = each.values.find(key);
      return found == each.values.end() ? std::string() : found->second;
    };
    if (each.first == "blocksizes") return;  // how jobs are placed, not what is wired
    const bool block = each.first == "blockname";
    if (!block && each.first != "switchname") {
      throw InputError(at(each.line, each.first),
                       "begins a line; accepted: SwitchName=, BlockName= or BlockSizes= first");
    }
    blocks_ = blocks_ || block;
    switches_ = switches_ || !block;
    if (blocks_ && switches_) {
      throw InputError(
          at(each.line),
          "switches and blocks in one file; accepted: one of the plugins tree and block");
    }
    const std::string nodes = value("nodes"), children = value("switches");
    if (nodes.empty() == children.empty()) {
      throw InputError(at(each.line, block ? words_.nodes : words_.children),
                       nodes.empty()
                           ? fmt::format("is missing; accepted: {} of a leaf, {} above it",
                                         words_.nodes, words_.children)
                           : fmt::format("beside {}; accepted: one of them", words_.nodes));
    }
    speeds_ = speeds_ || !value("linkspeed").empty();
    const std::string name = value(block ? "blockname" : "switchname");
    const auto index = static_cast<int>(graph_.switches.size());
    if (!index_.emplace(name, index).second) {
      throw InputError(at(each.line, block ? words_.block_name : words_.switch_name),
                       fmt::format("'{}' is declared twice", name.substr(0, 80)));
    }
    FabricGraph::Switch& s = graph_.switches.emplace_back();
    s.name = name;
    lines_.push_back(each.line);
    children_.push_back(children.empty()
                            ? std::vector<std::string>{}
                            : expand_hostlist(children, at(each.line, words_.children)));
    names_ += children_.back().size();
    if (!nodes.empty()) {
      for (const std::string& host : expand_hostlist(nodes, at(each.line, words_.nodes))) {
        const auto [known_host, fresh] =
            hosts_.emplace(host, static_cast<int>(graph_.hosts.size()));
        if (fresh) graph_.hosts.push_back({host, {}});
        s.hosts.push_back(known_host->second);
        graph_.hosts[static_cast<std::size_t>(known_host->second)].leaves.push_back(index);
        ++names_;
      }
    }
    if (names_ > 2'000'000) {
      throw InputError(at(each.line), "the file names more than 2,000,000 hosts and switches");
    }
  }

  void join() {
    for (std::size_t i = 0; i < children_.size(); ++i) {
      for (const std::string& child : children_[i]) {
        const auto found = index_.find(child);
        if (found == index_.end()) {
          throw InputError(at(lines_[i], words_.children),
                           fmt::format("'{}' is declared nowhere; accepted: a {} of the file",
                                       child.substr(0, 80), words_.switch_name));
        }
        if (found->second == static_cast<int>(i)) {
          throw InputError(at(lines_[i], words_.children),
                           fmt::format("'{}' is below itself", child.substr(0, 80)));
        }
        graph_.switches[i].switches.push_back(found->second);
        graph_.switches[static_cast<std::size_t>(found->second)].switches.push_back(
            static_cast<int>(i));
      }
    }
  }

  const Words& words_;
  const std::string& file_;
  ImportedFabric& fabric_;
  FabricGraph graph_;
  std::map<std::string, int> index_, hosts_;
  std::vector<int> lines_;
  std::vector<std::vector<std::string>> children_;  // by switch
  std::size_t names_ = 0;
  bool blocks_ = false, switches_ = false, speeds_ = false;
};

}  // namespace

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

bool is_slurm_topology(const std::string& text) {
  return is_slurm_yaml(text) || is_slurm_conf(text);
}

FabricGraph read_slurm_topology(const std::string& text, const std::string& file,
                                ImportedFabric& fabric) {
  const bool yaml = is_slurm_yaml(text);
  return Reader(yaml ? yaml_words : conf_words, file, fabric)
      .read(yaml ? slurm_yaml_declarations(text, file, fabric)
                 : slurm_conf_declarations(text, file));
}

}  // namespace stepcast::importing

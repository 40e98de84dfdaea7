// Slurm's topology files to a graph: what topology.conf and topology.yaml declare.
//
// Tested by tests/unit/importers/fabric_test.cpp.

#include "topologies/importers/slurm_topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "base/letters.hpp"
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
  const char* block_sizes;
};
constexpr Words conf_words{"topology.conf", "SwitchName", "BlockName",
                           "Nodes",         "Switches",   "BlockSizes"};
constexpr Words yaml_words{"topology.yaml", "switch", "block", "nodes", "children", "block_sizes"};

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
    refuse_circles();
    refuse_second_leaves();
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
  Where at(int line, const std::string& key) const { return {file_, line, key}; }
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

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
    if (each.first == "blocksizes") return check_block_sizes(each.line, value("blocksizes"));
    const bool block = each.first == "blockname";
    if (!block && each.first != "switchname") {
      throw InputError(at(each.line, each.first),
                       "begins a line; accepted: SwitchName=, BlockName= or BlockSizes= first");
    }
    blocks_ = blocks_ || block;
    switches_ = switches_ || !block;
    if (blocks_ && switches_) {
      throw InputError(
          at(each.line, ""),
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
        std::vector<int>& leaves = graph_.hosts[at(known_host->second)].leaves;
        if (!leaves.empty() && leaves.back() == index) {
          throw InputError(
              at(each.line, words_.nodes),
              fmt::format("'{}' is there twice; accepted: each host once", host.substr(0, 80)));
        }
        leaves.push_back(index);
        ++names_;
      }
    }
    if (names_ > 2'000'000) {
      throw InputError(at(each.line, ""), "the file names more than 2,000,000 hosts and switches");
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
        graph_.switches[at(found->second)].switches.push_back(static_cast<int>(i));
      }
    }
  }

  // A switch that is below itself by way of others: depth first, each switch once.
  void refuse_circles() const {
    enum class State : std::uint8_t { fresh, above, done };
    std::vector<State> state(children_.size(), State::fresh);
    struct Step {
      std::size_t of, next_child;
    };
    for (std::size_t first = 0; first < children_.size(); ++first) {
      if (state[first] != State::fresh) continue;
      std::vector<Step> path = {{first, 0}};
      state[first] = State::above;
      while (!path.empty()) {
        const std::size_t here = path.back().of;
        if (path.back().next_child == children_[here].size()) {
          state[here] = State::done;
          path.pop_back();
          continue;
        }
        const std::string& name = children_[here][path.back().next_child++];
        const std::size_t child = at(index_.at(name));
        if (state[child] == State::above) {
          std::string way;
          for (const Step& step : path) {
            if (!way.empty() || step.of == child) way += graph_.switches[step.of].name + " > ";
          }
          throw InputError(at(lines_[here], words_.children),
                           fmt::format("'{}' is below itself ({}{}); accepted: switches that are "
                                       "below others alone",
                                       name.substr(0, 80), way.substr(0, 200), name.substr(0, 80)));
        }
        if (state[child] == State::fresh) {
          state[child] = State::above;
          path.push_back({child, 0});
        }
      }
    }
  }

  // Where hosts are on one leaf, one that is on two is a mistake; where all are on several, these
  // are rails.
  void refuse_second_leaves() const {
    std::size_t on_one = 0;
    const FabricGraph::Host* several = nullptr;
    for (const FabricGraph::Host& host : graph_.hosts) {
      on_one += host.leaves.size() == 1 ? 1 : 0;
      if (several == nullptr && host.leaves.size() > 1) several = &host;
    }
    if (several == nullptr || 2 * on_one < graph_.hosts.size()) return;
    const std::size_t first = at(several->leaves[0]), second = at(several->leaves[1]);
    throw InputError(
        at(lines_[second], words_.nodes),
        fmt::format("'{}' is on {} '{}' (line {}), too; accepted: each host on one {}, "
                    "or all of them on as many",
                    several->name.substr(0, 80), leaf(), graph_.switches[first].name, lines_[first],
                    leaf()));
  }

  const char* leaf() const { return blocks_ ? words_.block_name : words_.switch_name; }

  // How jobs are placed, not what is wired; but what Slurm would not start with is not passed over.
  void check_block_sizes(int line, const std::string& text) {
    std::int64_t before = 0;
    std::size_t from = 0;
    while (from <= text.size()) {
      const std::size_t end = std::min(text.find(',', from), text.size());
      const std::string word = text.substr(from, end - from);
      from = end + 1;
      std::int64_t size = 0;
      const auto read = std::from_chars(word.data(), word.data() + word.size(), size);
      if (read.ec != std::errc{} || read.ptr != word.data() + word.size() || size < 1 ||
          size > 1'000'000) {
        throw InputError(at(line, words_.block_sizes),
                         fmt::format("'{}' is not accepted; accepted: hosts of a block, 1 to "
                                     "1000000, as 18,36",
                                     word.substr(0, 80)));
      }
      const std::int64_t times = before == 0 ? 2 : size / before;
      if (before > 0 && (size % before != 0 || times < 2 || (times & (times - 1)) != 0)) {
        throw InputError(
            at(line, words_.block_sizes),
            fmt::format("{} behind {} is not accepted; accepted: the size before times "
                        "2, 4, 8, ...",
                        size, before));
      }
      before = size;
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

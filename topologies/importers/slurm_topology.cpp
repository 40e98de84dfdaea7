// Slurm's topology.conf, by its manual page: one declaration a line, keys in any case, a backslash
// at the end continues it, # begins a comment.
//
//   SwitchName=leaf1 Nodes=gpu[01-16]
//   SwitchName=spine Switches=leaf[1-4]          plugin tree
//   BlockName=b1 Nodes=gpu[01-18]
//   BlockSizes=18                                plugin block
//
// Tested by tests/unit/importers/fabric_test.cpp.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "topologies/importers/fabric_import.hpp"
#include "topologies/importers/hostlist.hpp"

namespace stepcast::importing {

namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

struct Declaration {
  int line = 0;
  std::map<std::string, std::string> values;  // keys in lower case
  std::string first;                          // key
};

class Reader {
 public:
  Reader(const std::string& text, const std::string& file, ImportedFabric& fabric)
      : text_(text), file_(file), fabric_(fabric) {}

  FabricGraph read() {
    for (const Declaration& each : declarations()) take(each);
    if (graph_.switches.empty()) {
      throw InputError(
          {file_, 0, ""},
          "declares no switch and no block; accepted: SwitchName= or BlockName= lines");
    }
    join();
    fabric_.format = blocks_ ? "Slurm topology.conf (block)" : "Slurm topology.conf (tree)";
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

  std::vector<Declaration> declarations() const {
    std::vector<Declaration> out;
    std::string open;
    int line = 0, begun = 0;
    std::size_t from = 0;
    while (from < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', from), text_.size());
      std::string_view raw(text_.data() + from, end - from);
      from = end + 1;
      ++line;
      raw = raw.substr(0, raw.find('#'));
      while (!raw.empty() && static_cast<unsigned char>(raw.back()) <= ' ') raw.remove_suffix(1);
      if (open.empty()) begun = line;
      const bool more = !raw.empty() && raw.back() == '\\';
      if (more) raw.remove_suffix(1);
      open += std::string(raw) + " ";
      if (more) continue;
      Declaration each = parse(open, begun);
      if (!each.values.empty()) out.push_back(std::move(each));
      open.clear();
    }
    if (open.find_first_not_of(' ') != std::string::npos) out.push_back(parse(open, begun));
    return out;
  }

  Declaration parse(const std::string& text, int line) const {
    Declaration out;
    out.line = line;
    std::size_t i = 0;
    while (true) {
      while (i < text.size() && static_cast<unsigned char>(text[i]) <= ' ') ++i;
      if (i == text.size()) return out;
      std::size_t end = i;
      while (end < text.size() && static_cast<unsigned char>(text[end]) > ' ') ++end;
      const std::string_view word(text.data() + i, end - i);
      i = end;
      const std::size_t equals = word.find('=');
      if (equals == std::string_view::npos || equals == 0 || equals + 1 == word.size()) {
        throw InputError(at(line), fmt::format("'{}' is not accepted; accepted: KEY=VALUE, as "
                                               "SwitchName=leaf1 Nodes=gpu[01-16]",
                                               word.substr(0, 80)));
      }
      const std::string key = lower(word.substr(0, equals));
      if (out.first.empty()) out.first = key;
      if (!out.values.emplace(key, word.substr(equals + 1)).second) {
        throw InputError(at(line, key), "is there twice on this line");
      }
    }
  }

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
      throw InputError(at(each.line, block ? "Nodes" : "Switches"),
                       nodes.empty() ? "is missing; accepted: Nodes= of a leaf, Switches= above it"
                                     : "beside Nodes; accepted: one of them");
    }
    speeds_ = speeds_ || !value("linkspeed").empty();
    const std::string name = value(block ? "blockname" : "switchname");
    const auto index = static_cast<int>(graph_.switches.size());
    if (!index_.emplace(name, index).second) {
      throw InputError(at(each.line, block ? "BlockName" : "SwitchName"),
                       fmt::format("'{}' is declared twice", name.substr(0, 80)));
    }
    FabricGraph::Switch& s = graph_.switches.emplace_back();
    s.name = name;
    lines_.push_back(each.line);
    children_.push_back(children.empty() ? std::vector<std::string>{}
                                         : expand_hostlist(children, at(each.line, "Switches")));
    names_ += children_.back().size();
    if (!nodes.empty()) {
      for (const std::string& host : expand_hostlist(nodes, at(each.line, "Nodes"))) {
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
          throw InputError(
              at(lines_[i], "Switches"),
              fmt::format("'{}' is declared nowhere; accepted: a SwitchName of the file",
                          child.substr(0, 80)));
        }
        if (found->second == static_cast<int>(i)) {
          throw InputError(at(lines_[i], "Switches"),
                           fmt::format("'{}' is below itself", child.substr(0, 80)));
        }
        graph_.switches[i].switches.push_back(found->second);
        graph_.switches[static_cast<std::size_t>(found->second)].switches.push_back(
            static_cast<int>(i));
      }
    }
  }

  const std::string& text_;
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
  std::size_t from = 0;
  while (from < text.size()) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    const std::string line =
        lower(std::string_view(text).substr(from, std::min<std::size_t>(end - from, 64)));
    from = end + 1;
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos || line[first] == '#') continue;
    for (const char* start : {"switchname=", "blockname=", "blocksizes="}) {
      if (line.compare(first, std::string_view(start).size(), start) == 0) return true;
    }
    return false;
  }
  return false;
}

FabricGraph read_slurm_topology(const std::string& text, const std::string& file,
                                ImportedFabric& fabric) {
  return Reader(text, file, fabric).read();
}

}  // namespace stepcast::importing

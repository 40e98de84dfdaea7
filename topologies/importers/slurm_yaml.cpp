// Slurm's topology.yaml (25.05), by its manual page: several topologies by name.
//
//   - topology: ib
//     cluster_default: true
//     tree:
//       switches:
//         - {switch: leaf1, nodes: "gpu[01-16]"}
//         - {switch: spine, children: "leaf[1-4]"}
//   - topology: racks
//     block:
//       block_sizes: [18]
//       blocks:
//         - {block: b1, nodes: "gpu[01-18]"}
//
// The cluster's default is read; with several and no default somebody has to say.
//
// Tested by tests/unit/importers/fabric_test.cpp.

#include <fmt/format.h>

#include <algorithm>

#include "base/tree.hpp"
#include "topologies/importers/slurm_topology.hpp"

namespace stepcast::importing {

namespace {

// topology.yaml's default topology.
class YamlTopologies {
 public:
  YamlTopologies(const std::string& text, const std::string& file, ImportedFabric& fabric)
      : root_(tree::parse_yaml(text, file)), file_(file), fabric_(fabric) {}

  std::vector<Declaration> declarations() const {
    if (root_.kind != tree::Value::Kind::list) {
      throw InputError(at(root_), "is no list; accepted: - topology: NAME for each topology");
    }
    const tree::Value& chosen = root_.items[choose()];
    std::vector<Declaration> out;
    if (const tree::Value* wired = chosen.find("tree")) {
      only(*wired, "tree", {"switches"});
      for (const tree::Value& each : list(*wired, "switches")) {
        only(each, "switches", {"switch", "nodes", "children", "link_speed"});
        out.push_back({each.line, {}, "switchname"});
        take(each, "switch", "switchname", out.back());
        take(each, "nodes", "nodes", out.back());
        take(each, "children", "switches", out.back());
        take(each, "link_speed", "linkspeed", out.back());
      }
    } else {
      const tree::Value& block = *chosen.find("block");
      only(block, "block", {"block_sizes", "blocks"});
      if (const tree::Value* sizes = block.find("block_sizes")) out.push_back(sizes_of(*sizes));
      for (const tree::Value& each : list(block, "blocks")) {
        only(each, "blocks", {"block", "nodes"});
        out.push_back({each.line, {}, "blockname"});
        take(each, "block", "blockname", out.back());
        take(each, "nodes", "nodes", out.back());
      }
    }
    return out;
  }

 private:
  Where at(const tree::Value& value, const char* key = "") const {
    return {file_, value.line, key};
  }

  void only(const tree::Value& map, const char* what, std::vector<std::string> keys) const {
    if (!map.is_map()) throw InputError(at(map, what), "holds no table; accepted: KEY: VALUE");
    for (const auto& [key, value] : map.entries) {
      if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
      throw InputError(at(value, what), fmt::format("'{}' is not known; accepted: {}",
                                                    key.substr(0, 80), fmt::join(keys, ", ")));
    }
  }

  const std::vector<tree::Value>& list(const tree::Value& map, const char* key) const {
    const tree::Value* value = map.find(key);
    if (value == nullptr) throw InputError(at(map, key), "is missing; accepted: a list");
    if (value->kind != tree::Value::Kind::list) {
      throw InputError(at(*value, key), "is no list; accepted: a list");
    }
    return value->items;
  }

  void take(const tree::Value& map, const char* key, const char* as, Declaration& into) const {
    const tree::Value* value = map.find(key);
    if (value == nullptr) {
      if (into.first != as) return;
      throw InputError(at(map, key), "is missing; accepted: a name");
    }
    if (!value->is_scalar() || value->text.empty()) {
      throw InputError(at(*value, key), "is not a word; accepted: a name, or names as gpu[01-16]");
    }
    into.values.emplace(as, value->text);
  }

  Declaration sizes_of(const tree::Value& sizes) const {
    Declaration out{sizes.line, {}, "blocksizes"};
    std::string text;
    if (sizes.kind == tree::Value::Kind::list) {
      for (const tree::Value& each : sizes.items) {
        text += (text.empty() ? "" : ",") + (each.is_scalar() ? each.text : "?");
      }
    }
    if (text.empty()) {
      throw InputError(at(sizes, "block_sizes"), "is no list of sizes; accepted: as [18, 36]");
    }
    out.values.emplace("blocksizes", text);
    return out;
  }

  static bool is_default(const tree::Value& topology) {
    const tree::Value* said = topology.find("cluster_default");
    return said != nullptr && said->boolean;
  }

  // The default, or the only one there is.
  std::size_t choose() const {
    std::vector<std::size_t> defaults;
    std::vector<std::string> names;
    for (std::size_t i = 0; i < root_.items.size(); ++i) {
      const tree::Value& each = root_.items[i];
      only(each, "topology", {"topology", "cluster_default", "tree", "block", "flat"});
      const tree::Value* name = each.find("topology");
      names.push_back(name == nullptr ? "" : name->text.substr(0, 40));
      if (is_default(each)) defaults.push_back(i);
    }
    if (names.empty()) throw InputError(at(root_), "names no topology; accepted: one or more");
    if (defaults.size() > 1) {
      throw InputError(
          at(root_.items[defaults[1]], "cluster_default"),
          fmt::format("'{}' is the default already; accepted: one default", names[defaults[0]]));
    }
    if (defaults.empty() && names.size() > 1) {
      throw InputError(at(root_, "cluster_default"),
                       fmt::format("none of {} is the default; accepted: cluster_default: true "
                                   "at the one that is meant",
                                   fmt::join(names, ", ")));
    }
    const std::size_t chosen = defaults.empty() ? 0 : defaults[0];
    const tree::Value& topology = root_.items[chosen];
    const bool wired = topology.find("tree") != nullptr || topology.find("block") != nullptr;
    if (!wired) {
      throw InputError(
          at(topology, "topology"),
          fmt::format("'{}' names no switches; accepted: a tree or a block", names[chosen]));
    }
    if (topology.find("tree") != nullptr && topology.find("block") != nullptr) {
      throw InputError(
          at(topology, "topology"),
          fmt::format("'{}' is a tree and a block; accepted: one of them", names[chosen]));
    }
    if (names.size() > 1) {
      fabric_.notes.push_back(
          fmt::format("of {} topologies the default, '{}', is taken", names.size(), names[chosen]));
    }
    return chosen;
  }

  const tree::Value root_;
  const std::string& file_;
  ImportedFabric& fabric_;
};

}  // namespace

// A list whose items say topology: NAME.
bool is_slurm_yaml(const std::string& text) {
  std::size_t from = 0;
  bool begun = false, named = false, wired = false;
  while (from < text.size()) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    std::string_view line(text.data() + from, end - from);
    from = end + 1;
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (line.empty() || line[0] == '#' || line[0] == '\r' || line.starts_with("---")) continue;
    if (!begun && line[0] != '-') return false;
    begun = true;
    line.remove_prefix(std::min(line.find_first_not_of("- "), line.size()));
    named = named || line.starts_with("topology:");
    wired = wired || line.starts_with("tree:") || line.starts_with("block:") ||
            line.starts_with("flat:");
  }
  return named && wired;
}

std::vector<Declaration> slurm_yaml_declarations(const std::string& text, const std::string& file,
                                                 ImportedFabric& fabric) {
  return YamlTopologies(text, file, fabric).declarations();
}

}  // namespace stepcast::importing

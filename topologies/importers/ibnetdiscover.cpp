// The output of `ibnetdiscover` (infiniband-diags): a paragraph a device, a line a port.
//
//   switchguid=0xb83fd2...                                    what comes before a device
//   Switch  65 "S-b83fd2..."   # "Quantum-2 Mellanox" enhanced port 0 lid 4 lmc 0
//   [1]     "H-a088c2..."[1](a088c2...)    # "gpu001 mlx5_0" lid 17 4xNDR
//   [33]    "S-b83fd3..."[5]               # "spine1" lid 2 4xNDR
//   Ca      1 "H-a088c2..."    # "gpu001 mlx5_0"
//   [1](a088c2...)  "S-b83fd2..."[1]       # lid 17 lmc 0 "leaf1" lid 4 4xNDR
//
// A host is the first word of its adapter's description; adapters without one, or with the name of
// their model in its place, are told apart by their system image GUID. Links are read from the
// switches' lines, so that each is counted once a side. Aggregation nodes (SHARP) are parts of
// switches and left out.
//
// Both ends list every link, each in its own paragraph: that tells a text that was cut, which would
// else be a smaller fabric. Refused are a line that breaks off, a switch or an adapter without
// links or without its paragraph, and two ends that list different numbers of links.
//
// Tested by tests/unit/importers/fabric_test.cpp.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "topologies/importers/fabric_import.hpp"

namespace stepcast::importing {

namespace {

constexpr std::size_t most_ports = 4'000'000;

struct Rate {
  const char* name;
  double gbit;  // data of one lane, after encoding
};
// FDR10 before FDR. InfiniBand Architecture Specification; XDR: NVIDIA Quantum-X800.
constexpr Rate rates[] = {{"FDR10", 10}, {"SDR", 2},  {"DDR", 4},   {"QDR", 8},  {"FDR", 13.64},
                          {"EDR", 25},   {"HDR", 50}, {"NDR", 100}, {"XDR", 200}};

// "4xNDR" at the end of a line: 400; 0 where there is none.
double gbit_of(std::string_view line) {
  while (!line.empty() && static_cast<unsigned char>(line.back()) <= ' ') line.remove_suffix(1);
  const std::size_t space = line.find_last_of(" \t\"");
  const std::string_view word = space == std::string_view::npos ? line : line.substr(space + 1);
  int width = 0;
  const std::from_chars_result read =
      std::from_chars(word.data(), word.data() + word.size(), width);
  if (read.ec != std::errc{} || width < 1 || width > 16) return 0;
  const std::string_view rest(read.ptr,
                              static_cast<std::size_t>(word.data() + word.size() - read.ptr));
  for (const Rate& rate : rates) {
    if (rest.size() > 1 && rest.front() == 'x' && rest.substr(1) == rate.name) {
      return width * rate.gbit;
    }
  }
  return 0;
}

// The text between the first two quotes from `from` on, and where it ends.
std::string_view in_quotes(std::string_view line, std::size_t from, std::size_t& end) {
  const std::size_t open = line.find('"', from);
  if (open == std::string_view::npos) return {};
  const std::size_t close = line.find('"', open + 1);
  if (close == std::string_view::npos) return {};
  end = close + 1;
  return line.substr(open + 1, close - open - 1);
}

class Reader {
 public:
  Reader(const std::string& text, const std::string& file, ImportedFabric& fabric)
      : text_(text), file_(file), fabric_(fabric) {}

  FabricGraph read() {
    std::size_t from = 0;
    while (from < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', from), text_.size());
      ++line_;
      take(std::string_view(text_).substr(from, end - from));
      from = end + 1;
    }
    if (graph_.switches.empty()) {
      throw InputError({file_, 0, ""}, "has no switch; accepted: the output of ibnetdiscover");
    }
    join();
    fabric_.format = "ibnetdiscover";
    fabric_.network = "infiniband";
    return std::move(graph_);
  }

 private:
  struct Adapter {
    std::string description, image;
    int line = 0;
    int links = 0, seen = 0;  // to switches in its own lines; in the switches' lines
  };
  struct Port {
    int from = 0;  // switch
    std::string to;
    double gbit = 0;
    int line = 0;
  };

  InputError refused(const std::string& why) const { return InputError({file_, line_, ""}, why); }

  void take(std::string_view line) {
    while (!line.empty() && static_cast<unsigned char>(line.back()) <= ' ') line.remove_suffix(1);
    if (line.empty() || line.front() == '#') return;
    if (std::count(line.begin(), line.end(), '"') % 2 != 0) {
      throw refused("breaks off within quotes; accepted: the whole output (is the text cut off?)");
    }
    if (line.starts_with("sysimgguid=")) {
      image_ = line.substr(11);
      return;
    }
    if (line.front() == '[') return port(line);
    if (line.starts_with("Switch")) return device(line, true);
    if (line.starts_with("Ca")) return device(line, false);
    if (line.starts_with("Rt")) {
      inside_ = -1;
      adapter_ = nullptr;
      fabric_.notes.push_back(fmt::format("line {}: a router is left out", line_));
      if (fabric_.notes.size() > 20) fabric_.notes.resize(20);
      return;
    }
    if (line.find('=') != std::string_view::npos) return;  // vendid, devid, switchguid, caguid
    // The headings of ibnetdiscover -g; a prompt, or what else a terminal had above the output.
    if (line.starts_with("Chassis ") || line.starts_with("Non-Chassis")) return;
    if (graph_.switches.empty() && adapters_.empty()) return;
    throw refused(
        fmt::format("'{}' is not accepted; accepted: lines of ibnetdiscover", line.substr(0, 80)));
  }

  void device(std::string_view line, bool is_switch) {
    std::size_t end = 0;
    const std::string id(in_quotes(line, 0, end));
    if (id.empty()) throw refused("a device without its name in quotes");
    const std::size_t comment = line.find('#', end);
    std::string description;
    if (comment != std::string_view::npos) {
      std::size_t behind = 0;
      description = in_quotes(line, comment, behind);
    }
    adapter_ = nullptr;
    if (is_switch) {
      if (!switch_of_.emplace(id, static_cast<int>(graph_.switches.size())).second) {
        throw refused(fmt::format("'{}' is there twice", id.substr(0, 80)));
      }
      inside_ = static_cast<int>(graph_.switches.size());
      switch_lines_.push_back(line_);
      graph_.switches.push_back({description.empty() ? id : description, {}, {}, 0, 0});
    } else {
      inside_ = -1;
      adapter_ = &adapters_[id];
      adapter_->description = description;
      adapter_->image = image_;
      adapter_->line = line_;
    }
    image_.clear();
  }

  void port(std::string_view line) {
    if (inside_ < 0 && adapter_ == nullptr) return;  // a router's
    std::size_t end = 0;
    const std::string to(in_quotes(line, 0, end));
    if (to.empty()) throw refused("a port without the device at its other end in quotes");
    if (!line.substr(end).starts_with('[') || line.find(']', end) == std::string_view::npos) {
      throw refused(
          fmt::format("a link to '{}' without the port there, as [1]; accepted: the "
                      "whole output (is the text cut off?)",
                      to.substr(0, 80)));
    }
    if (inside_ < 0) {  // an adapter's side of a link that its switch has, too
      if (to.front() == 'S') ++adapter_->links;
      return;
    }
    if (ports_.size() == most_ports) throw refused("more than 4,000,000 ports");
    ports_.push_back({inside_, to, gbit_of(line), line_});
    const std::size_t comment = line.find('#', end);
    if (to.front() == 'H' && comment != std::string_view::npos) {
      std::size_t behind = 0;
      seen_[to] = std::string(in_quotes(line, comment, behind));
    }
  }

  // "gpu001" of "gpu001 mlx5_0"; "" of "MT4129 ConnectX7   Mellanox Technologies".
  static std::string host_name(const std::string& description) {
    const std::string name = description.substr(0, description.find(' '));
    const bool model = name.size() > 2 && name.starts_with("MT") &&
                       name.find_first_not_of("0123456789", 2) == std::string::npos;
    return model || name == "localhost" ? "" : name;
  }

  int host_of(const std::string& id, Adapter& adapter) {
    if (const auto known = seen_.find(id); adapter.description.empty() && known != seen_.end()) {
      adapter.description = known->second;
    }
    if (adapter.description.find("Aggregation Node") != std::string::npos) {
      ++aggregation_nodes_;
      return -1;
    }
    std::string name = host_name(adapter.description);
    if (name.empty()) {
      ++nameless_;
      name = adapter.image.empty() ? id : "image " + adapter.image;
    }
    const auto [at, fresh] = hosts_.emplace(name, static_cast<int>(graph_.hosts.size()));
    if (fresh) graph_.hosts.push_back({name, {}});
    return at->second;
  }

  // `links`: of every pair of switches, as many as the first lists to the second.
  void check_whole(const std::map<std::pair<int, int>, int>& links) {
    const char* whole = "; accepted: the whole output (is the text cut off?)";
    for (std::size_t s = 0; s < graph_.switches.size(); ++s) {
      line_ = switch_lines_[s];
      if (!linked_.contains(static_cast<int>(s))) {
        throw refused(fmt::format("switch '{}' has no links{}",
                                  graph_.switches[s].name.substr(0, 80), whole));
      }
    }
    for (const auto& [ends, count] : links) {
      const auto back = links.find({ends.second, ends.first});
      const int other = back == links.end() ? 0 : back->second;
      if (other == count) continue;
      line_ = switch_lines_[static_cast<std::size_t>(ends.first)];
      const auto name = [&](int s) {
        return graph_.switches[static_cast<std::size_t>(s)].name.substr(0, 80);
      };
      throw refused(fmt::format("switch '{}' lists {} link{} to '{}', which lists {} back{}",
                                name(ends.first), count, count == 1 ? "" : "s", name(ends.second),
                                other, whole));
    }
    for (const auto& [id, adapter] : adapters_) {
      if (adapter.links == adapter.seen) continue;
      line_ = adapter.line;
      throw refused(fmt::format(
          "adapter '{}' lists {} link{} to switches, and they list {} to it"
          "{}",
          id.substr(0, 80), adapter.links, adapter.links == 1 ? "" : "s", adapter.seen, whole));
    }
  }

  void join() {
    std::map<double, int> speeds;
    std::map<std::pair<int, int>, int> links;
    for (const Port& port : ports_) {
      FabricGraph::Switch& s = graph_.switches[static_cast<std::size_t>(port.from)];
      linked_.insert(port.from);
      if (port.to.front() == 'S') {
        const auto other = switch_of_.find(port.to);
        if (other == switch_of_.end()) {
          line_ = port.line;
          throw refused(fmt::format("switch '{}' has no paragraph; accepted: the whole output",
                                    port.to.substr(0, 80)));
        }
        ++links[{port.from, other->second}];
        s.switches.push_back(other->second);
        s.up_gbit += port.gbit;
        continue;
      }
      if (port.to.front() != 'H') continue;  // a router
      const auto adapter = adapters_.find(port.to);
      if (adapter == adapters_.end()) {
        line_ = port.line;
        throw refused(
            fmt::format("adapter '{}' has no paragraph; accepted: the whole output (is "
                        "the text cut off?)",
                        port.to.substr(0, 80)));
      }
      ++adapter->second.seen;
      const int host = host_of(port.to, adapter->second);
      if (host < 0) continue;
      s.hosts.push_back(host);
      s.down_gbit += port.gbit;
      graph_.hosts[static_cast<std::size_t>(host)].leaves.push_back(port.from);
      if (port.gbit > 0) ++speeds[port.gbit];
    }
    check_whole(links);
    if (!speeds.empty()) {
      const auto most =
          std::max_element(speeds.begin(), speeds.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
      fabric_.nic_gbps = most->first / 8;
      if (speeds.size() > 1) {
        fabric_.notes.push_back(
            fmt::format("links to hosts run at {} to {} Gb/s: {} Gb/s, the most common, is taken",
                        speeds.begin()->first, speeds.rbegin()->first, most->first));
      }
    }
    if (aggregation_nodes_ > 0) {
      fabric_.notes.push_back(fmt::format(
          "{} aggregation nodes: in-network reduction (SHARP) is there, and no key says so",
          aggregation_nodes_));
    }
    if (nameless_ > 0) {
      fabric_.notes.push_back(
          fmt::format("{} links go to adapters without a host's name: those with one system image "
                      "are taken as a host",
                      nameless_));
    }
  }

  const std::string& text_;
  const std::string& file_;
  ImportedFabric& fabric_;
  FabricGraph graph_;
  std::map<std::string, int> switch_of_, hosts_;
  std::map<std::string, Adapter> adapters_;
  std::map<std::string, std::string> seen_;  // descriptions on switches' lines
  std::vector<Port> ports_;
  std::vector<int> switch_lines_;  // of each switch's paragraph
  std::set<int> linked_;           // switches with a link
  std::string image_;
  int inside_ = -1;             // the switch whose ports follow
  Adapter* adapter_ = nullptr;  // or the adapter whose
  int line_ = 0;
  int aggregation_nodes_ = 0, nameless_ = 0;
};

}  // namespace

bool is_ibnetdiscover(const std::string& text) {
  if (text.find("\"S-") == std::string::npos) return false;
  for (const char* mark : {"switchguid=", "caguid=", "sysimgguid="}) {
    if (text.find(mark) != std::string::npos) return true;
  }
  return text.rfind("Switch", 0) == 0 || text.find("\nSwitch") != std::string::npos;
}

FabricGraph read_ibnetdiscover(const std::string& text, const std::string& file,
                               ImportedFabric& fabric) {
  return Reader(text, file, fabric).read();
}

}  // namespace stepcast::importing

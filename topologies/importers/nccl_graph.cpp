// NCCL_GRAPH_DUMP_FILE: graphs > graph > channel > net or gpu. Numbers of devices are hexadecimal
// ("0", "0x3"). Source: NCCL 2.28.9, src/graph/search.cc and topo.h (numbers of devices).

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <pugixml.hpp>

#include "base/error.hpp"
#include "topologies/importers/nccl_xml.hpp"

namespace stepcast {
namespace {

class Reader {
 public:
  Reader(const std::string& text, const std::string& file) : text_(text), file_(file) {}

  std::vector<DumpedGraph> read() const {
    pugi::xml_document document;
    const pugi::xml_parse_result parsed = document.load_buffer(text_.data(), text_.size());
    if (!parsed || !document.child("graphs")) {
      throw InputError({file_, 0, ""}, "is no graph; accepted: NCCL_GRAPH_DUMP_FILE");
    }
    std::vector<DumpedGraph> graphs;
    for (const pugi::xml_node node : document.child("graphs").children("graph")) {
      DumpedGraph graph;
      graph.id = static_cast<int>(number(node, "id", 1 << 20));
      graph.pattern = static_cast<int>(number(node, "pattern", 1 << 20));
      graph.gbps_intra = number(node, "speedintra", 1e6);
      graph.gbps_inter = number(node, "speedinter", 1e6);
      graph.line = line_of(node);
      if (node.attribute("nchannels")) {
        graph.declared_channels = static_cast<int>(number(node, "nchannels", 1 << 20));
      }
      graph.cross_nic = static_cast<int>(number(node, "crossnic", 2));
      graph.same_channels = number(node, "samechannels", 1) != 0;
      graph.latency_inter_us = number(node, "latencyinter", 1e6);
      graph.type_intra = node.attribute("typeintra").value();
      graph.type_inter = node.attribute("typeinter").value();
      for (const pugi::xml_node channel : node.children("channel")) {
        DumpedGraph::Channel& out = graph.channels.emplace_back();
        out.line = line_of(channel);
        for (const pugi::xml_node device : channel.children()) {
          const std::string kind = device.name();
          if (kind == "gpu") out.gpus.push_back(number_of(device));
          if (kind == "net") out.nics.push_back(number_of(device));
        }
      }
      graphs.push_back(std::move(graph));
    }
    return graphs;
  }

 private:
  int line_of(const pugi::xml_node& node) const {
    const auto size = static_cast<std::ptrdiff_t>(text_.size());
    const auto until = text_.begin() + std::clamp<std::ptrdiff_t>(node.offset_debug(), 0, size);
    return 1 + static_cast<int>(std::count(text_.begin(), until, '\n'));
  }

  InputError error(const pugi::xml_node& node, const char* key, const std::string& accepted) const {
    return InputError({file_, line_of(node), fmt::format("{}.{}", node.name(), key)},
                      fmt::format("\"{}\" is not {}", node.attribute(key).value(), accepted));
  }

  double number(const pugi::xml_node& node, const char* key, double most) const {  // absent: 0
    const char* text = node.attribute(key).value();
    char* end = nullptr;
    const double value = std::strtod(text, &end);
    if (*end == '\0' && std::isfinite(value) && value >= 0 && value <= most) return value;
    throw error(node, key, fmt::format("a number from 0 to {}", most));
  }

  // Above the number of a device, in the top 8 bits, stands that of its host.
  int number_of(const pugi::xml_node& device) const {
    const char* text = device.attribute("dev").value();
    char* end = nullptr;
    const std::uint64_t number = std::strtoull(text, &end, 0) & ((std::uint64_t{1} << 56) - 1);
    if (*end == '\0' && end != text && number < (1u << 30)) return static_cast<int>(number);
    throw error(device, "dev", "the number of a device");
  }

  const std::string& text_;
  const std::string& file_;
};

}  // namespace

bool is_nccl_graph(const std::string& text) {
  pugi::xml_document document;
  return document.load_buffer(text.data(), text.size()) && document.child("graphs");
}

std::vector<DumpedGraph> read_nccl_graph(const std::string& text, const std::string& file) {
  return Reader(text, file).read();
}

}  // namespace stepcast

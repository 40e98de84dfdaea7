// NCCL_GRAPH_DUMP_FILE: graphs > graph > channel > net or gpu. Numbers of devices are hexadecimal
// ("0", "0x3"). Source: NCCL 2.28.9, src/graph/search.cc.

#include <cstdlib>
#include <pugixml.hpp>

#include "base/error.hpp"
#include "topologies/importers/nccl_xml.hpp"

namespace stepcast {

bool is_nccl_graph(const std::string& text) {
  pugi::xml_document document;
  return document.load_buffer(text.data(), text.size()) && document.child("graphs");
}

std::vector<DumpedGraph> read_nccl_graph(const std::string& text, const std::string& file) {
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(text.data(), text.size());
  if (!parsed || !document.child("graphs")) {
    throw InputError({file, 0, ""}, "is no graph; accepted: NCCL_GRAPH_DUMP_FILE");
  }
  std::vector<DumpedGraph> graphs;
  for (const pugi::xml_node node : document.child("graphs").children("graph")) {
    DumpedGraph graph;
    graph.id = node.attribute("id").as_int();
    graph.pattern = node.attribute("pattern").as_int();
    graph.gbps_intra = node.attribute("speedintra").as_double();
    graph.gbps_inter = node.attribute("speedinter").as_double();
    graph.type_intra = node.attribute("typeintra").value();
    graph.type_inter = node.attribute("typeinter").value();
    for (const pugi::xml_node channel : node.children("channel")) {
      DumpedGraph::Channel& out = graph.channels.emplace_back();
      for (const pugi::xml_node device : channel.children()) {
        const int number =
            static_cast<int>(std::strtol(device.attribute("dev").value(), nullptr, 16));
        const std::string kind = device.name();
        if (kind == "gpu") out.gpus.push_back(number);
        if (kind == "net") out.nics.push_back(number);
      }
    }
    graphs.push_back(std::move(graph));
  }
  return graphs;
}

}  // namespace stepcast

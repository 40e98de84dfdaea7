// What NCCL printed of its own search on real machines (NCCL_GRAPH_DUMP_FILE) against the search on
// the topology that the same machines printed (NCCL_TOPO_DUMP_FILE). The third graph at hand, of
// Azure's NC A100 v4, is no dump: Azure wrote it for NCCL_GRAPH_FILE, to be used in place of a
// search.

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "base/toml.hpp"
#include "sim/collectives/nccl/search.hpp"
#include "topologies/importers/nccl_xml.hpp"

using namespace stepcast;

namespace {

const std::string data = STEPCAST_TEST_DATA;

struct Found {
  Found(Machine m, const std::vector<int>& gpus)
      : machine(std::move(m)),
        system(machine, gpus, {.across_nodes = false}),
        result(nccl::search_graphs(nccl::constants("2.28.9"), system)) {}
  // The driver's number of a GPU, by which a dump names it.
  int dev(int gpu) const {
    return machine.graph[machine.gpus[system.graph[system.gpus[gpu]].device]].index;
  }
  Machine machine;
  nccl::System system;
  nccl::SearchResult result;
};

// NCCL searches in the order of the PCI bus, which is the file's; stepcast in the order of the
// driver's numbers. On Perlmutter the bus lists GPU 0, 3, 2, 1.
Found search_of(const std::string& topo) {
  Machine machine = read_nccl_xml(data + "/golden/xml/" + topo);
  std::sort(machine.gpus.begin(), machine.gpus.end());  // vertices are made in the file's order
  std::vector<int> all(machine.gpus.size());
  std::iota(all.begin(), all.end(), 0);
  return Found(std::move(machine), all);
}

std::vector<DumpedGraph> dump_of(const std::string& graph) {
  const std::string path = data + "/../importers/data/xml/" + graph;
  return read_nccl_graph(read_file(path), path);
}

void check_same(const Found& found, const nccl::GraphResult& got, const DumpedGraph& want) {
  CHECK(static_cast<int>(got.pattern) == want.pattern);
  CHECK(got.channels == static_cast<int>(want.channels.size()));
  CHECK(got.bw_intra == doctest::Approx(want.gbps_intra));
  CHECK(got.bw_inter == doctest::Approx(want.gbps_inter));
  CHECK(std::string(to_string(got.type_intra)) == want.type_intra);
  REQUIRE(got.orders.size() == want.channels.size());
  for (std::size_t c = 0; c < want.channels.size(); ++c) {
    std::vector<int> devices;
    for (const int gpu : got.orders[c].gpus) devices.push_back(found.dev(gpu));
    CAPTURE(c);
    CHECK(devices == want.channels[c].gpus);
  }
}

const DumpedGraph& graph(const std::vector<DumpedGraph>& graphs, int id) {
  const auto found =
      std::find_if(graphs.begin(), graphs.end(), [&](const DumpedGraph& g) { return g.id == id; });
  REQUIRE(found != graphs.end());
  return *found;
}

}  // namespace

TEST_CASE("NCCL's rings and trees of a Perlmutter node, GPU by GPU") {
  const Found found = search_of("simllm-perlmutter-4xA100-topo.xml");
  const std::vector<DumpedGraph> dump = dump_of("simllm-perlmutter-4xA100-graph.xml");
  check_same(found, found.result.ring, graph(dump, 0));
  check_same(found, found.result.tree, graph(dump, 1));
  CHECK(found.result.nvls.channels == 0);  // no NVSwitch: the dump's graph 3 is empty
  CHECK(graph(dump, 3).channels.empty());
}

TEST_CASE("NCCL's rings, trees and NVLS heads of an H200 node, GPU by GPU") {
  const Found found = search_of("simllm-vastai-8xH200-topo.xml");
  const std::vector<DumpedGraph> dump = dump_of("simllm-vastai-8xH200-graph.xml");
  check_same(found, found.result.ring, graph(dump, 0));
  check_same(found, found.result.tree, graph(dump, 1));
  check_same(found, found.result.nvls, graph(dump, 3));
}

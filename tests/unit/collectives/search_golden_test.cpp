// NCCL's graph search on real and derived topology files, compared with NCCL's own results.

#include <doctest/doctest.h>

#include <cmath>
#include <sstream>

#include "sim/collectives/nccl/search.hpp"
#include "tests/unit/collectives/golden.hpp"
#include "topologies/importers/nccl_xml.hpp"

using namespace stepcast;

namespace {

std::vector<int> subset_of(const std::string& subset, const Machine& machine) {
  std::vector<int> gpus;
  if (subset == "all") {
    for (std::size_t g = 0; g < machine.gpus.size(); ++g) gpus.push_back(static_cast<int>(g));
    return gpus;
  }
  std::istringstream in(subset);
  for (std::string part; std::getline(in, part, '+');) gpus.push_back(std::stoi(part));
  return gpus;
}

Machine machine_of(const std::string& topo) {
  return read_nccl_xml(std::string(STEPCAST_TEST_DATA) + "/golden/xml/" + topo + ".xml");
}

bool close(double a, double b) { return std::abs(a - b) < 1e-4; }

bool same(const nccl::GraphResult& a, const nccl::GraphResult& b) {
  if (a.channels == 0 && b.channels == 0) return true;
  return a.pattern == b.pattern && a.channels == b.channels && close(a.bw_intra, b.bw_intra) &&
         close(a.bw_inter, b.bw_inter) && a.type_intra == b.type_intra &&
         a.type_inter == b.type_inter && a.same_channels == b.same_channels &&
         a.cross_nic == b.cross_nic;
}

std::string text(const nccl::GraphResult& g) {
  std::ostringstream out;
  out << "p" << static_cast<int>(g.pattern) << " " << g.channels << " x " << g.bw_intra << "/"
      << g.bw_inter << " " << to_string(g.type_intra) << "/" << to_string(g.type_inter) << " same "
      << g.same_channels << " cross " << g.cross_nic;
  return out.str();
}

}  // namespace

TEST_CASE("ring, tree and NVLS searches find what NCCL finds, in every case") {
  int compared = 0;
  for (const golden::Case& c : golden::cases()) {
    const Machine machine = machine_of(c.topo);
    const nccl::System system(machine, subset_of(c.gpus, machine), {.across_nodes = c.nodes > 1});
    const nccl::SearchResult got = nccl::search_graphs(nccl::constants("2.28.9"), system);
    CAPTURE(c.name());
    CHECK(close(system.max_gbps, c.max_bw));
    CHECK(close(system.total_gbps, c.total_bw));
    INFO("ring: " << text(got.ring) << "; NCCL: " << text(c.search.ring));
    CHECK(same(got.ring, c.search.ring));
    INFO("tree: " << text(got.tree) << "; NCCL: " << text(c.search.tree));
    CHECK(same(got.tree, c.search.tree));
    INFO("nvls: " << text(got.nvls) << "; NCCL: " << text(c.search.nvls));
    CHECK(same(got.nvls, c.search.nvls));
    ++compared;
  }
  CHECK(compared == 250);
}

TEST_CASE("every channel visits GPUs and NICs in NCCL's order") {
  int compared = 0;
  for (const std::string& line : golden::data_lines("orders.csv")) {
    const std::vector<std::string> cells = golden::split(line, ',');
    CAPTURE(cells[0]);
    CAPTURE(cells[1]);
    CAPTURE(cells[2]);
    CAPTURE(cells[3]);
    const Machine machine = machine_of(cells[0]);
    const nccl::System system(machine, subset_of(cells[2], machine),
                              {.across_nodes = cells[1] != "1"});
    const nccl::SearchResult result = nccl::search_graphs(nccl::constants("2.28.9"), system);
    const nccl::GraphResult& graph = cells[3] == "ring"   ? result.ring
                                     : cells[3] == "tree" ? result.tree
                                                          : result.nvls;
    std::vector<std::string> want;
    for (std::size_t i = 4; i < cells.size(); ++i) {
      const std::vector<std::string> parts = golden::split(cells[i], '*');
      const int count = parts.size() > 1 ? std::stoi(parts[1]) : 1;
      for (int k = 0; k < count; ++k) want.push_back(parts[0]);
    }
    std::vector<std::string> got;
    for (const nccl::Channel& channel : graph.orders) {
      std::string order;
      for (const int gpu : channel.gpus) {
        order += (order.empty() ? "" : ".") + std::to_string(system.graph[system.gpus[gpu]].device);
      }
      got.push_back(order + "/" + std::to_string(channel.nic_in) + "/" +
                    std::to_string(channel.nic_out));
    }
    CHECK(got == want);
    ++compared;
  }
  CHECK(compared == 280);
}

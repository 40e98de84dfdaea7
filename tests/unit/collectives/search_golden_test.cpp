// NCCL's graph search on real and derived topology files, compared with NCCL's own results.

#include <doctest/doctest.h>

#include <cmath>
#include <sstream>

#include "sim/collectives/nccl/search.hpp"
#include "tests/unit/collectives/golden.hpp"
#include "topologies/importers/nccl_xml.hpp"

using namespace stepcast;

namespace {

std::vector<int> subset_of(const golden::Case& c, const Machine& machine) {
  std::vector<int> gpus;
  if (c.gpus == "all") {
    for (std::size_t g = 0; g < machine.gpus.size(); ++g) gpus.push_back(static_cast<int>(g));
    return gpus;
  }
  std::istringstream in(c.gpus);
  for (std::string part; std::getline(in, part, '+');) gpus.push_back(std::stoi(part));
  return gpus;
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
    const Machine machine =
        read_nccl_xml(std::string(STEPCAST_TEST_DATA) + "/golden/xml/" + c.topo + ".xml");
    const nccl::System system(machine, subset_of(c, machine), {.across_nodes = c.nodes > 1});
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

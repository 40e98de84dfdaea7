#include "topologies/subset.hpp"

#include <doctest/doctest.h>

#include "small_machine.hpp"
#include "topologies/cut.hpp"
#include "topologies/paths.hpp"

namespace stepcast {
namespace {

using test::gpu;

TEST_CASE("a subset drops GPUs with their NVLinks and keeps switches, CPUs and NICs") {
  const Machine whole = load_machine("dgx-1v");
  const Machine part = with_gpus(whole, {6, 0, 4});
  REQUIRE(part.gpus.size() == 3);
  CHECK(part.nics.size() == 4);
  CHECK(boost::num_vertices(part.graph) == boost::num_vertices(whole.graph) - 5);
  // Of the mesh remain 0-4 (2 links) and 4-6 (1 link); each GPU keeps its PCIe link.
  CHECK(boost::num_edges(part.graph) == boost::num_edges(whole.graph) - 14 - 5);
  // Renumbered in the old order, under the old names.
  CHECK(part.graph[gpu(part, 0)].name == "gpu0");
  CHECK(part.graph[gpu(part, 1)].name == "gpu4");
  CHECK(part.graph[gpu(part, 2)].name == "gpu6");
  CHECK(part.graph[gpu(part, 2)].index == 2);
  CHECK(find_path(part, gpu(part, 0), gpu(part, 1))->gbps == 50);
  CHECK(find_path(part, gpu(part, 0), gpu(part, 2))->type == PathType::socket);
  CHECK(nearest_nics(part, 2) == std::vector<int>{3});
}

TEST_CASE("four GPUs of an NVSwitch machine still meet at the switch") {
  const Machine part = with_gpus(load_machine("dgx-h100"), {0, 1, 2, 3});
  CHECK(part.has_nvswitch());
  CHECK(part.nics.size() == 8);
  CHECK(bisection(part, {LinkKind::nvlink})->gbps == doctest::Approx(2 * 450));
}

TEST_CASE("all GPUs are the machine itself") {
  const Machine whole = load_machine("gh200-quad");
  const Machine part = with_gpus(whole, {0, 1, 2, 3});
  CHECK(boost::num_edges(part.graph) == boost::num_edges(whole.graph));
  CHECK(part.gpus == whole.gpus);
  CHECK(part.nics == whole.nics);
}

TEST_CASE("a cluster that uses some GPUs of each node uses the first ones") {
  ClusterOptions options;
  options.gpus_per_node = 2;
  const Machine node = used_node(make_cluster(load_machine("dgx-a100"), options));
  REQUIRE(node.gpus.size() == 2);
  CHECK(node.graph[gpu(node, 1)].name == "gpu1");
}

TEST_CASE("an unknown, a repeated or no GPU is refused") {
  const Machine machine = load_machine("rtx-3090-2x");
  CHECK_THROWS_WITH_AS(with_gpus(machine, {0, 2}), "GPU 2 is not in rtx-3090-2x; accepted: 0 to 1",
                       InputError);
  CHECK_THROWS_WITH_AS(with_gpus(machine, {1, 1}), "GPU 1 is named twice; accepted: every GPU once",
                       InputError);
  CHECK_THROWS_AS(with_gpus(machine, {-1}), InputError);
  CHECK_THROWS_AS(with_gpus(machine, {}), InputError);
}

}  // namespace
}  // namespace stepcast

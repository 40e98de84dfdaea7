#include "topologies/fabric.hpp"

#include <doctest/doctest.h>

#include "small_machine.hpp"

namespace stepcast {
namespace {

Cluster cluster(FabricKind kind, int nodes, double oversubscription = 1, int leaf_ports = 32) {
  ClusterOptions options;
  options.nodes = nodes;
  options.fabric = kind;
  options.oversubscription = oversubscription;
  options.leaf_ports = leaf_ports;
  return make_cluster(load_machine("dgx-h100"), options);
}

TEST_CASE("a rail-only fabric, a fat tree and a dragonfly: leaves and switches on the way") {
  // Rails: one network a NIC number, whatever the number of nodes.
  const Cluster rails = cluster(FabricKind::rail_only, 100);
  CHECK(leaf_count(rails) == 8);
  CHECK(leaf_of(rails, 99, 3) == 3);
  CHECK(switch_hops(rails, 0, 3, 99, 3) == 1);
  CHECK(ring_crossing(rails) == 0);
  // Leaves of 4 nodes, pods of 4 leaves = 16 nodes: nodes 0 and 3 share a leaf, 0 and 15 a pod.
  const Cluster tree = cluster(FabricKind::fat_tree, 32, 1, 4);
  CHECK(switch_hops(tree, 0, 0, 3, 5) == 1);
  CHECK(switch_hops(tree, 0, 0, 15, 0) == 3);
  CHECK(switch_hops(tree, 0, 0, 16, 0) == 5);
  CHECK(fabric_latency_us(tree) == doctest::Approx(5 * 0.13));
  const Cluster groups = cluster(FabricKind::dragonfly, 8, 1, 4);
  CHECK(switch_hops(groups, 0, 0, 3, 0) == 2);
  CHECK(switch_hops(groups, 0, 0, 4, 0) == 4);
  CHECK(uniform_crossing(groups) == doctest::Approx(4.0 / 7));
}

TEST_CASE("on rails the same NIC of 32 nodes meets on one leaf") {
  const Cluster c = cluster(FabricKind::rail_optimised, 33);
  CHECK(leaf_of(c, 0, 0) == leaf_of(c, 31, 0));
  CHECK(leaf_of(c, 0, 0) != leaf_of(c, 0, 1));
  CHECK(leaf_of(c, 0, 0) != leaf_of(c, 32, 0));
  CHECK(leaf_count(c) == 16);  // 8 rails in each of two pods
  CHECK(switch_hops(c, 0, 3, 0, 3) == 0);
  CHECK(switch_hops(c, 0, 3, 31, 3) == 1);
  CHECK(switch_hops(c, 0, 3, 32, 3) == 3);
  CHECK(switch_hops(c, 0, 3, 1, 4) == 3);
}

TEST_CASE("on a leaf-spine fabric all NICs of a node meet on its leaf") {
  const Cluster c = cluster(FabricKind::leaf_spine, 8, 1, 4);
  CHECK(leaf_count(c) == 2);
  CHECK(switch_hops(c, 0, 0, 3, 7) == 1);
  CHECK(switch_hops(c, 0, 0, 4, 0) == 3);
  const Cluster one = cluster(FabricKind::single_switch, 1000);
  CHECK(leaf_count(one) == 1);
  CHECK(switch_hops(one, 0, 0, 999, 7) == 1);
}

TEST_CASE("delay grows with the switches between nodes") {
  CHECK(fabric_latency_us(cluster(FabricKind::rail_optimised, 1)) == 0);
  CHECK(fabric_latency_us(cluster(FabricKind::rail_optimised, 32)) == doctest::Approx(0.13));
  CHECK(fabric_latency_us(cluster(FabricKind::rail_optimised, 33)) == doctest::Approx(0.39));
}

TEST_CASE("oversubscription costs only the traffic that leaves a leaf") {
  // 50 GB/s a NIC, 4:1 at a leaf of 32 nodes, 64 nodes.
  const Cluster c = cluster(FabricKind::rail_optimised, 64, 4);
  CHECK(nic_gbps(c, 0) == 50);
  CHECK(nic_gbps(c, 0.25) == 50);  // exactly what the uplinks carry
  CHECK(nic_gbps(c, 0.5) == 25);   // 50 / (4 * 0.5)
  CHECK(nic_gbps(c, 1) == 12.5);   // all of it leaves: a quarter
  // A ring in node order leaves each leaf once: 1/32 of its ports, far below 1/4.
  CHECK(ring_crossing(c) == doctest::Approx(1.0 / 32));
  CHECK(nic_gbps(c, ring_crossing(c)) == 50);
  // A uniform exchange: each node sends to 63 others, 32 of them elsewhere.
  CHECK(uniform_crossing(c) == doctest::Approx(32.0 / 63));
  CHECK(nic_gbps(c, uniform_crossing(c)) == doctest::Approx(50 / (4 * 32.0 / 63)));
}

TEST_CASE("as long as one leaf holds all nodes, nothing leaves it") {
  const Cluster c = cluster(FabricKind::leaf_spine, 32, 8);
  CHECK(ring_crossing(c) == 0);
  CHECK(uniform_crossing(c) == 0);
  CHECK(nic_gbps(c, uniform_crossing(c)) == 50);
  CHECK(uniform_crossing(cluster(FabricKind::leaf_spine, 33, 8)) == doctest::Approx(1.0 / 32));
}

TEST_CASE("a leaf of one node sends everything out") {
  const Cluster c = cluster(FabricKind::leaf_spine, 8, 2, 1);
  CHECK(ring_crossing(c) == 1);
  CHECK(nic_gbps(c, ring_crossing(c)) == 25);
}

TEST_CASE("fabrics are read by their names") {
  CHECK(parse_fabric_kind("leaf_spine", {}) == FabricKind::leaf_spine);
  CHECK(parse_fabric_kind("rail-optimized", {}) == FabricKind::rail_optimised);
  CHECK(parse_fabric_kind("fat_tree", {}) == FabricKind::fat_tree);
  CHECK_THROWS_WITH_AS(parse_fabric_kind("torus", {"", 0, "--fabric"}),
                       "--fabric: 'torus' is not accepted; accepted: rail_optimised, leaf_spine, "
                       "single_switch, rail_only, fat_tree, dragonfly",
                       InputError);
}

TEST_CASE("a machine without NIC has no speed between nodes") {
  const Cluster c = make_cluster(load_machine("rtx-3090-2x"), {});
  CHECK_THROWS_AS(nic_gbps(c, 0), InputError);
  CHECK(leaf_count(c) == 0);
}

}  // namespace
}  // namespace stepcast

#include <doctest/doctest.h>

#include "small_machine.hpp"

namespace stepcast {
namespace {

Cluster dgx(const ClusterOptions& options) {
  return make_cluster(load_machine("dgx-h100"), options);
}

std::string complaint(const std::string& machine, const ClusterOptions& options) {
  try {
    make_cluster(load_machine(machine), options);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("any number of GPUs is laid out, the last node partly filled") {
  struct Expected {
    int gpus, nodes, on_last;
  };
  for (const Expected& e :
       {Expected{1, 1, 1}, Expected{3, 1, 3}, Expected{6, 1, 6}, Expected{8, 1, 8},
        Expected{9, 2, 1}, Expected{12, 2, 4}, Expected{20, 3, 4}, Expected{16384, 2048, 8}}) {
    CAPTURE(e.gpus);
    const Cluster cluster = dgx({.gpus = e.gpus});
    CHECK(cluster.world_size == e.gpus);
    CHECK(cluster.nodes == e.nodes);
    CHECK(cluster.gpus_per_node == 8);
    CHECK(cluster.ranks_on(cluster.nodes - 1) == e.on_last);
    if (e.nodes > 1) CHECK(cluster.ranks_on(0) == 8);
    CHECK(cluster.node_of(e.gpus - 1) == e.nodes - 1);
    CHECK(cluster.local_of(e.gpus - 1) == e.on_last - 1);
  }
}

TEST_CASE("nodes and GPUs per node work out the rest") {
  CHECK(dgx({}).world_size == 8);
  CHECK(dgx({.nodes = 16}).world_size == 128);
  CHECK(dgx({.nodes = 16, .gpus_per_node = 4}).world_size == 64);
  CHECK(dgx({.gpus = 20, .gpus_per_node = 6}).nodes == 4);
  CHECK(dgx({.nodes = 3, .gpus = 20}).ranks_on(2) == 4);
  CHECK(dgx({.nodes = 2, .gpus = 2, .gpus_per_node = 1}).node_of(1) == 1);
}

TEST_CASE("sizes that contradict each other are refused with what would be accepted") {
  CHECK(complaint("dgx-h100", {.nodes = 2, .gpus = 17}) ==
        "gpus: 17 do not fit on 2 nodes with 8 used GPUs each; accepted: 1 to 16");
  CHECK(complaint("dgx-h100", {.nodes = 3, .gpus = 16}) ==
        "nodes: 3 nodes are more than 16 GPUs need with 8 a node; accepted: 2");
  CHECK(complaint("dgx-h100", {.gpus_per_node = 9}) ==
        "gpus_per_node: 9 is out of range; accepted: 1 to 8, the GPUs of dgx-h100");
  CHECK(complaint("dgx-h100", {.nodes = -1}).find("nodes: -1 is out of range") == 0);
  CHECK(complaint("dgx-h100", {.gpus = -8}).find("gpus: -8 is out of range") == 0);
  CHECK(complaint("dgx-h100", {.gpus_per_node = -1}).find("gpus_per_node: -1 is out") == 0);
  CHECK(complaint("dgx-h100", {.nodes = 2000000}).find("nodes: 2000000 is out of range") == 0);
  CHECK(complaint("dgx-h100", {.gpus = 2147483647}).find("gpus: 2147483647 needs") == 0);
}

TEST_CASE("a machine without NIC stays alone") {
  CHECK(complaint("rtx-4090-8x", {.gpus = 8}) == "");
  CHECK(
      complaint("rtx-4090-8x", {.gpus = 12})
          .find("gpus: rtx-4090-8x has no NIC, so it cannot be one of 2 nodes; accepted: 1 node (8 "
                "GPUs)") == 0);
  CHECK(complaint("rtx-4090-8x", {.nic_gbps = 10}) ==
        "nic_gbps: rtx-4090-8x has no NIC; accepted: a machine with NICs");
  CHECK(complaint("rtx-4090-8x", {.network = "roce"}).find("network: rtx-4090-8x has no NIC") == 0);
}

TEST_CASE("the fabric is the machine's unless told otherwise") {
  const Cluster plain = dgx({.nodes = 2});
  CHECK(plain.fabric.network == "infiniband");
  CHECK(plain.fabric.kind == FabricKind::rail_optimised);
  CHECK(plain.fabric.oversubscription == 1);
  CHECK(plain.fabric.gpudirect_rdma);
  CHECK(plain.fabric.hop_latency_us == doctest::Approx(0.13));

  const Cluster other = dgx({.nodes = 2,
                             .fabric = FabricKind::leaf_spine,
                             .oversubscription = 3,
                             .gpudirect_rdma = false,
                             .nic_gbps = 25,
                             .network = "roce",
                             .leaf_ports = 4});
  CHECK(other.fabric.network == "roce");
  CHECK(other.fabric.kind == FabricKind::leaf_spine);
  CHECK(other.fabric.oversubscription == 3);
  CHECK_FALSE(other.fabric.gpudirect_rdma);
  CHECK(other.fabric.leaf_ports == 4);
  CHECK(other.fabric.hop_latency_us > plain.fabric.hop_latency_us);
  for (const Vertex nic : other.machine.nics) CHECK(other.machine.graph[nic].nic_gbps == 25);
}

TEST_CASE("an impossible fabric is refused") {
  CHECK(complaint("dgx-h100", {.oversubscription = 0.5}).find("oversubscription: 0.5 is out") == 0);
  CHECK(complaint("dgx-h100", {.nic_gbps = -1}).find("nic_gbps: -1 is out of range") == 0);
  CHECK(complaint("dgx-h100", {.leaf_ports = 0}).find("leaf_ports: 0 is out of range") == 0);
  CHECK(complaint("dgx-h100", {.network = "infinband"})
            .find("network: 'infinband' is not accepted (did you mean 'infiniband'?)") == 0);
  CHECK(complaint("dgx-h100", {.fabric = FabricKind::single_switch, .oversubscription = 2})
            .find("oversubscription: is above 1 on a single switch") == 0);
}

}  // namespace
}  // namespace stepcast

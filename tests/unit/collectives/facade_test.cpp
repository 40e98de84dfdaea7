// Loads and times of communicators on clusters, worked by hand.

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "sim/collectives/fabric_load.hpp"

using namespace stepcast;

namespace {

Cluster cluster_of(const std::string& machine, ClusterOptions options) {
  return make_cluster(load_machine(machine), options);
}

const LinkLoad* load_of(const CollectiveCost& cost, std::string_view resource) {
  for (const LinkLoad& load : cost.loads) {
    if (load.resource == Name(resource)) return &load;
  }
  return nullptr;
}

double bytes_of(const CollectiveCost& cost, std::string_view resource) {
  const LinkLoad* load = load_of(cost, resource);
  return load != nullptr ? load->bytes : 0;
}

double seconds_of(const CollectiveCost& cost, std::string_view resource) {
  const LinkLoad* load = load_of(cost, resource);
  return load != nullptr ? load->seconds : 0;
}

}  // namespace

TEST_CASE("one rank communicates nothing, and nothing costs nothing") {
  const Collectives collectives(cluster_of("dgx-h100", {.gpus = 1}), {1, 1});
  for (const Axis axis : {Axis::world, Axis::shard, Axis::replicate}) {
    const CollectiveCost cost =
        collectives.cost(axis, CollectiveKind::all_reduce, gib, Dtype::fp32, Reduction::sum);
    CHECK(cost.seconds == 0);
    CHECK(cost.loads.empty());
    CHECK(cost.sm_share == 0);
    CHECK(cost.bytes_sent_intra + cost.bytes_sent_inter == 0);
  }
  const Collectives eight(cluster_of("dgx-h100", {.nodes = 1}), {1, 8});
  CHECK(eight.cost(Axis::shard, CollectiveKind::all_gather, 0, Dtype::bf16, Reduction::none)
            .seconds == 0);
}

TEST_CASE("all-gather on one DGX H100: seven eighths of the tensor over each GPU's NVLinks") {
  const Collectives collectives(cluster_of("dgx-h100", {.nodes = 1}), {1, 8});
  const Bytes size = gib;
  const CollectiveCost cost =
      collectives.cost(Axis::shard, CollectiveKind::all_gather, size, Dtype::bf16, Reduction::none);
  CHECK(cost.choice.algorithm == NcclAlgorithm::ring);
  CHECK(cost.choice.protocol == NcclProtocol::simple);
  const double sent = 7.0 / 8 * static_cast<double>(size);
  CHECK(bytes_of(cost, "nvlink") == doctest::Approx(sent));
  CHECK(seconds_of(cost, "nvlink") == doctest::Approx(sent / (18 * 20.6e9)));
  CHECK(load_of(cost, "nic") == nullptr);
  CHECK(cost.bytes_sent_intra == doctest::Approx(sent));
  CHECK(cost.bytes_sent_inter == 0);
  // 8.4 + 7 steps of 3.4 us, 12 rings of 30 GB/s
  const double predicted = 32.2e-6 + sent / 360e9;
  CHECK(cost.seconds == doctest::Approx(predicted));
  CHECK(cost.busbw_gbps == doctest::Approx(sent / predicted * 1e-9));
  CHECK(cost.choice.channels == 24);
  CHECK(cost.sm_share == doctest::Approx(24.0 / 132));
}

TEST_CASE("NVLS all-reduce moves S (1 + 1/n) per GPU and direction, and averages never use it") {
  const Collectives collectives(cluster_of("dgx-h100", {.nodes = 1}), {8, 1});
  const auto reduce = [&](Reduction reduction) {
    return collectives.cost(Axis::replicate, CollectiveKind::all_reduce, gib, Dtype::bf16,
                            reduction);
  };
  const CollectiveCost sum = reduce(Reduction::sum);
  CHECK(sum.choice.algorithm == NcclAlgorithm::nvls);
  CHECK(bytes_of(sum, "nvlink") == doctest::Approx(1.125 * static_cast<double>(gib)));
  CHECK(sum.choice.channels == 16);
  const CollectiveCost average = reduce(Reduction::avg);
  CHECK(average.choice.algorithm == NcclAlgorithm::ring);
  CHECK(bytes_of(average, "nvlink") == doctest::Approx(1.75 * static_cast<double>(gib)));
  CHECK(average.seconds > sum.seconds);
}

TEST_CASE("a small NVLS call starts only as many channels as have 16 KiB of traffic") {
  const Collectives collectives(cluster_of("dgx-h100", {.nodes = 1}), {8, 1});
  const CollectiveCost cost = collectives.cost(Axis::replicate, CollectiveKind::all_reduce,
                                               40 * kib, Dtype::fp32, Reduction::sum);
  // LL: 8 bytes on the wire for 4, read and written: 40 KiB * 2 * 4 / 16 KiB = 20 at most
  CHECK(cost.choice.protocol == NcclProtocol::ll);
  CHECK(cost.choice.channels == cost.choice.tuned_channels);
  CHECK(cost.choice.channels == 1);  // one per full 32 KiB
}

TEST_CASE("eight replica groups a node put two on each of four NICs, one on each of eight") {
  const Bytes size = gib;
  const auto cost_on = [&](const std::string& machine) {
    const Collectives collectives(cluster_of(machine, {.nodes = 2}), {2, 8});
    return collectives.cost(Axis::replicate, CollectiveKind::all_reduce, size, Dtype::fp32,
                            Reduction::avg);
  };
  const double sent = static_cast<double>(size);  // 2 (R-1)/R with R = 2
  const CollectiveCost four = cost_on("hgx-a100-4x100g");
  CHECK(bytes_of(four, "nic") == doctest::Approx(2 * sent));
  CHECK(seconds_of(four, "nic") == doctest::Approx(2 * sent / 12.5e9));
  CHECK(four.bytes_sent_inter == doctest::Approx(sent));  // siblings are not mine
  CHECK(four.bytes_sent_intra == 0);
  CHECK(four.seconds >= seconds_of(four, "nic"));
  CHECK(four.choice.predicted_us < four.seconds * 1e6);  // NCCL does not know of the siblings
  const CollectiveCost eight = cost_on("dgx-a100");
  CHECK(bytes_of(eight, "nic") == doctest::Approx(sent));
  CHECK(seconds_of(eight, "nic") == doctest::Approx(sent / 25e9));
  CHECK(load_of(eight, "nvlink") == nullptr);
}

TEST_CASE("a ring over nodes divides its volume over the node's NICs") {
  const Collectives collectives(cluster_of("dgx-h100", {.nodes = 2}), {1, 16});
  const CollectiveCost cost = collectives.cost(Axis::shard, CollectiveKind::reduce_scatter, gib,
                                               Dtype::bf16, Reduction::avg);
  const double volume = 15.0 / 16 * static_cast<double>(gib);
  CHECK(cost.choice.algorithm == NcclAlgorithm::ring);
  CHECK(bytes_of(cost, "nic") == doctest::Approx(volume / 8));
  // 7 of a channel's 8 hops stay in the node
  CHECK(cost.bytes_sent_intra == doctest::Approx(volume * 7 / 8));
  CHECK(cost.bytes_sent_inter == doctest::Approx(volume / 8));
}

TEST_CASE("a tree between four nodes sends each byte twice per node and direction") {
  const Collectives collectives(cluster_of("dgx-a100", {.nodes = 4}), {32, 1});
  const Bytes size = 64 * kib;
  const CollectiveCost cost = collectives.cost(Axis::replicate, CollectiveKind::all_reduce, size,
                                               Dtype::fp32, Reduction::sum);
  REQUIRE(cost.choice.algorithm == NcclAlgorithm::tree);
  REQUIRE(cost.choice.protocol == NcclProtocol::ll);
  // 2 S of a node over 8 NICs, 8 bytes on the wire for 4
  CHECK(bytes_of(cost, "nic") == doctest::Approx(2.0 * static_cast<double>(size) * 2 / 8));
  CHECK(cost.bytes_sent_inter == doctest::Approx(2.0 * static_cast<double>(size) / 8));
  // a chain of 8 GPUs: 7 hops, S up and S down each
  CHECK(cost.bytes_sent_intra == doctest::Approx(14.0 / 8 * static_cast<double>(size)));
}

TEST_CASE("the weakest node of an uneven communicator sets channels and speeds") {
  // 20 ranks: two nodes of 8 and one of 4. Four H100 of a node find 8 rings of 24 GB/s, all eight
  // find 8 of 48.
  const Collectives uneven(cluster_of("dgx-h100", {.gpus = 20}), {1, 20});
  CHECK(uneven.ranks(Axis::world) == 20);
  CHECK(uneven.nodes(Axis::world) == 3);
  const std::string text = uneven.describe(Axis::world);
  CHECK(text.find("20 ranks on 3 nodes; ring 8 x 24/24 GB/s NVL/PXN") != std::string::npos);
  const Collectives even(cluster_of("dgx-h100", {.gpus = 24}), {1, 24});
  const auto seconds = [](const Collectives& collectives) {
    return collectives
        .cost(Axis::world, CollectiveKind::all_gather, gib, Dtype::bf16, Reduction::none)
        .seconds;
  };
  CHECK(seconds(uneven) > 1.5 * seconds(even));
}

TEST_CASE("a hybrid mesh costs the same on 16 and on 16,384 GPUs where it is the same") {
  const Collectives small(cluster_of("dgx-h100", {.gpus = 16}), {2, 8});
  const Collectives large(cluster_of("dgx-h100", {.gpus = 16384}), {2048, 8});
  const auto cost = [](const Collectives& collectives) {
    return collectives.cost(Axis::shard, CollectiveKind::all_gather, 100 * mib, Dtype::bf16,
                            Reduction::none);
  };
  CHECK(cost(small).seconds == cost(large).seconds);
  CHECK(small.describe(Axis::shard) == large.describe(Axis::shard));
}

TEST_CASE("without GPUDirect RDMA the NICs' traffic goes through the host and is slower") {
  const auto cost = [](bool gpudirect) {
    const Collectives collectives(cluster_of("dgx-a100", {.nodes = 2, .gpudirect_rdma = gpudirect}),
                                  {1, 16});
    return collectives.cost(Axis::world, CollectiveKind::all_gather, gib, Dtype::bf16,
                            Reduction::none);
  };
  const CollectiveCost direct = cost(true);
  const CollectiveCost staged = cost(false);
  // A ring for each of 8 NICs at 24 GB/s, all over the switches. Through the host, what a switch's
  // GPU sends and what its NIC received both go up the one link to the CPU, 24 GB/s: one ring of 12
  // for each of 4 switches, a quarter of the speed.
  const double sent = 15.0 / 16 * static_cast<double>(gib);
  CHECK(direct.predicted.wire_us == doctest::Approx(sent / (8 * 24e9) * 1e6));
  CHECK(staged.predicted.wire_us == doctest::Approx(sent / (4 * 12e9) * 1e6));
  CHECK(staged.predicted.latency_us == doctest::Approx(direct.predicted.latency_us));
  CHECK(seconds_of(direct, "pcie") == doctest::Approx(sent / 8 / 24e9));
  CHECK(seconds_of(staged, "pcie") == doctest::Approx(2 * sent / 4 / 24e9));
}

TEST_CASE(
    "an oversubscribed fabric slows replicas on different leaves, not one ring in node order") {
  ClusterOptions options;
  options.nodes = 64;
  options.fabric = FabricKind::rail_optimised;
  options.leaf_ports = 32;
  options.oversubscription = 4;
  const Bytes size = gib;
  const auto cost = [&](Mesh mesh, Axis axis) {
    const Collectives collectives(cluster_of("dgx-h100", options), mesh);
    return collectives.cost(axis, CollectiveKind::all_reduce, size, Dtype::fp32, Reduction::avg);
  };
  // Shard groups of 32 nodes, a leaf each; every replica's partner is on the other leaf. All 256
  // GPUs of a leaf send S through uplinks of 32 * 8 * 50 / 4 GB/s: 4 times the NICs' time.
  const CollectiveCost replicas = cost({2, 256}, Axis::replicate);
  CHECK(seconds_of(replicas, "nic") == doctest::Approx(static_cast<double>(size) / 50e9));
  CHECK(seconds_of(replicas, "fabric") == doctest::Approx(4 * seconds_of(replicas, "nic")));
  CHECK(replicas.seconds == doctest::Approx(seconds_of(replicas, "fabric")));
  // Shard groups do not leave their leaf.
  CHECK(load_of(cost({2, 256}, Axis::shard), "fabric") == nullptr);
  // One communicator of all: a ring leaves each leaf once, a tree by few edges.
  const CollectiveCost world = cost({2, 256}, Axis::world);
  CHECK(seconds_of(world, "fabric") > 0);
  CHECK(seconds_of(world, "fabric") < seconds_of(world, "nic") / 2);
  options.oversubscription = 1;
  CHECK(seconds_of(cost({2, 256}, Axis::replicate), "fabric") ==
        doctest::Approx(seconds_of(replicas, "nic")));
}

TEST_CASE("switches beyond the first delay the steps that pass them, and never the choice") {
  const auto delay = [](ClusterOptions options, NcclAlgorithm algorithm, CollectiveKind kind) {
    options.nodes = 64;
    options.leaf_ports = 32;
    const Cluster cluster = cluster_of("dgx-h100", options);
    return fabric_delay_us(cluster, {.ranks = 512, .nodes = 64, .node_stride = 1, .masks = {0xff}},
                           kind, algorithm);
  };
  constexpr CollectiveKind gather = CollectiveKind::all_gather;
  constexpr CollectiveKind reduce = CollectiveKind::all_reduce;
  // InfiniBand, 0.13 us a switch. Two of a ring's 63 steps leave a leaf, by two switches more.
  CHECK(delay({}, NcclAlgorithm::ring, gather) == doctest::Approx(2 * 2 * 0.13));
  CHECK(delay({}, NcclAlgorithm::ring, reduce) == doctest::Approx(4 * 2 * 0.13));
  // Of a tree's six levels one, up and down: 32 nodes, five levels, lie on a leaf.
  CHECK(delay({}, NcclAlgorithm::tree, reduce) == doctest::Approx(2 * 2 * 0.13));
  // RoCE's switches take 0.5 us.
  CHECK(delay({.network = "roce"}, NcclAlgorithm::ring, gather) == doctest::Approx(2 * 2 * 0.5));
  CHECK(delay({.fabric = FabricKind::single_switch}, NcclAlgorithm::ring, gather) == 0);
  // A dragonfly passes two switches in a group and four between two: 61 and 2 steps.
  CHECK(delay({.fabric = FabricKind::dragonfly}, NcclAlgorithm::ring, gather) ==
        doctest::Approx((2 * 3 + 61) * 0.13));
  // It is in the forecast's time, on top of NCCL's.
  const auto cost = [](FabricKind fabric) {
    ClusterOptions options{.nodes = 64};
    options.fabric = fabric;
    options.leaf_ports = 32;
    const Collectives collectives(cluster_of("dgx-h100", options), {1, 512});
    return collectives.cost(Axis::world, gather, mib, Dtype::bf16, Reduction::none);
  };
  const CollectiveCost near = cost(FabricKind::single_switch);
  const CollectiveCost far = cost(FabricKind::rail_optimised);
  CHECK(words(near.choice) == words(far.choice));
  CHECK(near.seconds * 1e6 == doctest::Approx(near.choice.predicted_us));
  CHECK(far.seconds - near.seconds == doctest::Approx(2 * 2 * 0.13e-6).epsilon(1e-4));
}

TEST_CASE("edges of a double binary tree that leave a block of nodes, by hand") {
  // 4 nodes. First tree: 2 under 0, 1 and 3 under 2. Second, mirrored: 1 under 3, 2 and 0 under 1.
  // Blocks {0,1} {2,3}: first tree 0-2 and 1-2 cross, second 3-1 and 2-1.
  CHECK(tree_edges_leaving(4, 2) == 4);
  CHECK(tree_edges_leaving(2, 1) == 2);    // one edge in each tree
  CHECK(tree_edges_leaving(16, 16) == 0);  // one block
}

TEST_CASE("bus bandwidth is nccl-tests': the factor of the function times size over time") {
  CHECK(bus_bandwidth_gbps(CollectiveKind::all_reduce, 1'000'000'000, 0.01, 8) ==
        doctest::Approx(100 * 1.75));
  CHECK(bus_bandwidth_gbps(CollectiveKind::all_gather, 1'000'000'000, 0.01, 8) ==
        doctest::Approx(100 * 0.875));
  CHECK(bus_bandwidth_gbps(CollectiveKind::reduce_scatter, 1'000'000'000, 0.01, 4) ==
        doctest::Approx(75));
  CHECK(bus_bandwidth_gbps(CollectiveKind::broadcast, 1'000'000'000, 0.01, 8) ==
        doctest::Approx(100));
  CHECK(bus_bandwidth_gbps(CollectiveKind::reduce, 1'000'000'000, 0, 8) == 0);
}

TEST_CASE("a network NCCL's latencies were not made for is marked as extrapolated") {
  const auto provenance = [](const std::string& network) {
    ClusterOptions options;
    options.nodes = 2;
    options.network = network;
    const Collectives collectives(cluster_of("dgx-h100", options), {1, 16});
    return collectives
        .cost(Axis::world, CollectiveKind::all_gather, mib, Dtype::bf16, Reduction::none)
        .provenance;
  };
  CHECK(provenance("infiniband") == Provenance::modelled);
  CHECK(provenance("efa") == Provenance::extrapolated);
}

TEST_CASE("an unknown NCCL version is an input error that lists the known ones") {
  const Cluster cluster = cluster_of("dgx-h100", {.nodes = 1});
  try {
    const Collectives collectives(cluster, {1, 8}, {.nccl_version = "2.99"});
    FAIL("accepted");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find("2.28.9") != std::string::npos);
  }
}

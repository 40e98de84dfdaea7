// NVLink domains over many trays (GB200 NVL72): a domain is what NCCL calls a node.

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "sim/collectives/collective_cost.hpp"

using namespace stepcast;

namespace {

CollectiveCost all_reduce(const ClusterOptions& options, Bytes bytes) {
  const Cluster cluster = make_cluster(load_machine("gb200-nvl72"), options);
  const Mesh mesh{.replicate = cluster.world_size, .shard = 1};
  return Collectives(cluster, mesh)
      .cost(Axis::world, CollectiveKind::all_reduce, bytes, Dtype::fp32, Reduction::sum);
}

constexpr Bytes one_gib = Bytes{1} << 30;

}  // namespace

TEST_CASE("72 GPUs of one NVLink domain reduce in the switch, published is a busbw of 839 GB/s") {
  // 4 GiB in 10,094 us: github.com/coreweave/nccl-tests, README.md, cb86553328f8.
  const CollectiveCost cost = all_reduce({.nodes = 1}, 4 * one_gib);
  MESSAGE(words(cost.choice), ": ", cost.busbw_gbps, " GB/s");
  CHECK(cost.choice.algorithm == NcclAlgorithm::nvls);
  CHECK(cost.bytes_sent_inter == 0);  // no NIC
  CHECK(cost.busbw_gbps > 839 * 0.85);
  CHECK(cost.busbw_gbps < 839 * 1.15);
}

TEST_CASE("two NVLink domains meet over InfiniBand, four NICs a tray") {
  const CollectiveCost one = all_reduce({.nodes = 1}, one_gib);
  const CollectiveCost two = all_reduce({.nodes = 2}, one_gib);
  MESSAGE(words(two.choice), ": ", two.busbw_gbps, " GB/s");
  CHECK(two.bytes_sent_inter > 0);
  CHECK(two.seconds > one.seconds);
  // Twenty racks were published to take two to five times as long.
  CHECK(one.provenance == Provenance::modelled);
  CHECK(two.provenance == Provenance::extrapolated);
}

TEST_CASE("GPUs of a domain need not fill it: 8 of two trays, or the 36 of an NVL36") {
  CHECK(all_reduce({.gpus = 8}, one_gib).bytes_sent_inter == 0);
  const CollectiveCost half = all_reduce({.nodes = 2, .gpus_per_node = 36}, one_gib);
  CHECK(half.bytes_sent_inter > 0);
}

TEST_CASE("a communicator knows GPUs above the 64th of its node") {
  const Cluster cluster = make_cluster(load_machine("gb200-nvl72"), {.nodes = 1});
  // Groups of 8: the last is GPUs 64 to 71.
  const Collectives collectives(cluster, {.replicate = 9, .shard = 8});
  CHECK(collectives.ranks(Axis::shard) == 8);
  CHECK(collectives.nodes(Axis::replicate) == 1);
  const CollectiveCost cost = collectives.cost(Axis::shard, CollectiveKind::all_gather, one_gib,
                                               Dtype::bf16, Reduction::none);
  CHECK(cost.seconds > 0);
  CHECK(cost.bytes_sent_inter == 0);
}

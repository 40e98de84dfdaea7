// HSDP's step on 4 DGX H100 where a shard group is half a node and where it is two nodes: which
// collectives leave the node, and that each takes in the step what NCCL's prediction, worked out by
// hand, says of it alone. Of a block of GPT-2's 7,087,872 parameters 14,175,744 bytes are gathered
// (bf16), 28,351,488 scattered (fp32), and a shard of the latter is reduced over the replicas.

#include <doctest/doctest.h>

#include "sim/forecast/forecast.hpp"

using namespace stepcast;

namespace {

constexpr Bytes block = 7'087'872;

Forecast hsdp(int shard_group) {
  return forecast(parse_scenario(
      "model = \"gpt2\"\ncluster = \"dgx-h100\"\nnodes = 4\nmicro_batch = 8\nengine = \"formula\"\n"
      "collective_corrections = false\nstrategy = \"hsdp\"\nshard_group = " +
          std::to_string(shard_group) + "\n",
      "s.toml"));
}

// What the step has of a kind for one block.
const CollectiveRow& of_block(const Forecast& f, CollectiveKind kind, Bytes bytes) {
  for (const CollectiveRow& row : f.report.collectives) {
    if (row.kind == kind && row.bytes == bytes) return row;
  }
  REQUIRE_MESSAGE(false, "no such collective");
  return f.report.collectives.front();
}

// In the step it takes what it takes alone, in us, of which the bytes alone take `wire`.
void check_time(const CollectiveRow& row, double latency, double wire) {
  CAPTURE(to_string(row.kind));
  CHECK(row.cost.predicted.latency_us == doctest::Approx(latency));
  CHECK(row.cost.predicted.wire_us == doctest::Approx(wire));
  CHECK(row.mean_seconds * 1e6 == doctest::Approx(latency + wire));
}

}  // namespace

TEST_CASE("shard groups of 4 on nodes of 8 gather within the node, 8 replicas on 4 nodes reduce") {
  const Forecast f = hsdp(4);
  CHECK(f.resolved.step.mesh.replicate == 8);
  const auto& gather = of_block(f, CollectiveKind::all_gather, 2 * block);
  const auto& scatter = of_block(f, CollectiveKind::reduce_scatter, 4 * block);
  const auto& reduce = of_block(f, CollectiveKind::all_reduce, block);  // 4 bytes over 4 ranks

  // Ring/Simple over 4 GPUs of a node: 8.4 us and 3 steps of 3.4, 12 channels of 30 GB/s.
  const double s = static_cast<double>(block);
  check_time(gather, 8.4 + 3 * 3.4, 3.0 / 4 * 2 * s / 360e3);
  check_time(scatter, 8.4 + 3 * 3.4, 3.0 / 4 * 4 * s / 360e3);
  CHECK(bytes_sent_inter(gather) + bytes_sent_inter(scatter) == 0);

  // Ring/LL128 over 2 GPUs on each of 4 nodes: of 14 steps 6 cross nodes, 14 us, 1.9 and 4 a step;
  // 4 channels of 24 GB/s, of which LL128 carries 0.92.
  check_time(reduce, 14 + 8 * 1.9 + 6 * 4, 2 * 7.0 / 8 * s / (0.92 * 96e3));
  CHECK(reduce.busbw_gbps == doctest::Approx(64.055).epsilon(1e-4));
  // Of a ring's two hops a node one stays in it.
  CHECK(bytes_sent_inter(reduce) == doctest::Approx(reduce.calls * 7.0 / 8 * s));
  CHECK(bytes_sent_intra(reduce) == doctest::Approx(bytes_sent_inter(reduce)));
}

TEST_CASE("shard groups of 16 on nodes of 8 gather across two nodes, as do the pairs of replicas") {
  const Forecast f = hsdp(16);
  CHECK(f.resolved.step.mesh.replicate == 2);
  const auto& gather = of_block(f, CollectiveKind::all_gather, 2 * block);
  const auto& scatter = of_block(f, CollectiveKind::reduce_scatter, 4 * block);
  const auto& reduce = of_block(f, CollectiveKind::all_reduce, block / 4);

  // Ring/LL128 over 16 GPUs on two nodes: of 15 steps one crosses; 8 channels, of which LL128
  // carries 36.7 GB/s on Hopper.
  const double s = static_cast<double>(block);
  check_time(gather, 14 + 14 * 1.9 + 4, 15.0 / 16 * 2 * s / (8 * 36.7e3));
  check_time(scatter, 14 + 14 * 1.9 + 4, 15.0 / 16 * 4 * s / (8 * 36.7e3));
  // Each of the 8 GPUs of a node sends through its NIC an eighth of what the ring sends.
  CHECK(bytes_sent_inter(gather) == doctest::Approx(gather.calls * 15.0 / 16 * 2 * s / 8));
  CHECK(bytes_sent_intra(gather) == doctest::Approx(7 * bytes_sent_inter(gather)));

  // Ring/LL128 over one GPU on each of two nodes, where NCCL takes a tree's 8.5 us for a step; 2
  // channels of 24 GB/s. Nothing stays in a node.
  check_time(reduce, 14 + 2 * 8.5, s / 4 / (0.92 * 48e3));
  CHECK(reduce.busbw_gbps == doctest::Approx(24.913).epsilon(1e-4));
  CHECK(bytes_sent_inter(reduce) == doctest::Approx(reduce.calls * s / 4));
  CHECK(bytes_sent_intra(reduce) == 0);
}

TEST_CASE("a step's collectives cost what their communicators cost alone, for groups of 4 to 16") {
  for (const int group : {4, 8, 16}) {
    CAPTURE(group);
    const Forecast f = hsdp(group);
    const Collectives alone(f.resolved.cluster, f.resolved.step.mesh, f.resolved.collectives);
    CHECK(alone.nodes(Axis::shard) == (group + 7) / 8);
    CHECK(alone.nodes(Axis::replicate) == (group == 16 ? 2 : 4));
    REQUIRE(!f.report.collectives.empty());
    for (const CollectiveRow& row : f.report.collectives) {
      CAPTURE(to_string(row.kind));
      CHECK(row.axis == (row.kind == CollectiveKind::all_reduce ? Axis::replicate : Axis::shard));
      const Reduction reduction =
          row.kind == CollectiveKind::all_gather ? Reduction::none : Reduction::avg;
      const CollectiveCost cost = alone.cost(row.axis, row.kind, row.bytes, row.dtype, reduction);
      CHECK(row.mean_seconds == doctest::Approx(cost.seconds));
      CHECK(row.cost.seconds == cost.seconds);
      CHECK((bytes_sent_inter(row) > 0) == (alone.nodes(row.axis) > 1));
    }
  }
}

// E-18: bytes sent a GPU and step, 7e9 parameters on 8 GPUs, textbook and as the framework runs it.

#include "sim/forecast/volume_comparison.hpp"

#include <doctest/doctest.h>

using namespace stepcast;

namespace {

Scenario of_params(double count, std::int64_t gpus, std::int64_t accumulation = 1) {
  Scenario s;
  s.params = count;
  s.gpus = gpus;
  s.accumulation = accumulation;
  return s;
}

const VolumeComparisonRow& find(const VolumeComparison& c, const std::string& strategy) {
  for (const VolumeComparisonRow& row : c.rows) {
    if (row.strategy == strategy) return row;
  }
  FAIL("no row " << strategy);
  return c.rows.front();
}

void check(const VolumeComparison& c, const char* strategy, double textbook, double framework) {
  CAPTURE(strategy);
  CHECK(find(c, strategy).textbook.total() == doctest::Approx(textbook * 1e9));
  CHECK(find(c, strategy).framework.total() == doctest::Approx(framework * 1e9));
  CHECK(find(c, strategy).framework.inter == 0);
}

}  // namespace

TEST_CASE("E-18: one micro-batch on one node") {
  const VolumeComparison c = volume_comparison(of_params(7e9, 8));
  check(c, "ddp", 24.5, 49);       // fp32 gradients
  check(c, "zero1", 24.5, 36.75);  // all-reduce where a reduce-scatter would do
  check(c, "zero2", 24.5, 36.75);
  check(c, "zero3", 36.75, 36.75);
  check(c, "fsdp2", 36.75, 49);  // reduced in fp32
  check(c, "hsdp", 36.75, 49);   // one group: fsdp2
}

TEST_CASE("E-18: four micro-batches, gradients kept until the last where the framework can") {
  const VolumeComparison c = volume_comparison(of_params(7e9, 8, 4));
  CHECK(find(c, "ddp").framework.total() == doctest::Approx(49e9));
  CHECK(find(c, "zero2").framework.total() == doctest::Approx(110.25e9));
  CHECK(find(c, "zero3").framework.total() == doctest::Approx(147e9));
  // Eight gathers of 12.25 and one fp32 reduce-scatter of 24.5 GB.
  CHECK(find(c, "fsdp2").framework.total() == doctest::Approx(8 * 12.25e9 + 24.5e9));
}

TEST_CASE("E-18: HSDP 8 x R sends 2 (R-1)/R of a shard between nodes, twice that in fp32") {
  const double shard = 1.75e9;  // 16 bit
  for (const int r : {2, 4, 8}) {
    const VolumeComparison c = volume_comparison(of_params(7e9, 8 * r));
    CHECK(find(c, "hsdp").textbook.intra == doctest::Approx(36.75e9));
    CHECK(find(c, "hsdp").textbook.inter == doctest::Approx(2.0 * (r - 1) / r * shard));
    CHECK(find(c, "hsdp").framework.inter == doctest::Approx(4.0 * (r - 1) / r * shard));
    // A world ring over r nodes of 8 leaves each node once: an eighth is between nodes.
    const SentBytes fsdp2 = find(c, "fsdp2").textbook;
    CHECK(fsdp2.inter == doctest::Approx(fsdp2.total() / 8));
    CHECK(fsdp2.total() == doctest::Approx(3.0 * (8 * r - 1) / (8 * r) * 14e9));
  }
}

TEST_CASE("nn.DataParallel: GPU 0 sends a copy to each in textbooks, one along NCCL's chain") {
  const VolumeComparison c = volume_comparison(of_params(7e9, 8));
  check(c, "dp", 7 * 14, 28);  // 16-bit copies; 4 bytes once
  // It has no no_sync: parameters go out in each of three micro-batches.
  check(volume_comparison(of_params(7e9, 8, 3)), "dp", 7 * 14, 84);
  check(volume_comparison(of_params(7e9, 1)), "dp", 0, 0);
  for (const VolumeComparisonRow& row : volume_comparison(of_params(7e9, 16)).rows) {
    CHECK(row.strategy != "dp");
  }
  // The schedule: parameters of GPT-2 once (no buffers), and 7/8 of the gradient of all outputs,
  // 8 x 1,024 x 50,257 in 16 bit.
  Scenario s;
  s.model = "gpt2";
  s.cluster = "dgx-a100";
  const VolumeComparison gpt2 = volume_comparison(s);
  REQUIRE(find(gpt2, "dp").scheduled.has_value());
  CHECK(find(gpt2, "dp").scheduled->intra ==
        doctest::Approx(4 * 124'439'808.0 + 7.0 * 1024 * 50257 * 2).epsilon(1e-6));
}

TEST_CASE("hpZ on 8 nodes of 8: one global gather, the others in the node, reductions global") {
  // Global over 64: 63/64 x 14 = 13.78125 GB, an eighth between nodes; in the node 7/8 x 14
  // = 12.25.
  const double global = 14e9 * 63 / 64;
  const SentBytes one = find(volume_comparison(of_params(7e9, 64)), "zero3 hpZ").framework;
  CHECK(one.inter == doctest::Approx(2 * global / 8));
  CHECK(one.intra == doctest::Approx(2 * global * 7 / 8 + 12.25e9));
  // Three micro-batches: six gathers, of which one is global, and three reductions.
  const SentBytes three = find(volume_comparison(of_params(7e9, 64, 3)), "zero3 hpZ").framework;
  CHECK(three.inter == doctest::Approx(4 * global / 8));
  CHECK(three.total() == doctest::Approx(4 * global + 5 * 12.25e9));
}

TEST_CASE("a shard group within a node: some of its replicas are in the node too") {
  Scenario s = of_params(7e9, 16);
  s.shard_group = 4;  // four groups, two in each node
  const SentBytes sent = find(volume_comparison(s), "hsdp").textbook;
  // Gathers and reduce-scatter 3 x 3/4 x 14; all-reduce of a fourth: 2 x 3/4 x 3.5 = 5.25 GB, of
  // whose ring half the hops leave the node.
  CHECK(sent.inter == doctest::Approx(2.625e9));
  CHECK(sent.intra == doctest::Approx(31.5e9 + 2.625e9));
}

TEST_CASE("a model on a machine sends what its schedule says: rings give the closed form") {
  Scenario s;
  s.model = "llama-2-7b";
  s.cluster = "dgx-a100";  // no in-switch reduction
  s.nodes = 1;
  const VolumeComparison c = volume_comparison(s);
  s.nodes = 2;
  const VolumeComparison two = volume_comparison(s);
  REQUIRE(find(two, "zero3 hpZ").scheduled.has_value());
  const double hpz = find(two, "zero3 hpZ").scheduled->total();
  CHECK(hpz == doctest::Approx(find(two, "zero3 hpZ").framework.total()).epsilon(0.03));
  CHECK(hpz < find(two, "zero3").scheduled->total());
  for (const char* strategy : {"ddp", "zero2", "fsdp1 FULL_SHARD", "fsdp2"}) {
    CAPTURE(strategy);
    REQUIRE(find(c, strategy).scheduled.has_value());
    const double scheduled = find(c, strategy).scheduled->total();
    const double closed = find(c, strategy).framework.total();
    // The root is gathered once, not twice (up to a 26th of the model here).
    CHECK(scheduled <= closed * 1.001);
    CHECK(scheduled >= closed * 0.97);
  }
}

// The ceiling of data parallelism: a ring's latency grows with the ranks, however fast the wires.
#include <doctest/doctest.h>

#include "base/error.hpp"
#include "sim/advise/scaling.hpp"
#include "sim/forecast/forecast.hpp"

using namespace stepcast;

namespace {

const Where flag{"--nccl", 0, ""};

CollectiveCost all_reduce(const std::string& variables, Bytes bytes) {
  CollectiveOptions options;
  options.environment.set_all(variables, flag);
  const Cluster cluster = make_cluster(load_machine("dgx-h100"), {.nodes = 64});
  const Collectives collectives(cluster, {.replicate = cluster.world_size, .shard = 1}, options);
  return collectives.cost(Axis::world, CollectiveKind::all_reduce, bytes, Dtype::fp32,
                          Reduction::sum);
}

// GPT-2 medium, 354.8 M parameters under DDP, 4 sequences a GPU, on DGX H100.
Scenario ddp(int nodes, int gpus, const std::string& variables = "") {
  return parse_scenario(
      "model = \"gpt2-medium\"\ncluster = \"dgx-h100\"\nstrategy = \"ddp\"\n"
      "engine = \"formula\"\nmicro_batch = 4\nnodes = " +
          std::to_string(nodes) + "\ngpus = " + std::to_string(gpus) + "\n" +
          (variables.empty() ? "" : "nccl = \"" + variables + "\"\n"),
      "test");
}

const std::string ring = "NCCL_ALGO=Ring";
const std::string simple_ring = "NCCL_ALGO=Ring NCCL_PROTO=Simple";

Report report(const Scenario& scenario) { return forecast(resolve(scenario)).report; }

double calls(const Report& r) {
  double sum = 0;
  for (const CollectiveRow& row : r.collectives) sum += row.calls;
  return sum;
}

}  // namespace

TEST_CASE("a 25 MiB all-reduce on 64 nodes of 8 H100: 6.75 ms of latency by ring, 232 us by tree") {
  // Ring/Simple: 2 (512 - 1) steps, of which 2 (64 - 1) = 126 between nodes and 896 within:
  //   8.4 + 896 * 3.4 + 126 * 14 = 4,818.8 us; times 1.4 where a channel and rank has 64 bytes and
  //   more: 6,746.3 us. Tree/Simple: 232.4 us. Eight bytes take no time but latency.
  const CollectiveCost small_ring = all_reduce("NCCL_ALGO=Ring NCCL_PROTO=Simple", 8);
  CHECK(small_ring.choice.predicted_us == doctest::Approx(4818.8).epsilon(1e-4));
  const CollectiveCost small_tree = all_reduce("NCCL_ALGO=Tree NCCL_PROTO=Simple", 8);
  CHECK(small_tree.choice.predicted_us == doctest::Approx(232.4).epsilon(1e-4));
  // 25 MiB twice through 8 channels of 48 GB/s, 384 GB/s: 2 * 511/512 * 26,214,400 / 384e9 = 136
  // us.
  const CollectiveCost large = all_reduce("NCCL_ALGO=Ring NCCL_PROTO=Simple", 25 << 20);
  CHECK(large.choice.predicted_us == doctest::Approx(6746.3 + 136.3).epsilon(0.002));
}

TEST_CASE("Ring/Simple: 64 more nodes cost DDP what its calls pay for 64 x 16 steps more") {
  // A node more: 14 steps within and 2 between, (14 * 3.4 + 2 * 14) * 1.4 = 105.84 us, and twice
  // the 1.94 us that InfiniBand's steps were measured to take longer: 109.7 us a call. The step is
  // nothing but all-reduces by then, so it grows by that times the calls.
  const Report at_64 = report(ddp(64, 512, simple_ring));
  const Report at_128 = report(ddp(128, 1024, simple_ring));
  const double by_hand = calls(at_64) * 64 * (105.84 + 2 * 1.94) * 1e-6;
  CHECK(at_128.step_time - at_64.step_time == doctest::Approx(by_hand).epsilon(0.02));
}

TEST_CASE("DDP to 4,096 GPUs: rings reach their ceiling by latency, NCCL's own choice does not") {
  const ScalingLimit by_ring = scaling_limit(ddp(2, 16, ring), 512);
  REQUIRE(by_ring.found);
  CHECK(by_ring.limit.gpus < 256);
  CHECK(by_ring.limit.gain < 0.5);
  CHECK(by_ring.cause == "tail_all_reduce");
  CHECK(reason(by_ring) == "ring latency");
  CHECK(by_ring.latency_grew > 5 * by_ring.bytes_grew);
  const ScalingLimit own = scaling_limit(ddp(2, 16), 512);
  CHECK_FALSE(own.found);
  CHECK(own.points.back().gpus == 4096);
}

TEST_CASE("DDP's memory a GPU is the same at every size, NCCL's buffers apart") {
  const auto without_nccl = [](const Report& r) {
    Bytes sum = 0;
    for (const MemoryRow& row : r.memory.front().rows) {
      if (row.kind != "nccl") sum += row.bytes;
    }
    return sum;
  };
  const Report two = report(ddp(1, 2));
  for (const int gpus : {8, 64, 512, 4096}) {
    const Report r = report(ddp(gpus / 8, gpus));
    CAPTURE(gpus);
    CHECK(without_nccl(r) == without_nccl(two));
  }
  CHECK(report(ddp(512, 4096)).memory.front().peak == report(ddp(2, 16)).memory.front().peak);
}

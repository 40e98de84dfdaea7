// Scatter and gather as copies, and NCCL without peer access, worked by hand.

#include "sim/collectives/peer_copies.hpp"

#include <doctest/doctest.h>

#include "sim/collectives/collective_cost.hpp"
#include "sim/collectives/nccl/link_speeds.hpp"

using namespace stepcast;

namespace {

CollectiveCost cost_on(const std::string& machine, int gpus, CollectiveKind kind, Bytes bytes) {
  const Cluster cluster = make_cluster(load_machine(machine), {.gpus = gpus});
  const Collectives collectives(cluster, {gpus, 1});
  const Reduction reduction = kind == CollectiveKind::all_reduce ? Reduction::sum : Reduction::none;
  return collectives.cost(Axis::world, kind, bytes, Dtype::fp32, reduction);
}

constexpr Bytes size = 1'200'000'000;

}  // namespace

TEST_CASE("a scatter goes copy by copy, a gather shares the root's link") {
  // 8 GPUs behind NVSwitch, 18 links of 20.6 GB/s: both are limited by the root's own links.
  const double part = size / 8.0;
  const double gbps = 18 * 20.6e9;
  const CollectiveCost scatter = cost_on("dgx-h100", 8, CollectiveKind::scatter, size);
  CHECK(scatter.seconds == doctest::Approx(7 * (peer_copy_start + part / gbps)));
  const CollectiveCost gather = cost_on("dgx-h100", 8, CollectiveKind::gather, size);
  CHECK(gather.seconds == doctest::Approx(peer_copy_start + 7 * part / gbps));
  for (const CollectiveCost& cost : {scatter, gather}) {
    REQUIRE(cost.loads.size() == 1);
    CHECK(cost.loads.front().resource == Name("nvlink"));
    CHECK(cost.loads.front().bytes == doctest::Approx(7 * part));
    CHECK(cost.sm_share == 0);
    CHECK(cost.bytes_sent_intra == doctest::Approx(7 * part / 8));  // a GPU, on average
    CHECK(words(cost.choice) == "peer copies");
    CHECK(cost.provenance == Provenance::modelled);
  }
}

TEST_CASE("direct NVLinks to each peer: the gather uses all, the scatter one at a time") {
  // hgx-a100 of 4: 4 links of 20 GB/s between every two GPUs.
  const double part = size / 4.0;
  const CollectiveCost scatter = cost_on("perlmutter-a100", 4, CollectiveKind::scatter, size);
  const CollectiveCost gather = cost_on("perlmutter-a100", 4, CollectiveKind::gather, size);
  CHECK(scatter.seconds == doctest::Approx(3 * (peer_copy_start + part / 80e9)));
  CHECK(gather.seconds == doctest::Approx(peer_copy_start + part / 80e9));
}

TEST_CASE("without peer access a copy crosses both GPUs' PCIe and its speed is assumed") {
  // AMD, Gen4 x16: 24 GB/s by NCCL's figures.
  const CollectiveCost gather = cost_on("rtx-3090-2x-nobridge", 2, CollectiveKind::gather, size);
  CHECK(gather.seconds == doctest::Approx(peer_copy_start + size / 2.0 / 24e9));
  CHECK(gather.loads.front().resource == Name("pcie"));
  CHECK(gather.provenance == Provenance::assumed);
}

TEST_CASE("DGX-1V: GPUs that only an NVLink neighbour joins copy by way of the CPUs") {
  // GPU 0 has NVLinks to 1, 2, 3 and 4; 5, 6, 7 are reached over PCIe Gen3 x16.
  const double part = size / 8.0;
  const CollectiveCost scatter = cost_on("dgx-1v", 8, CollectiveKind::scatter, size);
  bool pcie = false;
  for (const LinkLoad& load : scatter.loads) pcie = pcie || load.resource == Name("pcie");
  CHECK(pcie);
  CHECK(scatter.seconds > 3 * part / 12e9);
}

TEST_CASE("NCCL without peer access moves what shared host memory was measured to") {
  CollectiveOptions options;
  options.corrections = std::make_shared<const Corrections>();
  const Cluster cluster = make_cluster(load_machine("titan-rtx-2x-nobridge"), {});
  const Collectives collectives(cluster, {.replicate = 2, .shard = 1}, options);
  const CollectiveCost staged =
      collectives.cost(Axis::world, CollectiveKind::all_reduce, size, Dtype::fp32, Reduction::sum);
  // A ring of two sends the tensor once; Gen3 x16 is half of the Gen4 that was measured.
  CHECK(staged.seconds == doctest::Approx(size / (nccl::shared_memory_gbps / 2 * 1e9)));
  CHECK(staged.provenance == Provenance::extrapolated);
  const CollectiveCost bridged = cost_on("titan-rtx-2x", 2, CollectiveKind::all_reduce, size);
  CHECK(bridged.provenance == Provenance::modelled);
  CHECK(bridged.seconds < staged.seconds / 5);
  // NCCL chooses as before: it takes the path for PCIe's.
  CHECK(staged.choice.predicted_us < staged.seconds * 1e6 / 2);
  // Without corrections its prediction is left as it is.
  const Collectives plain(cluster, {.replicate = 2, .shard = 1});
  const CollectiveCost formula =
      plain.cost(Axis::world, CollectiveKind::all_reduce, size, Dtype::fp32, Reduction::sum);
  CHECK(formula.seconds * 1e6 == doctest::Approx(formula.choice.predicted_us));
}

TEST_CASE("shared host memory goes with the PCIe generation") {
  CollectiveOptions options;
  options.corrections = Corrections::shipped();
  const auto busbw = [&](const char* machine) {
    const Cluster cluster = make_cluster(load_machine(machine), {});
    const Collectives collectives(cluster, {.replicate = cluster.world_size, .shard = 1}, options);
    return collectives
        .cost(Axis::world, CollectiveKind::all_reduce, size, Dtype::fp32, Reduction::sum)
        .busbw_gbps;
  };
  const double gen4 = busbw("rtx-4090-8x");
  CHECK(gen4 > 3);
  CHECK(gen4 < 4.5);
  CHECK(busbw("rtx-5090-8x") == doctest::Approx(2 * gen4).epsilon(0.05));
  CHECK(busbw("rtx-pro-6000-8x") == doctest::Approx(2 * gen4).epsilon(0.05));
}

TEST_CASE("where NCCL's search finds nothing the links say how long, not its 0.1 GB/s") {
  // Two AMD sockets (16 GB/s to NCCL), and no speed below 18 is tried for GPUs from 10.0 on.
  const Cluster cluster = make_cluster(load_machine("rtx-5090-8x"), {});
  const Collectives collectives(cluster, {.replicate = 8, .shard = 1});
  CHECK(collectives.describe(Axis::world).find("ring none found") != std::string::npos);
  const CollectiveCost cost =
      collectives.cost(Axis::world, CollectiveKind::all_reduce, size, Dtype::fp32, Reduction::sum);
  // Rank order crosses once each way: 16 GB/s.
  CHECK(cost.busbw_gbps == doctest::Approx(16).epsilon(0.02));
}

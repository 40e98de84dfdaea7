// NCCL's model worked by hand, without its tables.

#include "sim/collectives/nccl/tuner.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "sim/collectives/nccl/rules.hpp"

using namespace stepcast;

namespace {

nccl::GraphResult graph(nccl::Pattern pattern, int channels, double intra, double inter) {
  nccl::GraphResult g;
  g.pattern = pattern;
  g.channels = channels;
  g.bw_intra = intra;
  g.bw_inter = inter;
  g.type_intra = nccl::PathType::nvl;
  g.type_inter = nccl::PathType::pix;
  g.same_channels = true;
  return g;
}

nccl::Tuner dgx_a100() {
  nccl::CommShape comm;
  comm.ranks = comm.max_local_ranks = 8;
  comm.min_compute_capability = comm.max_compute_capability = 80;
  comm.cpu_vendor = nccl::CpuVendor::amd;
  nccl::SearchResult search;
  search.ring = graph(nccl::Pattern::ring, 12, 20, 20);
  search.tree = graph(nccl::Pattern::balanced_tree, 12, 20, 20);
  return nccl::Tuner(nccl::constants("2.28.9"), comm, search);
}

nccl::Tuner dgx_h100() {
  nccl::CommShape comm;
  comm.ranks = comm.max_local_ranks = 8;
  comm.min_compute_capability = comm.max_compute_capability = 90;
  comm.nvls_supported = true;
  nccl::SearchResult search;
  search.ring = graph(nccl::Pattern::ring, 12, 30, 30);
  search.tree = graph(nccl::Pattern::balanced_tree, 12, 30, 30);
  search.nvls = graph(nccl::Pattern::nvls, 8, 40, 60);
  return nccl::Tuner(nccl::constants("2.28.9"), comm, search);
}

}  // namespace

TEST_CASE("DGX A100: latency and bandwidth of a ring all-reduce by hand") {
  const nccl::Tuner tuner = dgx_a100();
  const auto cell = [&](NcclProtocol p) {
    return tuner.model().at(CollectiveKind::all_reduce, NcclAlgorithm::ring, p);
  };
  CHECK(tuner.channels() == 24);
  // 14 steps; 6.6 + 14 * 0.6, min(87.7, 240 / 2) * 8/14
  CHECK(cell(NcclProtocol::ll).latency_us == doctest::Approx(15.0));
  CHECK(cell(NcclProtocol::ll).bandwidth_gbps == doctest::Approx(87.7 * 8 / 14));
  // 14 + 14 * 1.9, min(0.92 * 240, 12 * 20) * 8/14
  CHECK(cell(NcclProtocol::ll128).latency_us == doctest::Approx(40.6));
  CHECK(cell(NcclProtocol::ll128).bandwidth_gbps == doctest::Approx(220.8 * 8 / 14));
  // 8.4 + 14 * 3.4, 240 * 8/14
  CHECK(cell(NcclProtocol::simple).latency_us == doctest::Approx(56.0));
  CHECK(cell(NcclProtocol::simple).bandwidth_gbps == doctest::Approx(240.0 * 8 / 14));
}

TEST_CASE("DGX A100: the protocol changes with the size") {
  const nccl::Tuner tuner = dgx_a100();
  const auto choose = [&](std::int64_t mib) {
    return tuner.choose(CollectiveKind::all_reduce, mib << 20, Dtype::fp32, Reduction::sum);
  };
  CHECK(choose(1).protocol == NcclProtocol::ll);
  CHECK(choose(1).time_us == doctest::Approx(15.0 + 1048.576 / (87.7 * 8 / 14)));  // 35.9
  CHECK(choose(4).protocol == NcclProtocol::ll128);
  CHECK(choose(4).time_us == doctest::Approx(40.6 + 4194.304 / (220.8 * 8 / 14)));  // 73.8
  CHECK(choose(64).protocol == NcclProtocol::simple);
  CHECK(choose(64).time_us == doctest::Approx(56.0 + 67108.864 / (240.0 * 8 / 14)));  // 545
}

TEST_CASE("a ring takes a channel per full 32 KiB, LL128 one per 5 KiB, at most all") {
  const nccl::Tuner tuner = dgx_a100();
  const auto channels = [&](NcclProtocol p, std::int64_t bytes) {
    return nccl::launch_of(tuner.comm(), tuner.search(), CollectiveKind::all_reduce,
                           NcclAlgorithm::ring, p, bytes)
        .channels;
  };
  CHECK(channels(NcclProtocol::simple, 32 * kib) == 1);
  CHECK(channels(NcclProtocol::simple, 64 * kib - 1) == 1);
  CHECK(channels(NcclProtocol::simple, 64 * kib) == 2);
  CHECK(channels(NcclProtocol::ll, 96 * kib) == 3);
  CHECK(channels(NcclProtocol::ll128, 50 * kib) == 10);
  CHECK(channels(NcclProtocol::simple, gib) == 24);
}

TEST_CASE("DGX H100: NVLS all-reduce by hand, and not for averages or 8-bit types") {
  const nccl::Tuner tuner = dgx_h100();
  const nccl::Cell& cell =
      tuner.model().at(CollectiveKind::all_reduce, NcclAlgorithm::nvls, NcclProtocol::simple);
  CHECK(cell.latency_us == doctest::Approx(25));
  CHECK(cell.bandwidth_gbps == doctest::Approx(8 * 40 * 0.85 * 7 / 8 * 2 * 8 / 14));  // 272
  const auto choose = [&](Dtype dtype, Reduction reduction) {
    return tuner.choose(CollectiveKind::all_reduce, 22'000'000, dtype, reduction);
  };
  CHECK(choose(Dtype::bf16, Reduction::sum).algorithm == NcclAlgorithm::nvls);
  CHECK(choose(Dtype::bf16, Reduction::sum).time_us == doctest::Approx(25 + 22000.0 / 272));  // 106
  CHECK(choose(Dtype::bf16, Reduction::sum).launch.channels == 16);
  CHECK(choose(Dtype::bf16, Reduction::avg).algorithm == NcclAlgorithm::ring);
  CHECK(choose(Dtype::fp8, Reduction::sum).algorithm == NcclAlgorithm::ring);
  CHECK(choose(Dtype::fp32, Reduction::max).algorithm == NcclAlgorithm::ring);
}

TEST_CASE("broadcast and reduce are rings, NVLS gathers whatever the reduction") {
  const nccl::Tuner tuner = dgx_h100();
  for (const CollectiveKind f : {CollectiveKind::broadcast, CollectiveKind::reduce}) {
    for (const std::int64_t bytes : {kib, mib, gib}) {
      CHECK(tuner.choose(f, bytes, Dtype::fp32, Reduction::sum).algorithm == NcclAlgorithm::ring);
    }
  }
  CHECK(nccl::nvls_reduces(Dtype::bf16, Reduction::none));
  CHECK_FALSE(nccl::nvls_reduces(Dtype::bf16, Reduction::avg));
}

TEST_CASE("8-bit floats stay off rings of more than 8 ranks") {
  const nccl::Tuner eight = dgx_h100();
  const auto time = [](const nccl::Tuner& tuner, Dtype dtype) {
    return *tuner.time_us(CollectiveKind::all_reduce, NcclAlgorithm::ring, NcclProtocol::simple,
                          mib, dtype);
  };
  CHECK(time(eight, Dtype::fp8) == time(eight, Dtype::bf16));
  nccl::CommShape comm = eight.comm();
  comm.ranks = comm.max_local_ranks = 9;
  const nccl::Tuner nine(nccl::constants("2.28.9"), comm, eight.search());
  CHECK(time(nine, Dtype::fp8) == doctest::Approx(1024 * time(nine, Dtype::bf16)));
}

TEST_CASE("NCCL 2.30 caps Blackwell differently, and an unknown version is refused") {
  const nccl::Constants& old_constants = nccl::constants("2.28.9");
  const nccl::Constants& new_constants = nccl::constants("2.30.7");
  CHECK(old_constants.ring_ll128_per_channel_gbps[3][0] == doctest::Approx(73.4));
  CHECK(new_constants.ring_ll128_per_channel_gbps[3][0] == doctest::Approx(40));
  CHECK(old_constants.nvls_tree_per_channel_gbps[3][2] == doctest::Approx(43.8));
  CHECK(new_constants.nvls_tree_per_channel_gbps[3][2] == doctest::Approx(80));
  CHECK_THROWS_AS(nccl::constants("2.99.0"), InputError);
  CHECK(nccl::known_versions() == std::vector<std::string>{"2.28.9", "2.30.7"});
}

// What a collective loses by a slow link or a NIC that is down, by hand.

#include "sim/collectives/broken_links.hpp"

#include <doctest/doctest.h>

#include "sim/collectives/collective_cost.hpp"

using namespace stepcast;

namespace {

constexpr Bytes one_gib = Bytes{1} << 30;

Cluster two_nodes() { return make_cluster(load_machine("dgx-h100"), {.nodes = 2}); }

// An all-gather of 1 GiB over the axis, with these links of node 1 broken, as local GPU `gpu` has
// it.
CollectiveCost gathered(Mesh mesh, Axis axis, int gpu, std::vector<BrokenLink> links) {
  Collectives collectives(two_nodes(), mesh);
  if (!links.empty()) collectives.break_links(BrokenNode{1, gpu, std::move(links)});
  return collectives.cost(axis, CollectiveKind::all_gather, one_gib, Dtype::bf16, Reduction::sum);
}

constexpr BrokenLink slow_nic{BrokenLink::Kind::nic, 2, 0.5};
constexpr BrokenLink lost_nic{BrokenLink::Kind::nic, 2, 0};

}  // namespace

TEST_CASE("a NIC at half speed: twice its time, less what the fullest link took before") {
  // 15/16 of 1 GiB over 8 NICs of 50 GB/s: 2.5166 ms each; the slow one needs twice that. Until now
  // the PCIe links were the fullest, at the 48 GB/s that NCCL has for them: 2.6214 ms.
  const double nic = 15.0 / 16 * static_cast<double>(one_gib) / 8 / 50e9;
  const Seconds whole = gathered({1, 16}, Axis::shard, 0, {}).seconds;
  for (const int gpu : {0, 2, 7}) {
    const CollectiveCost broken = gathered({1, 16}, Axis::shard, gpu, {slow_nic});
    CHECK(broken.seconds - whole == doctest::Approx(2 * nic - nic * 50 / 48).epsilon(1e-6));
  }
}

TEST_CASE("a NIC that is down doubles what the next one carries") {
  // And the PCIe link of that one: 2.6214 ms more.
  const Seconds whole = gathered({1, 16}, Axis::shard, 0, {}).seconds;
  const double pcie = 15.0 / 16 * static_cast<double>(one_gib) / 8 / 48e9;
  const Seconds lost = gathered({1, 16}, Axis::shard, 0, {lost_nic}).seconds - whole;
  CHECK(lost == doctest::Approx(pcie).epsilon(1e-6));
  // Two neighbours down: the third carries for three.
  CHECK(gathered({1, 16}, Axis::shard, 0, {lost_nic, {BrokenLink::Kind::nic, 3, 0}}).seconds -
            whole >=
        2 * pcie);
}

TEST_CASE("of eight replica groups only the one on the slow rail loses") {
  const Mesh mesh{2, 8};
  const Seconds whole = gathered(mesh, Axis::replicate, 0, {}).seconds;
  int slower = 0;
  for (int gpu = 0; gpu < 8; ++gpu) {
    const Seconds now = gathered(mesh, Axis::replicate, gpu, {slow_nic}).seconds;
    if (now == whole) continue;
    ++slower;
    // Half of 1 GiB by its own NIC, and by its PCIe link before.
    const double half = 0.5 * static_cast<double>(one_gib);
    CHECK(now - whole == doctest::Approx(half / 25e9 - half / 48e9).epsilon(1e-6));
  }
  CHECK(slower == 1);
  // Within the node no NIC is touched.
  CHECK(gathered(mesh, Axis::shard, 2, {slow_nic}).seconds ==
        gathered(mesh, Axis::shard, 2, {}).seconds);
}

TEST_CASE("slow NVLinks of one GPU count when they become the fullest link") {
  const Seconds whole = gathered({1, 16}, Axis::shard, 0, {}).seconds;
  const auto with = [](double speed) {
    return gathered({1, 16}, Axis::shard, 0, {{BrokenLink::Kind::nvlink, 1, speed}}).seconds;
  };
  CHECK(with(1) == whole);
  CHECK(with(0.1) > with(0.2));
  CHECK(with(0.2) > whole);
}

TEST_CASE("mended links cost what they did") {
  Collectives collectives(two_nodes(), {1, 16});
  const auto cost = [&] {
    return collectives.cost(Axis::shard, CollectiveKind::all_gather, one_gib, Dtype::bf16,
                            Reduction::sum);
  };
  const Seconds whole = cost().seconds;
  collectives.break_links(BrokenNode{0, 0, {slow_nic}});
  CHECK(cost().seconds > whole);
  collectives.break_links({});
  CHECK(cost().seconds == whole);
}

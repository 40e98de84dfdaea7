#include "topologies/cut.hpp"

#include <doctest/doctest.h>

#include "small_machine.hpp"

namespace stepcast {
namespace {

double nvlink_bisection(const std::string& name) {
  return bisection(load_machine(name), {LinkKind::nvlink})->gbps;
}

TEST_CASE("half the GPUs of an NVSwitch machine send at full speed to the other half") {
  CHECK(nvlink_bisection("dgx-h100") == doctest::Approx(4 * 450));
  CHECK(nvlink_bisection("dgx-a100") == doctest::Approx(4 * 300));
  CHECK(nvlink_bisection("hgx-b200") == doctest::Approx(4 * 900));
  CHECK(nvlink_bisection("dgx-2") == doctest::Approx(8 * 150));
}

TEST_CASE("the worst halves of a DGX-1 are its two quads, joined by six links") {
  const Machine machine = load_machine("dgx-1v");
  const std::optional<Bisection> cut = bisection(machine, {LinkKind::nvlink});
  REQUIRE(cut);
  CHECK(cut->gbps == doctest::Approx(6 * 25));  // 0-4 and 1-5 doubled, 2-6, 3-7
  CHECK(cut->half == std::vector<int>{0, 1, 2, 3});
  CHECK(cut->exact);
  // Over all links two PCIe uplinks of 15.754 GB/s come to it, which the socket link (38.4)
  // carries.
  CHECK(bisection(machine)->gbps == doctest::Approx(150 + 2 * 15.754).epsilon(1e-4));
}

TEST_CASE("a pair over two ways adds them") {
  // 150 GB/s of NVLink; by PCIe 31.508, less than the socket link's 40.
  const Machine machine = test::parse(test::small_machine());
  CHECK(bisection(machine)->gbps == doctest::Approx(150 + 31.508).epsilon(1e-4));
  CHECK(bisection(machine, {LinkKind::nvlink})->gbps == doctest::Approx(150));
  // PCIe and sockets only; without the socket links the two sides do not meet.
  CHECK(bisection(machine, {LinkKind::pcie, LinkKind::socket})->gbps ==
        doctest::Approx(31.508).epsilon(1e-4));
  CHECK(bisection(machine, {LinkKind::pcie})->gbps == 0);
}

TEST_CASE("a slow socket link is the cut of a PCIe machine") {
  // 4 GPUs a socket: 4 x 31.508 GB/s of ports against 96 GB/s between the sockets.
  const Machine machine = load_machine("rtx-4090-8x");
  CHECK(min_cut_gbps(machine, {0, 1, 2, 3}, {4, 5, 6, 7}) == doctest::Approx(96));
  CHECK(min_cut_gbps(machine, {0}, {1}) == doctest::Approx(31.508).epsilon(1e-4));
  CHECK(min_cut_gbps(machine, {0, 1}, {2, 3}) == doctest::Approx(2 * 31.508).epsilon(1e-4));
}

TEST_CASE("one GPU has no bisection, three halve into one and two") {
  CHECK_FALSE(bisection(load_machine("gh200-1x")));
  std::string text = test::with(test::small_machine(), "gpus = 2\n", "gpus = 3\n");
  text = test::with(text, "gpus = [1] }", "gpus = [1, 2] }");
  text = test::with(text, "[[0, 1, 6]]", "[[0, 1, 2], [0, 2, 3], [1, 2, 8]]");
  // Cutting off GPU 0 costs 5 links, GPU 1 10, GPU 2 11.
  const std::optional<Bisection> cut = bisection(test::parse(text), {LinkKind::nvlink});
  REQUIRE(cut);
  CHECK(cut->gbps == doctest::Approx(5 * 25));
  CHECK(cut->half == std::vector<int>{0});
}

TEST_CASE("beyond sixteen GPUs only runs of neighbours are halved, and the answer says so") {
  std::string text = test::with(test::small_machine(), "gpus = 2\n", "gpus = 18\n");
  text = test::with(text, "gpus = [0],", "gpus = [0, 1, 2, 3, 4, 5, 6, 7, 8],");
  text = test::with(text, "gpus = [1] }", "gpus = [9, 10, 11, 12, 13, 14, 15, 16, 17] }");
  text = test::with(text, "kind = \"pairs\"\npairs = [[0, 1, 6]]", "kind = \"nvswitch\"");
  const std::optional<Bisection> cut = bisection(test::parse(text), {LinkKind::nvlink});
  REQUIRE(cut);
  CHECK_FALSE(cut->exact);
  CHECK(cut->gbps == doctest::Approx(9 * 450));
}

TEST_CASE("a cut of nothing or of a GPU on both sides is a mistake of ours") {
  const Machine machine = test::parse(test::small_machine());
  CHECK_THROWS_AS(min_cut_gbps(machine, {}, {1}), std::logic_error);
  CHECK_THROWS_AS(min_cut_gbps(machine, {0, 1}, {1}), std::logic_error);
  CHECK_THROWS_AS(min_cut_gbps(machine, {0}, {2}), std::logic_error);
}

}  // namespace
}  // namespace stepcast

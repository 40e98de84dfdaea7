#include "topologies/paths.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "small_machine.hpp"

namespace stepcast {
namespace {

using test::gpu;
using test::nic;

std::string type(const Machine& machine, Vertex a, Vertex b, Transit transit = Transit::no_gpu) {
  const std::optional<Path> path = find_path(machine, a, b, transit);
  return path ? std::string(to_string(path->type)) : "none";
}

TEST_CASE("the path across the small machine by hand") {
  const Machine machine = test::parse(
      test::with(test::small_machine(), "[nvlink]\nkind = \"pairs\"\npairs = [[0, 1, 6]]\n", ""));
  // gpu0 - pcie0 - cpu0 - cpu1 - pcie1 - gpu1: 4 PCIe links of 0.5 us, a socket link of 0.2 us; the
  // slowest is PCIe Gen4 x16, 31.508 GB/s.
  const std::optional<Path> path = find_path(machine, gpu(machine, 0), gpu(machine, 1));
  REQUIRE(path);
  CHECK(path->hops() == 5);
  CHECK(path->type == PathType::socket);
  CHECK(path->gbps == doctest::Approx(31.508).epsilon(1e-4));
  CHECK(path->latency_us == doctest::Approx(2.2));
  CHECK(path->vertices.front() == gpu(machine, 0));
  CHECK(path->vertices.back() == gpu(machine, 1));
  // GPU 0 and the NIC share a switch; GPU 1 has to cross the socket.
  CHECK(type(machine, gpu(machine, 0), nic(machine, 0)) == "PIX");
  CHECK(type(machine, gpu(machine, 1), nic(machine, 0)) == "SYS");
  // Without NVLinks there is no NVLink way at all.
  CHECK(type(machine, gpu(machine, 0), gpu(machine, 1), Transit::nvlink_gpus) == "none");
}

TEST_CASE("a device is nearest to itself") {
  const Machine machine = test::parse(test::small_machine());
  const std::optional<Path> path = find_path(machine, gpu(machine, 0), gpu(machine, 0));
  REQUIRE(path);
  CHECK(path->type == PathType::same);
  CHECK(path->hops() == 0);
  CHECK(path->gbps == std::numeric_limits<double>::infinity());
}

TEST_CASE("a GPU or a NIC is never a way through") {
  // gpu0 reaches the NIC of its own switch, and the CPU of the other socket by the sockets, not
  // over NVLink and through GPU 1 (which would be fewer hops to pcie1).
  const Machine machine = test::parse(test::small_machine());
  for (const Vertex vertex : boost::make_iterator_range(boost::vertices(machine.graph))) {
    if (machine.graph[vertex].name != "pcie1") continue;
    const std::optional<Path> path = find_path(machine, gpu(machine, 0), vertex);
    REQUIRE(path);
    CHECK(path->hops() == 4);  // pcie0, cpu0, cpu1, pcie1
    CHECK(path->type == PathType::socket);
  }
}

TEST_CASE("path types of a DGX-1 are those of nvidia-smi topo -m") {
  const Machine machine = load_machine("dgx-1v");
  // NVLink where the cube has an edge, else across the sockets.
  CHECK(type(machine, gpu(machine, 0), gpu(machine, 1)) == "NVL");
  CHECK(type(machine, gpu(machine, 0), gpu(machine, 4)) == "NVL");
  CHECK(type(machine, gpu(machine, 0), gpu(machine, 5)) == "SYS");
  CHECK(type(machine, gpu(machine, 3), gpu(machine, 7)) == "NVL");
  CHECK(type(machine, gpu(machine, 3), gpu(machine, 4)) == "SYS");
  // With relays every GPU is two NVLink hops away. 0 - 7: over 3 (2 + 1 links) or 4 (2 + 2): 50.
  // 0 - 5: over 1 (1 + 2) or 4 (2 + 1): 25 GB/s.
  for (int a = 0; a < 8; ++a) {
    for (int b = 0; b < 8; ++b) {
      const std::optional<Path> path =
          find_path(machine, gpu(machine, a), gpu(machine, b), Transit::nvlink_gpus);
      REQUIRE(path);
      CHECK(path->hops() <= 2);
    }
  }
  const auto relay = [&machine](int a, int b) {
    return *find_path(machine, gpu(machine, a), gpu(machine, b), Transit::nvlink_gpus);
  };
  CHECK(relay(0, 7).type == PathType::nvlink_relay);
  CHECK(relay(0, 7).gbps == 50);
  CHECK(relay(0, 5).gbps == 25);
  // NICs: PIX beside it, PHB at the other switch of its CPU, SYS behind the other CPU.
  CHECK(type(machine, gpu(machine, 0), nic(machine, 0)) == "PIX");
  CHECK(type(machine, gpu(machine, 0), nic(machine, 1)) == "PHB");
  CHECK(type(machine, gpu(machine, 0), nic(machine, 2)) == "SYS");
  CHECK(nearest_nics(machine, 6) == std::vector<int>{3});
}

TEST_CASE("NVLink is preferred to a shared PCIe switch at equal hops") {
  const Machine machine = load_machine("dgx-a100");  // GPUs 0 and 1 share a switch too
  const std::optional<Path> path = find_path(machine, gpu(machine, 0), gpu(machine, 1));
  REQUIRE(path);
  CHECK(path->type == PathType::nvlink);
  CHECK(path->gbps == 300);  // 12 links of 25 GB/s
  CHECK(path->hops() == 2);
  CHECK(nearest_nics(machine, 5) == std::vector<int>{4, 5});
}

TEST_CASE("two levels of PCIe switches are PXB") {
  const Machine machine = load_machine("dgx-2");
  CHECK(type(machine, gpu(machine, 0), nic(machine, 0)) == "PIX");
  CHECK(type(machine, gpu(machine, 0), nic(machine, 1)) == "PXB");
  CHECK(type(machine, gpu(machine, 0), nic(machine, 2)) == "PHB");
  CHECK(type(machine, gpu(machine, 0), nic(machine, 7)) == "SYS");
}

TEST_CASE("a Grace Hopper GPU reaches its NIC over C2C, and GPUs each other by NVLink") {
  const Machine machine = load_machine("gh200-quad");
  const std::optional<Path> path = find_path(machine, gpu(machine, 2), nic(machine, 2));
  REQUIRE(path);
  CHECK(path->type == PathType::c2c_pcie);
  CHECK(path->gbps == doctest::Approx(31.508).epsilon(1e-4));  // the NIC is PCIe Gen4 x16
  CHECK(path->hops() == 2);
  CHECK(type(machine, gpu(machine, 0), nic(machine, 1)) == "SYS");
  CHECK(find_path(machine, gpu(machine, 0), gpu(machine, 3))->gbps == 150);  // NV6
}

TEST_CASE("PCIe-only machines: the same switch, the same CPU, the other CPU") {
  const Machine l40s = load_machine("l40s-8x");
  CHECK(type(l40s, gpu(l40s, 0), gpu(l40s, 1)) == "PIX");
  CHECK(type(l40s, gpu(l40s, 0), gpu(l40s, 2)) == "PHB");
  CHECK(type(l40s, gpu(l40s, 0), gpu(l40s, 4)) == "SYS");
  CHECK(type(l40s, gpu(l40s, 0), nic(l40s, 0)) == "PHB");
  CHECK(type(l40s, gpu(l40s, 7), nic(l40s, 0)) == "SYS");
  const Machine rtx = load_machine("rtx-4090-8x");
  CHECK(type(rtx, gpu(rtx, 0), gpu(rtx, 3)) == "PHB");
  CHECK(type(rtx, gpu(rtx, 0), gpu(rtx, 4)) == "SYS");
  CHECK(nearest_nics(rtx, 0).empty());
}

TEST_CASE("an EFA machine has four NICs beside each GPU") {
  const Machine machine = load_machine("aws-p5");
  CHECK(nearest_nics(machine, 0) == std::vector<int>{0, 1, 2, 3});
  CHECK(nearest_nics(machine, 7) == std::vector<int>{28, 29, 30, 31});
  CHECK(nearest_nics(load_machine("azure-nd-v4"), 0) == std::vector<int>{0, 1});
}

}  // namespace
}  // namespace stepcast

#include <doctest/doctest.h>

#include <filesystem>

#include "base/toml.hpp"
#include "small_machine.hpp"
#include "topologies/link_rates.hpp"
#include "topologies/machine_builder.hpp"

namespace stepcast {
namespace {

using test::gpu;
using test::nic;
using test::parse;
using test::small_machine;
using test::with;

const Link& link_between(const Machine& machine, Vertex a, Vertex b) {
  const auto [edge, found] = boost::edge(a, b, machine.graph);
  REQUIRE(found);
  return machine.graph[edge];
}

// The only neighbour of a kind.
Vertex neighbour(const Machine& machine, Vertex vertex, DeviceKind kind) {
  std::vector<Vertex> found;
  for (const Vertex other :
       boost::make_iterator_range(boost::adjacent_vertices(vertex, machine.graph))) {
    if (machine.graph[other].kind == kind) found.push_back(other);
  }
  REQUIRE(found.size() == 1);
  return found.front();
}

TEST_CASE("the small machine has the links that its text says") {
  const Machine machine = parse(small_machine());
  CHECK(boost::num_vertices(machine.graph) == 7);  // 2 CPUs, 2 switches, 2 GPUs, 1 NIC
  CHECK(boost::num_edges(machine.graph) == 7);     // 5 PCIe, 1 socket, 1 NVLink
  CHECK_FALSE(machine.has_nvswitch());

  const Link& nvlink = link_between(machine, gpu(machine, 0), gpu(machine, 1));
  CHECK(nvlink.kind == LinkKind::nvlink);
  CHECK(nvlink.count == 6);
  CHECK(nvlink.gbps == 150);  // 6 links of 25 GB/s

  const Vertex pcie0 = neighbour(machine, gpu(machine, 0), DeviceKind::pcie_switch);
  CHECK(neighbour(machine, nic(machine, 0), DeviceKind::pcie_switch) == pcie0);
  // GPU and NIC are Gen5, the slots Gen4: the slower counts. 16 GT/s x 16 / 8 x 128/130 = 31.508.
  CHECK(link_between(machine, gpu(machine, 0), pcie0).pcie_generation == 4);
  CHECK(link_between(machine, nic(machine, 0), pcie0).gbps ==
        doctest::Approx(31.508).epsilon(1e-4));

  const Vertex cpu0 = neighbour(machine, pcie0, DeviceKind::cpu);
  CHECK(machine.graph[cpu0].cpu_vendor == "GenuineIntel");
  CHECK(machine.graph[cpu0].cpu_family == 6);
  CHECK(machine.graph[cpu0].cpu_model == 143);
  CHECK(machine.graph[cpu0].numa_node == 0);
  const Vertex cpu1 = neighbour(machine, cpu0, DeviceKind::cpu);
  CHECK(machine.graph[cpu1].numa_node == 1);
  CHECK(link_between(machine, cpu0, cpu1).kind == LinkKind::socket);
  CHECK(link_between(machine, cpu0, cpu1).gbps == 40);
  CHECK(machine.graph[nic(machine, 0)].nic_gbps == 25);  // 200 Gb/s
  CHECK(machine.host_memory_bytes == 512e9);
}

TEST_CASE("PCIe line rates follow the standard") {
  CHECK(pcie_gbps(1, 16) == doctest::Approx(4.0));
  CHECK(pcie_gbps(2, 16) == doctest::Approx(8.0));
  CHECK(pcie_gbps(3, 16) == doctest::Approx(15.754).epsilon(1e-4));
  CHECK(pcie_gbps(4, 16) == doctest::Approx(31.508).epsilon(1e-4));
  CHECK(pcie_gbps(5, 16) == doctest::Approx(63.015).epsilon(1e-4));
  CHECK(pcie_gbps(5, 8) == doctest::Approx(31.508).epsilon(1e-4));
  CHECK(pcie_gbps(6, 16) == doctest::Approx(118.0));  // 128 x 236/256
}

TEST_CASE("every key that has a default can be given") {
  std::string text =
      with(small_machine(), "source =", "pcie_p2p = false\ngpudirect_rdma = false\nsource =");
  text = with(text, "[nic]\ncount = 1",
              "[nic]\nname = \"N\"\nlatency_us = 1.5\ngpudirect_rdma = false\n"
              "pcie_width = 8\nports_per_card = 2\ncount = 2");
  text = with(text, "nics = [0]", "nics = [0, 1], width = 8, generation = 3");
  text += "direct = []\n[latency_us]\nnvlink = 0.9\nsocket = 0.1\n";
  const Machine machine = parse(text);
  const Device& card = machine.graph[nic(machine, 1)];
  CHECK(card.product == "N");
  CHECK(card.nic_latency_us == 1.5);
  CHECK_FALSE(card.gpudirect_rdma);
  CHECK(card.nic_port == 2);
  CHECK(card.nic_guid == machine.graph[nic(machine, 0)].nic_guid);
  CHECK_FALSE(machine.graph[gpu(machine, 0)].gpudirect_rdma);
  const Vertex pcie0 = neighbour(machine, gpu(machine, 0), DeviceKind::pcie_switch);
  CHECK(link_between(machine, nic(machine, 0), pcie0).pcie_width == 8);
  const Vertex cpu0 = neighbour(machine, pcie0, DeviceKind::cpu);
  CHECK_FALSE(machine.graph[cpu0].pcie_p2p);
  CHECK(link_between(machine, pcie0, cpu0).gbps ==
        doctest::Approx(7.877).epsilon(1e-4));  // Gen3 x8
  CHECK(link_between(machine, gpu(machine, 0), gpu(machine, 1)).latency_us == 0.9);
  CHECK(link_between(machine, pcie0, cpu0).latency_us == default_latency_us(LinkKind::pcie));
}

TEST_CASE("a machine of the user's own is one file, and its GPU another beside it") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / "stepcast_topologies_machine_test";
  std::filesystem::create_directories(folder / "parts");
  write_file((folder / "parts/mine.toml").string(), R"(full_name = "My GPU"
[processor]
compute_capability = 90
sm_count = 10
boost_mhz = 1000
source = "a"
[dense_tflops]
bf16 = 2
source = "b"
[memory]
usable_gib = 1
gbps = 100
l2_mib = 1
source = "c"
[nvlink]
links = 6
gbps_per_link = 10
source = "c"
[pcie]
generation = 3
source = "d"
[power]
watts = 100
source = "e"
)");
  write_file((folder / "my-node.toml").string(),
             with(small_machine(), "\"h100-sxm\"", "\"parts/mine.toml\""));
  const Machine machine = load_machine((folder / "my-node.toml").string());
  CHECK(machine.name == "my-node");
  CHECK(machine.gpu.name == "mine");
  CHECK(link_between(machine, gpu(machine, 0), gpu(machine, 1)).gbps == 60);
  std::filesystem::remove_all(folder);
}

TEST_CASE("a DGX-1 has the hybrid cube mesh: six links a GPU, four of its peers reached") {
  const Machine machine = load_machine("dgx-1v");
  // NVLinks between each two GPUs, the matrix that nvidia-smi topo -m prints on the machine.
  constexpr int expected[8][8] = {
      {0, 1, 1, 2, 2, 0, 0, 0}, {1, 0, 2, 1, 0, 2, 0, 0}, {1, 2, 0, 2, 0, 0, 1, 0},
      {2, 1, 2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 1, 1, 2}, {0, 2, 0, 0, 1, 0, 2, 1},
      {0, 0, 1, 0, 1, 2, 0, 2}, {0, 0, 0, 1, 2, 1, 2, 0},
  };
  for (int a = 0; a < 8; ++a) {
    for (int b = 0; b < 8; ++b) {
      CAPTURE(a);
      CAPTURE(b);
      const auto [edge, found] = boost::edge(gpu(machine, a), gpu(machine, b), machine.graph);
      CHECK((found ? machine.graph[edge].count : 0) == expected[a][b]);
    }
  }
}

TEST_CASE("the GPUs of an NVSwitch machine all hang on one switch with all their links") {
  const Machine machine = load_machine("dgx-h100");
  CHECK(machine.has_nvswitch());
  const Vertex hub = neighbour(machine, gpu(machine, 0), DeviceKind::nvswitch);
  CHECK(boost::out_degree(hub, machine.graph) == 8);
  for (int i = 0; i < 8; ++i) {
    CHECK(link_between(machine, gpu(machine, i), hub).gbps == 450);
    CHECK(link_between(machine, gpu(machine, i), hub).count == 18);
  }
  const Machine b200 = load_machine("hgx-b200");
  const Vertex b200_hub = neighbour(b200, gpu(b200, 3), DeviceKind::nvswitch);
  CHECK(link_between(b200, gpu(b200, 3), b200_hub).gbps == 900);
}

TEST_CASE("a Grace Hopper GPU is tied to its CPU by C2C") {
  const Machine machine = load_machine("gh200-1x");
  int c2c = 0;
  for (const auto edge :
       boost::make_iterator_range(boost::out_edges(gpu(machine, 0), machine.graph))) {
    if (machine.graph[edge].kind != LinkKind::c2c) continue;
    ++c2c;
    CHECK(machine.graph[edge].gbps == 450);
    CHECK(machine.graph[edge].count == 10);
  }
  CHECK(c2c == 1);
}

TEST_CASE("a machine can be built without a file") {
  MachineBuilder builder(load_gpu("a100-sxm-80gb"));
  const Vertex cpu = builder.add_cpu({});
  const Vertex outer = builder.add_pcie_switch(cpu, 4, 16);
  builder.add_gpu(1, builder.add_pcie_switch(outer, 4, 16), 4, 16);
  builder.add_gpu(0, outer, 4, 16);
  builder.link_nvlinks(0, 1, 12);
  CHECK(builder.nvlinks_of(1) == 12);
  const Machine machine = builder.finish(0);
  CHECK(machine.graph[gpu(machine, 0)].name == "gpu0");
  CHECK(machine.graph[gpu(machine, 1)].name == "gpu1");
  CHECK(neighbour(machine, gpu(machine, 0), DeviceKind::pcie_switch) == outer);
}

}  // namespace
}  // namespace stepcast

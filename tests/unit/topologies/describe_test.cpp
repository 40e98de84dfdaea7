#include "topologies/describe.hpp"

#include <doctest/doctest.h>

#include "small_machine.hpp"

namespace stepcast {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("the small machine reads as it was written") {
  const std::string text = describe(test::parse(test::small_machine()));
  const std::string head = R"(m.toml: Two H100
  GPUs         2x NVIDIA H100 SXM5 80GB
  host         CPU, 2 NUMA nodes, 512 GB
  NICs         1x NIC, 200 Gb/s (25 GB/s) each, roce, GPUDirect RDMA possible
  bisection    181.51 GB/s a direction over all links, 150 over NVLink alone
  source       made up

Links (GB/s in one direction, line rate; latency a hop)
    1x nvlink  gpu - gpu                 6 NVLinks        150 GB/s   0.5 us
    2x pcie    gpu - pcie_switch         Gen4 x16      31.508 GB/s   0.5 us
    2x pcie    pcie_switch - cpu         Gen4 x16      31.508 GB/s   0.5 us
    1x pcie    pcie_switch - nic         Gen4 x16      31.508 GB/s   0.5 us
    1x socket  cpu - cpu                 socket link       40 GB/s   0.2 us

Paths between GPUs, and the NICs nearest to each
        GPU0  GPU1
  GPU0  X     NV6   PIX to NIC 0
  GPU1  NV6   X     SYS to NIC 0

GPU h100-sxm: NVIDIA H100 SXM5 80GB
)";
  CHECK(text.substr(0, head.size()) == head);
}

TEST_CASE("every figure of a GPU is followed by its source") {
  for (const std::string& name : catalog_gpus()) {
    CAPTURE(name);
    const Gpu gpu = load_gpu(name);
    const std::string text = describe(gpu);
    for (const auto& [group, source] : gpu.sources) CHECK(contains(text, "[" + source + "]"));
  }
  CHECK(contains(describe(load_gpu("titan-rtx")), "fp16 130.5, bf16 none, fp8 none TFLOP/s"));
}

TEST_CASE("every machine of the catalog can be described") {
  for (const std::string& name : catalog_machines()) {
    CAPTURE(name);
    const std::string text = describe(load_machine(name));
    CHECK(text.find(name + ": ") == 0);
    CHECK(contains(text, "\nLinks ("));
    CHECK_FALSE(contains(text, " \n"));
  }
}

TEST_CASE("a machine's host is its CPU and as many NUMA nodes as there are") {
  const Machine machine = load_machine("hgx-a100-4x100g");
  const Host host = host_of(machine);
  REQUIRE(host.cpu != nullptr);
  CHECK(host.cpu->product == "AMD EPYC 7742 (Rome)");
  CHECK(host.numa_nodes == 4);
  const Host none = host_of(Machine{});
  CHECK(none.cpu == nullptr);
  CHECK(none.numa_nodes == 0);
}

TEST_CASE("a cluster is told in one line") {
  const auto told = [](const std::string& machine, const ClusterOptions& options) {
    return describe(make_cluster(load_machine(machine), options));
  };
  CHECK(told("dgx-h100", {.gpus = 1}) == "1 GPU on 1 dgx-h100 node");
  CHECK(told("dgx-h100", {.gpus = 20}) ==
        "20 GPUs on 3 dgx-h100 nodes (4 on the last), infiniband rail_optimised, 8 leaf switches, "
        "50 GB/s a NIC");
  CHECK(told("aws-p4d", {.nodes = 2,
                         .fabric = FabricKind::leaf_spine,
                         .oversubscription = 2,
                         .gpudirect_rdma = false,
                         .leaf_ports = 1}) ==
        "16 GPUs on 2 aws-p4d nodes, efa leaf_spine, 2 leaf switches 2:1, 6.25 GB/s a NIC, no "
        "GPUDirect RDMA");
}

}  // namespace
}  // namespace stepcast

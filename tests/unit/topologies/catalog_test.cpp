#include <doctest/doctest.h>

#include <boost/graph/connected_components.hpp>
#include <set>

#include "small_machine.hpp"

namespace stepcast {
namespace {

using test::gpu;

TEST_CASE("the catalog holds the machines and GPUs it promises") {
  const std::vector<std::string> machines = catalog_machines();
  const std::set<std::string> have(machines.begin(), machines.end());
  for (const char* name : {"dgx-1v",       "dgx-2",
                           "dgx-a100",     "dgx-h100",
                           "dgx-h200",     "hgx-a100-roce-1600",
                           "aws-p4d",      "aws-p4de",
                           "aws-p5",       "aws-p5en",
                           "gcp-a3-high",  "gcp-a3-mega",
                           "azure-nd-v4",  "azure-nd-v5",
                           "gh200-quad",   "hgx-b200",
                           "gb200-nvl72",  "l40s-8x",
                           "rtx-4090-8x",  "rtx-3090-2x",
                           "titan-rtx-2x", "titan-rtx-2x-nobridge",
                           "gb300-nvl72",  "hgx-b300",
                           "dgx-b200",     "aws-p6-b200",
                           "gcp-a4",       "azure-nd-h200-v5"}) {
    CAPTURE(name);
    CHECK(have.count(name) == 1);
  }
  const std::vector<std::string> parts = catalog_gpus();
  const std::set<std::string> gpus(parts.begin(), parts.end());
  for (const char* name : {"v100-sxm2-16gb",
                           "v100-sxm2-32gb",
                           "a100-sxm-40gb",
                           "a100-sxm-80gb",
                           "a100-pcie-40gb",
                           "a100-pcie-80gb",
                           "h100-sxm",
                           "h100-pcie",
                           "h100-96gb-hbm2e",
                           "h200",
                           "gh200-96gb",
                           "b200",
                           "gb200",
                           "l40s",
                           "rtx-4090",
                           "rtx-3090",
                           "titan-rtx",
                           "b300",
                           "gb300",
                           "h20",
                           "l4",
                           "a10g",
                           "t4"}) {
    CAPTURE(name);
    CHECK(gpus.count(name) == 1);
  }
}

TEST_CASE("every GPU of the catalog has all figures and a source for each group") {
  for (const std::string& name : catalog_gpus()) {
    CAPTURE(name);
    const Gpu part = load_gpu(name);
    CHECK(part.name == name);
    std::set<std::string> groups;
    for (const auto& [group, source] : part.sources) {
      groups.insert(group);
      CHECK(source.size() > 8);
    }
    std::set<std::string> expected = {"processor", "dense_tflops", "memory", "pcie", "power"};
    if (part.nvlinks > 0) expected.insert("nvlink");
    if (part.c2c_links > 0) expected.insert("c2c");
    CHECK(groups == expected);
    CHECK(part.memory_gbps >= 300);
    CHECK(part.power_watts >= 70);
    CHECK(part.peak_fp32.has_value());
    CHECK(part.peak_fp16.has_value());
  }
}

TEST_CASE("every machine of the catalog is one connected graph with sane links") {
  for (const std::string& name : catalog_machines()) {
    CAPTURE(name);
    const Machine machine = load_machine(name);
    CHECK(machine.name == name);
    CHECK(machine.source.size() > 8);
    CHECK(machine.host_memory_bytes >= 64e9);
    CHECK(machine.nics.empty() == (machine.network == "none"));

    std::vector<int> component(boost::num_vertices(machine.graph));
    CHECK(boost::connected_components(machine.graph, component.data()) == 1);
    for (const auto edge : boost::make_iterator_range(boost::edges(machine.graph))) {
      CHECK(machine.graph[edge].gbps > 0);
      CHECK(machine.graph[edge].latency_us > 0);
    }
    for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
      CHECK(machine.graph[machine.gpus[i]].kind == DeviceKind::gpu);
      CHECK(machine.graph[machine.gpus[i]].index == static_cast<int>(i));
    }
    std::set<std::pair<std::uint64_t, int>> ports;
    for (std::size_t i = 0; i < machine.nics.size(); ++i) {
      const Device& nic = machine.graph[machine.nics[i]];
      CHECK(nic.kind == DeviceKind::nic);
      CHECK(nic.index == static_cast<int>(i));
      CHECK(nic.nic_gbps > 0);
      CHECK(ports.emplace(nic.nic_guid, nic.nic_port).second);
    }
  }
}

TEST_CASE("no GPU of the catalog uses more NVLinks than it has, and SXM parts use all") {
  for (const std::string& name : catalog_machines()) {
    CAPTURE(name);
    const Machine machine = load_machine(name);
    for (const Vertex vertex : machine.gpus) {
      int links = 0;
      for (const auto edge : boost::make_iterator_range(boost::out_edges(vertex, machine.graph))) {
        const Link& link = machine.graph[edge];
        if (link.kind != LinkKind::nvlink) continue;
        links += link.count;
        CHECK(link.gbps == doctest::Approx(link.count * machine.gpu.nvlink_gbps));
      }
      CHECK(links <= machine.gpu.nvlinks);
      const bool wired = name.find("nobridge") == std::string::npos && machine.gpus.size() > 1;
      if (wired) CHECK(links == machine.gpu.nvlinks);
    }
  }
}

TEST_CASE("inter-node bandwidth of a node is what its vendor states") {
  const auto node_gbit = [](const std::string& name) {
    const Machine machine = load_machine(name);
    double sum = 0;
    for (const Vertex nic : machine.nics) sum += machine.graph[nic].nic_gbps * 8;
    return sum;
  };
  CHECK(node_gbit("dgx-1v") == 400);
  CHECK(node_gbit("dgx-2") == 800);
  CHECK(node_gbit("dgx-a100") == 1600);
  CHECK(node_gbit("hgx-a100-roce-1600") == 1600);
  CHECK(node_gbit("dgx-h100") == 3200);
  CHECK(node_gbit("aws-p4d") == 400);
  CHECK(node_gbit("aws-p5") == 3200);
  CHECK(node_gbit("aws-p5en") == 3200);
  CHECK(node_gbit("gcp-a3-high") == 800);
  CHECK(node_gbit("gcp-a3-mega") == 1600);
  CHECK(node_gbit("azure-nd-v4") == 1600);
  CHECK(node_gbit("azure-nd-v5") == 3200);
  CHECK(node_gbit("gh200-quad") == 800);
  CHECK(node_gbit("l40s-8x") == 200);
}

}  // namespace
}  // namespace stepcast

#include "cli/hardware_json.hpp"

#include <optional>

#include "cli/gpu_kernels.hpp"
#include "topologies/cut.hpp"
#include "topologies/describe.hpp"
#include "topologies/paths.hpp"

namespace stepcast::cli {

using Json = nlohmann::ordered_json;

namespace {

Json words(const std::string& text) { return text.empty() ? Json() : Json(text); }

// What is written alike with and without the kernels: of a GPU alone and of a machine's.
Json figures_json(const Gpu& gpu) {
  const auto peak = [](const std::optional<double>& flops) {
    return flops ? Json(*flops / 1e12) : Json();
  };
  Json sources = Json::object();
  for (const auto& [group, source] : gpu.sources) sources[group] = source;
  return {{"name", gpu.name},
          {"full_name", gpu.full_name},
          {"compute_capability", static_cast<double>(gpu.compute_capability) / 10},
          {"sms", gpu.sm_count},
          {"boost_mhz", gpu.boost_mhz},
          {"fp64_tflops", peak(gpu.peak_fp64)},
          {"fp32_tflops", peak(gpu.peak_fp32)},
          {"tf32_tflops", peak(gpu.peak_tf32)},
          {"fp16_tflops", peak(gpu.peak_fp16)},
          {"bf16_tflops", peak(gpu.peak_bf16)},
          {"fp8_tflops", peak(gpu.peak_fp8)},
          {"memory_bytes", gpu.memory_bytes},
          {"memory_gb_per_s", gpu.memory_gbps},
          {"l2_mib", gpu.l2_mib},
          {"nvlinks", gpu.nvlinks},
          {"nvlink_gbps", gpu.nvlinks > 0 ? Json(gpu.nvlink_gbps) : Json()},
          {"c2c_gbps", gpu.c2c_links > 0 ? Json(gpu.c2c_gbps) : Json()},
          {"pcie_generation", gpu.pcie_generation},
          {"pcie_width", gpu.pcie_width},
          {"pcie_p2p", gpu.pcie_p2p},
          {"power_watts", gpu.power_watts},
          {"sources", sources}};
}

Json kernels_json(const Gpu& gpu) {
  const GpuKernels k = gpu_kernels(gpu);
  Json rows = Json::array();
  for (const GpuKernel& kernel : k.kernels) {
    rows.push_back({{"what", kernel.what},
                    {"time_s", kernel.cost.seconds},
                    {"flops", kernel.flops},
                    {"bytes", kernel.bytes},
                    {"basis", to_string(kernel.cost.basis)},
                    {"provenance", to_string(kernel.cost.provenance)}});
  }
  return {{"family", k.figures.family->name},
          {"source", k.figures.family->source},
          {"own_measurements", k.figures.own_gemm},
          {"scaled_from", k.figures.own_gemm ? Json() : Json(k.figures.family->reference)},
          {"long_product_fraction", long_product_fraction(k.figures.gemm)},
          {"memory_fraction", k.figures.memory_fraction},
          {"profile", k.profile},
          {"dtype", to_string(k.dtype)},
          {"rows", rows}};
}

Json host_json(const Machine& machine) {
  const auto [cpu, nodes] = host_of(machine);
  return {
      {"cpu", cpu == nullptr ? Json() : words(cpu->product)},
      {"numa_nodes", nodes},
      {"memory_bytes", machine.host_memory_bytes > 0 ? Json(machine.host_memory_bytes) : Json()},
      {"gpu_peer_access", cpu == nullptr ? Json() : Json(cpu->pcie_p2p)}};
}

Json nics_json(const Machine& machine) {
  Json list = Json::array();
  for (const Vertex vertex : machine.nics) {
    const Device& nic = machine.graph[vertex];
    list.push_back({{"name", nic.name},
                    {"product", words(nic.product)},
                    {"nic_gbps", nic.nic_gbps > 0 ? Json(nic.nic_gbps) : Json()},
                    {"gpudirect_rdma", nic.gpudirect_rdma && machine.gpu.gpudirect_rdma}});
  }
  return list;
}

Json bisection_json(const Machine& machine) {
  const std::optional<Bisection> all = bisection(machine);
  if (!all) return {};
  const std::optional<Bisection> nvlink = bisection(machine, {LinkKind::nvlink});
  return {{"gbps", all->gbps},
          {"nvlink_gbps", nvlink->gbps > 0 ? Json(nvlink->gbps) : Json()},
          {"exact", all->exact}};
}

Json links_json(const Machine& machine) {
  Json list = Json::array();
  for (const LinkGroup& group : link_groups(machine)) {
    const Link& link = group.link;
    const bool pcie = link.kind == LinkKind::pcie;
    list.push_back({{"count", group.count},
                    {"kind", to_string(link.kind)},
                    {"between", Json::array({to_string(group.a), to_string(group.b)})},
                    {"links_in_each", link.count},
                    {"pcie_generation", pcie ? Json(link.pcie_generation) : Json()},
                    {"pcie_width", pcie ? Json(link.pcie_width) : Json()},
                    {"gbps", link.gbps > 0 ? Json(link.gbps) : Json()},
                    {"latency_s", link.latency_us * 1e-6}});
  }
  return list;
}

// The way of each GPU to every other, and the NICs that are nearest to it.
Json paths_json(const Machine& machine) {
  Json list = Json::array();
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    Json to_gpus = Json::array();
    for (const Vertex other : machine.gpus) {
      to_gpus.push_back(path_name(machine, machine.gpus[i], other));
    }
    const std::vector<int> nics = nearest_nics(machine, static_cast<int>(i));
    Json to_nics;
    if (!nics.empty()) {
      const Vertex nic = machine.nics[static_cast<std::size_t>(nics.front())];
      to_nics = to_string(find_path(machine, machine.gpus[i], nic)->type);
    }
    list.push_back(
        {{"gpu", i}, {"to_gpus", to_gpus}, {"nearest_nics", nics}, {"to_nics", to_nics}});
  }
  return list;
}

}  // namespace

Json gpu_json(const Gpu& gpu) {
  Json j = {{"schema", "stepcast.gpu/1"}};
  j.update(figures_json(gpu));
  j["kernels"] = kernels_json(gpu);
  return j;
}

Json machine_json(const Machine& machine) {
  const bool known = machine.gpu.sm_count > 0;  // else nobody named it
  return {{"schema", "stepcast.machine/1"}, {"name", machine.name},
          {"full_name", machine.full_name}, {"source", machine.source},
          {"gpus", machine.gpus.size()},    {"gpu", known ? figures_json(machine.gpu) : Json()},
          {"host", host_json(machine)},     {"network", machine.network},
          {"nics", nics_json(machine)},     {"bisection", bisection_json(machine)},
          {"links", links_json(machine)},   {"paths", paths_json(machine)}};
}

}  // namespace stepcast::cli

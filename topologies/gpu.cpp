// GPUs of the catalog. Every group of figures in a GPU's TOML names its source, and peaks are the
// dense ones with fp32 accumulation: what a training step can reach, not what a datasheet prints
// "with sparsity".

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "topologies/catalog.hpp"
#include "topologies/topology.hpp"

namespace stepcast {
namespace {

constexpr TomlTable::Bounds positive{1e-9, 1e9};

TomlTable required_table(TomlTable& root, const std::string& key) {
  std::optional<TomlTable> table = root.table(key);
  if (!table) throw InputError(root.where(key), "is missing; accepted: a table [" + key + "]");
  return *std::move(table);
}

void close_group(Gpu& gpu, TomlTable& table, const std::string& group) {
  const std::string source = table.string("source");
  if (source.empty()) {
    throw InputError(table.where("source"), "is empty; accepted: where the figures come from");
  }
  gpu.sources.emplace_back(group, source);
  table.finish();
}

Gpu read_gpu(TomlTable root, std::string key) {
  Gpu gpu;
  gpu.name = std::move(key);
  gpu.full_name = root.string("full_name");
  gpu.pcie_p2p = root.boolean_or("pcie_p2p", true);
  gpu.gpudirect_rdma = root.boolean_or("gpudirect_rdma", true);

  TomlTable processor = required_table(root, "processor");
  gpu.compute_capability = static_cast<int>(processor.integer("compute_capability", {30, 999}));
  gpu.sm_count = static_cast<int>(processor.integer("sm_count", {1, 100000}));
  gpu.boost_mhz = processor.number("boost_mhz", {1, 100000});
  close_group(gpu, processor, "processor");

  TomlTable peaks = required_table(root, "dense_tflops");
  const auto peak = [&peaks](const char* dtype) -> std::optional<double> {
    const std::optional<double> tflops = peaks.optional_number(dtype, positive);
    if (!tflops) return std::nullopt;
    return *tflops * 1e12;
  };
  gpu.peak_fp64 = peak("fp64");
  gpu.peak_fp32 = peak("fp32");
  gpu.peak_tf32 = peak("tf32");
  gpu.peak_fp16 = peak("fp16");
  gpu.peak_bf16 = peak("bf16");
  gpu.peak_fp8 = peak("fp8");
  close_group(gpu, peaks, "dense_tflops");
  gpu.source = gpu.sources.back().second;

  TomlTable memory = required_table(root, "memory");
  const double usable_gib = memory.number("usable_gib", {0.001, 1e6});
  gpu.memory_bytes = static_cast<Bytes>(usable_gib * static_cast<double>(gib));
  gpu.memory_gbps = memory.number("gbps", positive);
  gpu.l2_mib = memory.number("l2_mib", {0, 1e6});
  close_group(gpu, memory, "memory");

  if (std::optional<TomlTable> nvlink = root.table("nvlink")) {
    gpu.nvlinks = static_cast<int>(nvlink->integer("links", {1, 1000}));
    gpu.nvlink_gbps = nvlink->number("gbps_per_link", positive);
    close_group(gpu, *nvlink, "nvlink");
  }
  if (std::optional<TomlTable> c2c = root.table("c2c")) {
    gpu.c2c_links = static_cast<int>(c2c->integer("links", {1, 1000}));
    gpu.c2c_gbps = c2c->number("gbps", positive);
    close_group(gpu, *c2c, "c2c");
  }
  TomlTable pcie = required_table(root, "pcie");
  gpu.pcie_generation = static_cast<int>(pcie.integer("generation", {1, 6}));
  gpu.pcie_width = static_cast<int>(pcie.integer_or("width", 16, {1, 32}));
  close_group(gpu, pcie, "pcie");

  TomlTable power = required_table(root, "power");
  gpu.power_watts = power.number("watts", positive);
  close_group(gpu, power, "power");
  root.finish();
  return gpu;
}

const std::optional<double>* peak_of(const Gpu& gpu, Dtype dtype) {
  switch (dtype) {
    case Dtype::fp64: return &gpu.peak_fp64;
    case Dtype::fp32: return &gpu.peak_fp32;
    case Dtype::tf32: return &gpu.peak_tf32;
    case Dtype::fp16: return &gpu.peak_fp16;
    case Dtype::bf16: return &gpu.peak_bf16;
    case Dtype::fp8: return &gpu.peak_fp8;
    case Dtype::int64:
    case Dtype::int32:
    case Dtype::int8: return nullptr;
  }
  return nullptr;
}

}  // namespace

double Gpu::peak_flops(Dtype dtype) const {
  const std::optional<double>* peak = peak_of(*this, dtype);
  if (peak != nullptr && peak->has_value()) return **peak;
  std::string known;
  for (const Dtype other :
       {Dtype::fp64, Dtype::fp32, Dtype::tf32, Dtype::fp16, Dtype::bf16, Dtype::fp8}) {
    if (peak_of(*this, other)->has_value()) {
      known += (known.empty() ? "" : ", ") + std::string(to_string(other));
    }
  }
  throw InputError(fmt::format("{} ({}) has no matrix peak in {}; accepted: {}", full_name, name,
                               to_string(dtype), known));
}

Gpu parse_gpu(std::string_view text, const std::string& file) {
  return read_gpu(TomlTable::from_text(text, file), file);
}

Gpu load_gpu(const std::string& name_or_path) {
  const catalog::File file = catalog::find("gpu", name_or_path);
  Gpu gpu = parse_gpu(file.text, file.name);
  gpu.name = file.key;
  return gpu;
}

std::vector<std::string> catalog_gpus() { return catalog::keys("gpu"); }

}  // namespace stepcast

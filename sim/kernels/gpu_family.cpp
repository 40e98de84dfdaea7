#include "sim/kernels/gpu_family.hpp"

#include <algorithm>
#include <cmath>

#include "base/embedded.hpp"
#include "base/error.hpp"
#include "base/toml.hpp"

namespace stepcast {

namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<GpuFamily> read_families() {
  constexpr std::string_view name = "gpu-families.toml";
  const auto files = embedded::kernels();
  const auto file = std::find_if(files.begin(), files.end(),
                                 [&](const embedded::File& f) { return f.name == name; });
  STEPCAST_ASSERT(file != files.end(), "gpu-families.toml is compiled in");
  TomlTable table = TomlTable::from_text(file->text, std::string(name));
  std::vector<GpuFamily> families;
  constexpr TomlTable::Bounds fraction{.min = 0.01, .max = 1.0};
  for (TomlTable& t : table.tables("family")) {
    GpuFamily& f = families.emplace_back();
    f.name = t.string("name");
    f.compute_capability = static_cast<int>(t.integer("compute_capability", {.min = 10}));
    f.gpus = t.strings("gpus");
    f.tile_fraction = t.number("tile_fraction", fraction);
    f.sustained_fraction = t.number("sustained_fraction", fraction);
    f.reference_peak_tflops = t.number("reference_peak_tflops", {.min = 1});
    f.reference_watts = t.number("reference_watts", {.min = 1});
    f.attention_fraction = t.number("attention_fraction", fraction);
    f.attention_ramp = t.number("attention_ramp", {.min = 0});
    f.flash2_fraction = t.number("flash2_fraction", fraction);
    f.backward_fraction = t.number("backward_fraction", fraction);
    f.memory_fraction = t.number("memory_fraction", fraction);
    f.measured = t.strings("measured");
    f.source = t.string("source");
    t.finish();
  }
  table.finish();
  std::sort(families.begin(), families.end(), [](const GpuFamily& a, const GpuFamily& b) {
    return a.compute_capability < b.compute_capability;
  });
  return families;
}

}  // namespace

const GpuFamily& family_of(const Gpu& gpu) {
  static const std::vector<GpuFamily> families = read_families();
  const GpuFamily* best = &families.front();
  for (const GpuFamily& f : families) {
    if (contains(f.gpus, gpu.name)) return f;
    if (f.compute_capability <= gpu.compute_capability) best = &f;
  }
  return *best;
}

double sustained_fraction(const GpuFamily& family, const Gpu& gpu) {
  // The family's sustained rate is for 16-bit products; as a fraction it holds for the other
  // dtypes, whose peaks are drawn from the same power.
  const double peak_tflops = gpu.peak_flops(gpu.peak_bf16 ? Dtype::bf16 : Dtype::fp16) / 1e12;
  const double watts = gpu.power_watts > 0 ? gpu.power_watts : family.reference_watts;
  const double sustained_tflops = family.sustained_fraction * family.reference_peak_tflops *
                                  std::sqrt(watts / family.reference_watts);
  return std::min(family.tile_fraction, sustained_tflops / peak_tflops);
}

Provenance provenance_of(const GpuFamily& family, const Gpu& gpu) {
  return contains(family.measured, gpu.name) ? Provenance::modelled : Provenance::extrapolated;
}

}  // namespace stepcast

#include "sim/kernels/gpu_family.hpp"

#include <algorithm>
#include <cmath>

#include "base/embedded.hpp"
#include "base/error.hpp"
#include "base/toml.hpp"

namespace stepcast {

namespace {

constexpr TomlTable::Bounds fraction{.min = 0.01, .max = 1.0};

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

TomlTable embedded_table(std::string_view name) {
  const auto files = embedded::kernels();
  const auto file = std::find_if(files.begin(), files.end(),
                                 [&](const embedded::File& f) { return f.name == name; });
  STEPCAST_ASSERT(file != files.end(), "compiled in: " + std::string(name));
  return TomlTable::from_text(file->text, std::string(name));
}

std::vector<GpuFamily> read_families() {
  TomlTable table = embedded_table("gpu-families.toml");
  std::vector<GpuFamily> families;
  for (TomlTable& t : table.tables("family")) {
    GpuFamily& f = families.emplace_back();
    f.name = t.string("name");
    f.compute_capability = static_cast<int>(t.integer("compute_capability", {.min = 10}));
    f.gpus = t.strings("gpus");
    f.reference = t.string("reference");
    f.attention_reference = t.string_or("attention_reference", f.reference);
    f.same_die = t.strings("same_die");
    f.scale = t.number_or("scale", 1.0, {.min = 0.1, .max = 1.5});
    f.reference_peak_tflops = t.number("reference_peak_tflops", {.min = 1});
    f.reference_watts = t.number("reference_watts", {.min = 1});
    f.flash2_fraction = t.number("flash2_fraction", fraction);
    f.backward_fraction = t.number("backward_fraction", fraction);
    f.memory_fraction = t.number("memory_fraction", fraction);
    if (std::optional<TomlTable> parts = t.table("memory_by_part")) {
      for (const std::string& key : parts->keys())
        f.memory_by_part[key] = parts->number(key, fraction);
      parts->finish();
    }
    f.source = t.string("source");
    t.finish();
  }
  table.finish();
  std::sort(families.begin(), families.end(), [](const GpuFamily& a, const GpuFamily& b) {
    return a.compute_capability < b.compute_capability;
  });
  return families;
}

std::vector<KernelFit> read_fits() {
  TomlTable table = embedded_table("kernel-fits.toml");
  std::vector<KernelFit> fits;
  for (TomlTable& t : table.tables("gpu")) {
    KernelFit& fit = fits.emplace_back();
    fit.gpu = t.string("name");
    std::optional<TomlTable> g = t.table("gemm");
    STEPCAST_ASSERT(g.has_value(), "a fit has products: " + fit.gpu);
    fit.gemm = {.tile_128 = g->number("tile_128", fraction),
                .tile_64 = g->number("tile_64", fraction),
                .fill = g->number("fill", {.min = 0}),
                .quantised = g->number("quantised", {.min = 0, .max = 1}),
                .sustained_fraction = g->number("sustained_fraction", fraction),
                .boost = g->number("boost", {.min = 0}),
                .settle_ms = g->number("settle_ms", {.min = 1e-3})};
    g->finish();
    if (std::optional<TomlTable> a = t.table("attention")) {
      fit.has_attention = true;
      fit.attention = {.fraction = a->number("fraction", fraction),
                       .ramp = a->number("ramp", {.min = 0}),
                       .quantised = a->number("quantised", {.min = 0, .max = 1}),
                       .prepare = a->number("prepare", {.min = 0}),
                       .start_us = a->number("start_us", {.min = 0})};
      a->finish();
    }
    t.finish();
  }
  table.finish();
  return fits;
}

// GEMM figures of a part of `family` from the fit of the family's reference.
GemmFigures carried_over(const GpuFamily& family, const GemmFigures& reference, const Gpu& gpu) {
  GemmFigures figures = reference;
  figures.sustained_fraction = sustained_fraction(family, reference, gpu);
  return figures;
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

const KernelFit* fit_of(std::string_view gpu) {
  static const std::vector<KernelFit> fits = read_fits();
  const auto found =
      std::find_if(fits.begin(), fits.end(), [&](const KernelFit& f) { return f.gpu == gpu; });
  return found == fits.end() ? nullptr : &*found;
}

double sustained_fraction(const GpuFamily& family, const GemmFigures& reference, const Gpu& gpu) {
  // The sustained rate is for 16-bit products; as a fraction it holds for the other dtypes, whose
  // peaks are drawn from the same power.
  const double peak_tflops = gpu.peak_flops(gpu.peak_bf16 ? Dtype::bf16 : Dtype::fp16) / 1e12;
  const double watts = gpu.power_watts > 0 ? gpu.power_watts : family.reference_watts;
  const double sustained_tflops = reference.sustained_fraction * family.scale *
                                  family.reference_peak_tflops *
                                  std::sqrt(watts / family.reference_watts);
  return std::min(1.0, sustained_tflops / peak_tflops);
}

KernelFigures figures_of(const Gpu& gpu, const KernelFit& fit) {
  KernelFigures figures;
  const GpuFamily& family = family_of(gpu);
  figures.family = &family;
  figures.own_gemm = fit.gpu == gpu.name;
  figures.gemm = carried_over(family, fit.gemm, gpu);
  const bool same_die = contains(family.same_die, gpu.name);
  if (figures.own_gemm || (same_die && contains(family.same_die, fit.gpu))) {
    figures.gemm_table = fit.gpu;
  }

  // Attention keeps its ratio to long products: both draw on the same clock.
  const KernelFit& attention = fit.has_attention ? fit : *fit_of(family.attention_reference);
  STEPCAST_ASSERT(attention.has_attention, "an attention reference was measured: " + attention.gpu);
  figures.attention = attention.attention;
  figures.own_attention = attention.gpu == gpu.name;
  figures.attention.fraction =
      std::min(1.0, attention.attention.fraction * long_product_fraction(figures.gemm) /
                        long_product_fraction(attention.gemm));
  if (figures.own_attention || (same_die && contains(family.same_die, attention.gpu))) {
    figures.attention_table = attention.gpu;
  }

  const auto memory = family.memory_by_part.find(gpu.name);
  figures.own_memory = memory != family.memory_by_part.end();
  figures.memory_fraction = figures.own_memory ? memory->second : family.memory_fraction;
  return figures;
}

KernelFigures figures_of(const Gpu& gpu) {
  const KernelFit* own = fit_of(gpu.name);
  const KernelFit* fit = own ? own : fit_of(family_of(gpu).reference);
  STEPCAST_ASSERT(fit != nullptr, "a family's reference was fitted: " + family_of(gpu).name);
  return figures_of(gpu, *fit);
}

}  // namespace stepcast

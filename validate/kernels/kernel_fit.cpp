#include "validate/kernels/kernel_fit.hpp"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <nlopt.hpp>

#include "base/error.hpp"

namespace stepcast {

namespace {

struct Variable {
  double low, high, start;
};

double loss(double error) {
  constexpr double s = 0.05;
  const double x = error / s;
  return 2 * s * s * (std::sqrt(1 + x * x) - 1);
}

using Sum = std::function<double(const std::vector<double>&)>;

double call(const std::vector<double>& x, std::vector<double>&, void* data) {
  return (*static_cast<const Sum*>(data))(x);
}

std::vector<double> minimise(const std::vector<Variable>& variables, Sum sum, FitEffort effort) {
  std::vector<double> best;
  double least = 0;
  for (int start = 0; start < effort.starts; ++start) {
    nlopt::opt search(nlopt::LN_SBPLX, static_cast<unsigned>(variables.size()));
    std::vector<double> low, high, x, step;
    for (std::size_t i = 0; i < variables.size(); ++i) {
      const Variable& v = variables[i];
      low.push_back(v.low);
      high.push_back(v.high);
      // The first start as given, the others a quarter of the way to a corner of the box.
      const double corner = ((static_cast<int>(i) + start) % 2) ? v.high : v.low;
      x.push_back(start == 0 ? v.start : v.start + 0.25 * (corner - v.start));
      step.push_back(0.1 * (v.high - v.low));
    }
    search.set_lower_bounds(low);
    search.set_upper_bounds(high);
    search.set_initial_step(step);
    search.set_min_objective(call, &sum);
    search.set_maxeval(effort.evaluations);
    search.set_ftol_rel(1e-7);
    double reached = 0;
    search.optimize(x, reached);
    if (best.empty() || reached < least) {
      best = x;
      least = reached;
    }
  }
  return best;
}

template <typename Row>
std::vector<Row> spread(const std::vector<Row>& rows, std::size_t most) {
  const std::size_t stride = (rows.size() + most - 1) / most;
  std::vector<Row> some;
  for (std::size_t i = 0; i < rows.size(); i += stride) some.push_back(rows[i]);
  return some;
}

// settle_ms is searched by its logarithm: it may be anything from a microsecond to a second.
GemmFigures gemm_figures(const std::vector<double>& x) {
  return {x[0], x[1], x[2], x[3], x[4], x[5], std::exp(x[6])};
}

AttentionFigures attention_figures(const std::vector<double>& x) {
  return {x[0], x[1], x[2], x[3], x[4]};
}

}  // namespace

GemmFigures fit_gemm(const std::vector<MeasuredGemm>& all, const GemmChip& chip, FitEffort effort) {
  struct Row {
    GemmShape shape;
    double log_us;
  };
  std::vector<Row> rows;
  for (const MeasuredGemm& row : spread(all, effort.rows)) {
    rows.push_back({gemm_shape(kernel_of(row)), std::log(row.us * 1e-6)});
  }
  const auto sum = [&](const std::vector<double>& x) {
    const GemmFigures figures = gemm_figures(x);
    double total = 0;
    for (const Row& row : rows) {
      const Seconds t = kernel_floor + gemm_time(figures, chip, row.shape, Clocks::benchmark).work;
      total += loss(std::log(t) - row.log_us);
    }
    return total;
  };
  return gemm_figures(minimise({{0.4, 1.0, 0.8},
                                {0.3, 1.0, 0.7},
                                {0, 1000, 250},
                                {0, 1, 0.5},
                                {0.4, 1.0, 0.75},
                                {0, 1.5, 0.4},
                                {std::log(0.02), std::log(20.0), std::log(0.6)}},
                               sum, effort));
}

AttentionFigures fit_attention(const std::vector<MeasuredAttention>& all, const AttentionChip& chip,
                               FitEffort effort) {
  struct Row {
    Kernel kernel;
    double log_us;
  };
  std::vector<Row> rows;
  for (const MeasuredAttention& row : spread(all, effort.rows)) {
    rows.push_back({kernel_of(row), std::log(row.us * 1e-6)});
  }
  const auto sum = [&](const std::vector<double>& x) {
    const AttentionFigures figures = attention_figures(x);
    double total = 0;
    for (const Row& row : rows) {
      total += loss(std::log(attention_benchmark(figures, chip, row.kernel)) - row.log_us);
    }
    return total;
  };
  return attention_figures(minimise(
      {{0.1, 1.0, 0.5}, {0, 4000, 500}, {0, 1, 0.2}, {0, 4, 1}, {0, 60, 10}}, sum, effort));
}

std::string fitted_figures(FitEffort effort) {
  std::string text =
      "# Figures of the kernel models (sim/kernels/gemm_model.hpp, attention_model.hpp), fitted "
      "to\n"
      "# the measured shapes beside this file. Made by `./dev kernels --fit`; not to be edited.\n";
  for (const std::string& name : measured_gpus()) {
    const Gpu gpu = load_gpu(name);
    const KernelFigures known = figures_of(gpu);
    const double peak = gpu.peak_flops(Dtype::bf16);
    const double rate = gpu.memory_gbps * 1e9 * known.memory_fraction;
    const auto gemms = measured_gemms(name);
    const GemmFigures g = fit_gemm(gemms, gemm_chip(gpu, peak, rate, 2.0), effort);
    text += fmt::format(
        "\n[[gpu]]\nname = \"{}\"\n[gpu.gemm]  # {} shapes\n"
        "tile_128 = {:.3f}\ntile_64 = {:.3f}\nfill = {:.0f}\nquantised = {:.3f}\n"
        "sustained_fraction = {:.3f}\nboost = {:.3f}\nsettle_ms = {:.3f}\n",
        name, gemms.size(), g.tile_128, g.tile_64, g.fill, g.quantised, g.sustained_fraction,
        g.boost, g.settle_ms);
    const auto attention = measured_attention(name);
    if (attention.empty()) continue;
    const AttentionFigures a = fit_attention(attention, attention_chip(gpu, peak, rate), effort);
    text += fmt::format(
        "[gpu.attention]  # {} shapes\nfraction = {:.3f}\nramp = {:.0f}\nquantised = {:.3f}\n"
        "prepare = {:.3f}\nstart_us = {:.1f}\n",
        attention.size(), a.fraction, a.ramp, a.quantised, a.prepare, a.start_us);
  }
  return text;
}

}  // namespace stepcast

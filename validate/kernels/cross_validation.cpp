#include "validate/kernels/cross_validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.hpp"

namespace stepcast {

namespace {

constexpr int runs = 4;

// The sizes in RUNS runs of neighbours: size -> run.
std::map<std::int64_t, int> runs_of(const std::set<std::int64_t>& sizes) {
  std::map<std::int64_t, int> run;
  std::size_t i = 0;
  for (const std::int64_t size : sizes) {
    run[size] = static_cast<int>(i++ * runs / sizes.size());
  }
  return run;
}

std::vector<int> gemm_folds(const std::vector<MeasuredGemm>& rows, Folds folds) {
  std::set<std::int64_t> ns, ks;
  for (const MeasuredGemm& row : rows) {
    ns.insert(row.n);
    ks.insert(row.k);
  }
  const auto n_run = runs_of(ns), k_run = runs_of(ks);
  std::vector<int> fold;
  for (const MeasuredGemm& row : rows) {
    const int n = n_run.at(row.n), k = k_run.at(row.k);
    fold.push_back(folds == Folds::blocks ? n * runs + k : folds == Folds::bands_of_n ? n : k);
  }
  return fold;
}

// Blocks of attention shapes: a length, and few, some or many sequences times heads.
std::vector<int> attention_folds(const std::vector<MeasuredAttention>& rows) {
  std::map<std::int64_t, int> length;
  for (const MeasuredAttention& row : rows) length[row.sequence] = 0;
  int i = 0;
  for (auto& [sequence, index] : length) index = i++;
  std::vector<int> fold;
  for (const MeasuredAttention& row : rows) {
    const std::int64_t blocks = row.batch * row.heads;
    fold.push_back(3 * length.at(row.sequence) + (blocks < 64 ? 0 : blocks < 256 ? 1 : 2));
  }
  return fold;
}

template <typename Row>
std::vector<Row> picked(const std::vector<Row>& rows, const std::vector<int>& fold, int which,
                        bool inside) {
  std::vector<Row> some;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if ((fold[i] == which) == inside) some.push_back(rows[i]);
  }
  return some;
}

struct Part {
  Gpu gpu;
  double peak, rate;
  GemmChip gemm;
  AttentionChip attention;
};

Part part_of(const std::string& name) {
  Part p;
  p.gpu = load_gpu(name);
  p.peak = p.gpu.peak_flops(Dtype::bf16);
  p.rate = p.gpu.memory_gbps * 1e9 * figures_of(p.gpu).memory_fraction;
  p.gemm = gemm_chip(p.gpu, p.peak, p.rate, 2.0);
  p.attention = attention_chip(p.gpu, p.peak, p.rate);
  return p;
}

void add_gemms(Validation& v, const std::vector<MeasuredGemm>& rows, const GemmFigures& figures,
               const GemmChip& chip, const KernelTables& tables) {
  for (const MeasuredGemm& row : rows) {
    const Kernel kernel = kernel_of(row);
    const Seconds model =
        kernel_floor + gemm_time(figures, chip, gemm_shape(kernel), Clocks::benchmark).work;
    v.shapes.push_back({fmt::format("{} x {} x {}", row.m, row.n, row.k), row.us, model * 1e6,
                        model * 1e6 * std::exp(tables.gemm_log_ratio(kernel))});
  }
}

void add_attention(Validation& v, const std::vector<MeasuredAttention>& rows,
                   const AttentionFigures& figures, const AttentionChip& chip,
                   const KernelTables& tables) {
  for (const MeasuredAttention& row : rows) {
    const Kernel kernel = kernel_of(row);
    const Seconds model = attention_benchmark(figures, chip, kernel);
    v.shapes.push_back(
        {fmt::format("{} x {}, {} heads on {}", row.batch, row.sequence, row.heads, row.kv_heads),
         row.us, model * 1e6, model * 1e6 * std::exp(tables.attention_log_ratio(kernel))});
  }
}

double quantile_of(std::vector<double> values, double quantile) {
  STEPCAST_ASSERT(!values.empty(), "a validation has shapes");
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(quantile * static_cast<double>(values.size() - 1) + 0.5)];
}

std::vector<double> errors(const Validation& v, bool table, bool absolute) {
  std::vector<double> all;
  for (const ShapeForecast& s : v.shapes) {
    const double error = (table ? s.table_us : s.model_us) / s.measured_us - 1;
    all.push_back(absolute ? std::abs(error) : error);
  }
  return all;
}

}  // namespace

double error_at(const Validation& v, double quantile, bool table) {
  return quantile_of(errors(v, table, true), quantile);
}

double signed_median(const Validation& v, bool table) {
  return quantile_of(errors(v, table, false), 0.5);
}

Validation validate_gemm(const std::string& gpu, Folds folds, FitEffort effort, double widths) {
  const Part part = part_of(gpu);
  const auto rows = measured_gemms(gpu);
  const auto fold = gemm_folds(rows, folds);
  Validation v{gpu,
               "product",
               folds == Folds::blocks       ? "16 blocks of n and k"
               : folds == Folds::bands_of_n ? "4 bands of n"
                                            : "4 bands of k",
               gemm_figure_count,
               {}};
  for (int which = 0; which <= *std::max_element(fold.begin(), fold.end()); ++which) {
    const auto known = picked(rows, fold, which, false);
    const GemmFigures figures = fit_gemm(known, part.gemm, effort);
    const KernelTables tables(known, figures, part.gemm, {}, {}, {}, widths);
    add_gemms(v, picked(rows, fold, which, true), figures, part.gemm, tables);
  }
  return v;
}

Validation validate_attention(const std::string& gpu, FitEffort effort, double widths) {
  const Part part = part_of(gpu);
  const auto rows = measured_attention(gpu);
  const auto fold = attention_folds(rows);
  Validation v{gpu, "attention", "15 blocks of length and heads", attention_figure_count, {}};
  for (int which = 0; which <= *std::max_element(fold.begin(), fold.end()); ++which) {
    const auto known = picked(rows, fold, which, false);
    const AttentionFigures figures = fit_attention(known, part.attention, effort);
    const KernelTables tables({}, {}, {}, known, figures, part.attention, widths);
    add_attention(v, picked(rows, fold, which, true), figures, part.attention, tables);
  }
  return v;
}

Validation hold_out_gemm(const std::string& gpu, const std::string& other) {
  const Part part = part_of(gpu);
  const KernelFigures figures = figures_of(part.gpu, *fit_of(other));
  Validation v{gpu, "product", "from " + other, gemm_figure_count, {}};
  const KernelTables none({}, {}, {}, {}, {}, {});
  const auto tables = figures.gemm_table.empty() ? nullptr : catalog_tables(figures.gemm_table);
  add_gemms(v, measured_gemms(gpu), figures.gemm, part.gemm, tables ? *tables : none);
  return v;
}

Validation hold_out_attention(const std::string& gpu, const std::string& other) {
  const Part part = part_of(gpu);
  const KernelFigures figures = figures_of(part.gpu, *fit_of(other));
  Validation v{gpu, "attention", "from " + other, attention_figure_count, {}};
  const KernelTables none({}, {}, {}, {}, {}, {});
  const auto tables =
      figures.attention_table.empty() ? nullptr : catalog_tables(figures.attention_table);
  add_attention(v, measured_attention(gpu), figures.attention, part.attention,
                tables ? *tables : none);
  return v;
}

}  // namespace stepcast

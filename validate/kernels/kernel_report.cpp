#include "validate/kernels/kernel_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace stepcast {

namespace {

std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

void add_head(std::string& text, const std::string& title) {
  text += fmt::format("{}\n  {:<14} {:<10} {:<31} {:>6} {:>7} {:>8} {:>7} {:>7} {:>16}\n", title,
                      "GPU", "kernel", "left out", "shapes", "figures", "median", "p90", "signed",
                      "model alone");
}

void add_row(std::string& text, const Validation& v, const AccuracyBar* bar,
             const std::string& folds = {}) {
  text += fmt::format(
      "  {:<14} {:<10} {:<31} {:>6} {:>7} {:>8} {:>7} {:>7} {:>16}{}\n", v.gpu, v.kind,
      folds.empty() ? v.folds : folds, v.shapes.size(), v.figures, percent(error_at(v, 0.5, true)),
      percent(error_at(v, 0.9, true)), fmt::format("{:+.1f} %", 100 * signed_median(v, true)),
      fmt::format("{:.1f} / {:.1f} %", 100 * error_at(v, 0.5, false),
                  100 * error_at(v, 0.9, false)),
      bar == nullptr   ? ""
      : meets(v, *bar) ? fmt::format("  within {} and {}", percent(bar->median), percent(bar->p90))
                       : fmt::format("  OVER {} and {}", percent(bar->median), percent(bar->p90)));
}

void add_worst(std::string& text, const Validation& v, std::size_t count) {
  std::vector<ShapeForecast> shapes = v.shapes;
  const auto error = [](const ShapeForecast& s) { return s.table_us / s.measured_us - 1; };
  count = std::min(count, shapes.size());
  std::partial_sort(shapes.begin(), shapes.begin() + static_cast<std::ptrdiff_t>(count),
                    shapes.end(), [&](const ShapeForecast& a, const ShapeForecast& b) {
                      return std::abs(error(a)) > std::abs(error(b));
                    });
  for (std::size_t i = 0; i < count; ++i) {
    text += fmt::format("  {:<14} {:<24} measured {:>9.1f} us, forecast {:>9.1f} us, {:+.0f} %\n",
                        v.gpu, shapes[i].shape, shapes[i].measured_us, shapes[i].table_us,
                        100 * error(shapes[i]));
  }
}

}  // namespace

bool meets(const Validation& v, const AccuracyBar& bar) {
  return error_at(v, 0.5, true) <= bar.median && error_at(v, 0.9, true) <= bar.p90;
}

KernelAccuracy kernel_accuracy(bool everything) {
  KernelAccuracy a;
  for (const std::string& gpu : measured_gpus()) {
    a.blocks.push_back(validate_gemm(gpu, Folds::blocks, fold_effort));
    if (!measured_attention(gpu).empty()) {
      a.attention.push_back(validate_attention(gpu, fold_effort));
    }
  }
  a.held_out = {hold_out_gemm("h200", "h100-sxm"), hold_out_attention("h200", "h100-sxm")};
  if (!everything) return a;
  a.held_out.push_back(hold_out_gemm("h100-sxm", "h200"));
  a.held_out.push_back(hold_out_attention("h100-sxm", "h200"));
  // Another architecture: only the model, by peak, SMs and bandwidth.
  a.held_out.push_back(hold_out_gemm("h100-sxm", "a100-sxm-80gb"));
  a.held_out.push_back(hold_out_gemm("l40s", "a100-sxm-80gb"));
  for (const std::string& gpu : measured_gpus()) {
    a.bands.push_back(validate_gemm(gpu, Folds::bands_of_n, fold_effort));
    a.bands.push_back(validate_gemm(gpu, Folds::bands_of_k, fold_effort));
    for (const double widths : {0.5, 2.0}) {
      a.sensitivity.push_back(validate_gemm(gpu, Folds::blocks, fold_effort, widths));
    }
  }
  return a;
}

std::string accuracy_text(const KernelAccuracy& a) {
  std::string text;
  add_head(
      text,
      "Shapes left out, figures fitted and table built without them: |forecast / measured - 1|");
  for (const Validation& v : a.blocks) add_row(text, v, &product_bar);
  for (const Validation& v : a.attention) add_row(text, v, &attention_bar);
  add_head(text, "\nA whole GPU left out, forecast from another");
  for (std::size_t i = 0; i < a.held_out.size(); ++i) {
    add_row(text, a.held_out[i], i < 2 ? &held_out_bar : nullptr);
  }
  if (!a.bands.empty()) {
    add_head(text, "\nA quarter of the table left out at once");
    for (const Validation& v : a.bands) add_row(text, v, nullptr);
  }
  if (!a.sensitivity.empty()) {
    add_head(text, "\nBlocks again, shapes count as near at half and at twice the distance");
    bool half = true;
    for (const Validation& v : a.sensitivity) {
      add_row(text, v, nullptr, half ? "16 blocks, widths halved" : "16 blocks, widths doubled");
      half = !half;
    }
  }
  text += "\nWorst left-out shapes (m x n x k)\n";
  for (const Validation& v : a.blocks) add_worst(text, v, 3);
  for (const Validation& v : a.attention) add_worst(text, v, 1);
  return text;
}

std::string accuracy_picture(const KernelAccuracy& a) {
  constexpr double left = 56, top = 30, width = 520, height = 260, most = 0.20;
  constexpr const char* colours[] = {"#4269d0", "#efb118", "#ff725c", "#3ca951"};
  std::string svg = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="720" height="350" font-family="sans-serif" font-size="12">
<rect width="720" height="350" fill="white"/>
<text x="{}" y="18">Products left out by blocks of n and k: share of shapes with an error below x</text>
)",
      left);
  const auto x = [&](double error) { return left + width * std::min(error, most) / most; };
  const auto y = [&](double share) { return top + height * (1 - share); };
  for (int i = 0; i <= 4; ++i) {
    const double share = i / 4.0, error = most * i / 4;
    svg += fmt::format(
        "<line x1=\"{0}\" y1=\"{2}\" x2=\"{1}\" y2=\"{2}\" stroke=\"#ddd\"/><text x=\"{3}\" "
        "y=\"{4}\" "
        "text-anchor=\"end\">{5:.0f} %</text>\n",
        left, left + width, y(share), left - 6, y(share) + 4, 100 * share);
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{:.0f} %</text>\n", x(error),
                       top + height + 18, 100 * error);
  }
  for (const auto& [error, share] : {std::pair{product_bar.median, 0.5}, {product_bar.p90, 0.9}}) {
    svg += fmt::format(
        "<circle cx=\"{}\" cy=\"{}\" r=\"5\" fill=\"none\" stroke=\"black\" "
        "stroke-width=\"1.5\"/>\n",
        x(error), y(share));
  }
  for (std::size_t g = 0; g < a.blocks.size(); ++g) {
    for (const bool table : {true, false}) {
      std::string points;
      for (int i = 0; i <= 100; ++i) {
        const double share = i / 100.0, error = error_at(a.blocks[g], share, table);
        if (error > most) break;
        points += fmt::format("{:.1f},{:.1f} ", x(error), y(share));
      }
      svg += fmt::format(
          "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{}/>\n", points,
          colours[g % 4], table ? 2 : 1, table ? "" : " stroke-dasharray=\"4 3\"");
    }
    svg += fmt::format("<text x=\"{}\" y=\"{}\" fill=\"{}\">{}</text>\n", left + width + 12,
                       top + 20 + 18 * static_cast<double>(g), colours[g % 4], a.blocks[g].gpu);
  }
  svg += fmt::format(
      "<text x=\"{0}\" y=\"{1}\">solid: with table</text><text x=\"{0}\" y=\"{2}\">dashed: "
      "model alone</text><text x=\"{0}\" y=\"{3}\">circles: bars</text>\n</svg>\n",
      left + width + 12, top + 120, top + 138, top + 156);
  return svg;
}

}  // namespace stepcast

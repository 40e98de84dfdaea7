#include "sim/kernels/shape_tables.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/embedded.hpp"
#include "base/error.hpp"

namespace stepcast {

namespace {

constexpr double model_weight = 0.2;

double octaves(std::int64_t value) { return std::log2(static_cast<double>(value)); }

std::string_view table_text(std::string_view kind, std::string_view gpu) {
  for (const embedded::File& file : embedded::kernels()) {
    if (file.name.size() == kind.size() + gpu.size() + 4 && file.name.starts_with(kind) &&
        file.name.substr(kind.size(), gpu.size()) == gpu && file.name.ends_with(".csv")) {
      return file.text;
    }
  }
  return {};
}

// Calls row(cells) for each line of COUNT numbers; comments and the header are skipped.
template <std::size_t Count, typename Row>
void read_table(std::string_view text, Row&& row) {
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    const char* line_end = std::find(at, end, '\n');
    if (*at >= '0' && *at <= '9') {
      std::array<double, Count> cells{};
      for (std::size_t i = 0; i < Count; ++i) {
        const auto [next, error] = std::from_chars(at, line_end, cells[i]);
        STEPCAST_ASSERT(error == std::errc{} && (i + 1 == Count ? next == line_end : *next == ','),
                        "an embedded table of kernels is whole");
        at = next + 1;
      }
      row(cells);
    }
    at = line_end + 1;
  }
}

std::int64_t whole(double value) { return static_cast<std::int64_t>(value); }

}  // namespace

std::vector<MeasuredGemm> measured_gemms(std::string_view gpu) {
  std::vector<MeasuredGemm> rows;
  read_table<4>(table_text("gemm-", gpu), [&](const std::array<double, 4>& c) {
    rows.push_back({whole(c[0]), whole(c[1]), whole(c[2]), c[3]});
  });
  return rows;
}

std::vector<MeasuredAttention> measured_attention(std::string_view gpu) {
  std::vector<MeasuredAttention> rows;
  read_table<6>(table_text("attention-", gpu), [&](const std::array<double, 6>& c) {
    rows.push_back({whole(c[0]), whole(c[1]), whole(c[2]), whole(c[3]), whole(c[4]), c[5]});
  });
  return rows;
}

std::vector<std::string> measured_gpus() {
  constexpr std::string_view head = "gemm-", tail = ".csv";
  std::vector<std::string> names;
  for (const embedded::File& file : embedded::kernels()) {
    if (!file.name.starts_with(head) || !file.name.ends_with(tail)) continue;
    names.emplace_back(file.name.substr(head.size(), file.name.size() - head.size() - tail.size()));
  }
  return names;
}

Kernel kernel_of(const MeasuredGemm& row) {
  return gemm(Name("measured"), Dtype::bf16, row.m, row.n, row.k);
}

Kernel kernel_of(const MeasuredAttention& row) {
  return attention(Name("measured"), KernelKind::attention_forward, Dtype::bf16, row.batch,
                   row.heads, row.kv_heads, row.sequence, row.sequence, row.head_size, true);
}

ShapePoint shape_point(const Kernel& kernel) {
  if (kernel.kind == KernelKind::gemm) {
    const double m = octaves(kernel.m), n = octaves(kernel.n);
    return {m + n, m - n, octaves(kernel.k)};
  }
  return {octaves(kernel.n), octaves(kernel.batch * kernel.heads),
          octaves(kernel.heads) - octaves(kernel.kv_heads)};
}

ShapePoint gemm_widths(double scale) { return {scale / 8, scale * 2, scale / 3}; }
ShapePoint attention_widths(double scale) { return {scale / 2, scale / 2, scale * 2}; }

ShapeResiduals::ShapeResiduals(const ShapePoint& widths)
    : inverse_widths_{1 / widths[0], 1 / widths[1], 1 / widths[2]} {}

void ShapeResiduals::add(const ShapePoint& at, double log_ratio) {
  Point& point = points_.emplace_back();
  for (std::size_t i = 0; i < at.size(); ++i) point.at[i] = at[i] * inverse_widths_[i];
  point.log_ratio = log_ratio;
}

double ShapeResiduals::log_ratio(const ShapePoint& at) const {
  constexpr double far = 5.0;  // widths; exp(-12.5) is nothing beside model_weight
  ShapePoint here;
  for (std::size_t i = 0; i < at.size(); ++i) here[i] = at[i] * inverse_widths_[i];
  double weights = model_weight, sum = 0;
  for (const Point& p : points_) {
    const double a = p.at[0] - here[0], c = p.at[2] - here[2];
    if (std::abs(a) > far || std::abs(c) > far) continue;
    const double b = p.at[1] - here[1];
    const double weight = std::exp(-0.5 * (a * a + b * b + c * c));
    weights += weight;
    sum += weight * p.log_ratio;
  }
  return sum / weights;
}

GemmBox box_of(const std::vector<MeasuredGemm>& rows) {
  STEPCAST_ASSERT(!rows.empty(), "a table has a box");
  GemmBox box{rows[0].m, rows[0].m, rows[0].n, rows[0].n, rows[0].k, rows[0].k};
  for (const MeasuredGemm& row : rows) {
    box = {std::min(box.m_min, row.m), std::max(box.m_max, row.m), std::min(box.n_min, row.n),
           std::max(box.n_max, row.n), std::min(box.k_min, row.k), std::max(box.k_max, row.k)};
  }
  return box;
}

Kernel into(const GemmBox& box, const Kernel& kernel) {
  Kernel inside = kernel;
  inside.m = std::clamp(kernel.m, box.m_min, box.m_max);
  inside.n = std::clamp(kernel.n, box.n_min, box.n_max);
  inside.k = std::clamp(kernel.k, box.k_min, box.k_max);
  return inside;
}

}  // namespace stepcast

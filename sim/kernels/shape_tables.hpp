#pragma once
// Measured kernels by shape (data/gemm-*.csv, data/attention-*.csv) and how a shape that is not
// among them gets its time: the model's seconds times measured / modelled of the shapes around it.
//
// Nearness. Whether a product fills its last wave depends on its number of tiles, so on m * n
// alone: 1024 x 8192 and 2048 x 4096 have the same tiles. How long a tile takes depends on k. The
// shape of the output, m / n, matters little. So distance is measured in
//
//   log2(m n)  widths of 1/8 octave     log2(m / n)  2 octaves     log2(k)  1/3 octave
//
// and measured / modelled is averaged (its logarithm, Nadaraya and Watson's kernel regression) with
// weights exp(-d^2 / 2) and a weight of 0.2 for "the model is right". A shape outside the table's
// box is taken to the box first: beyond it efficiencies no longer change. The widths are not
// fitted; halving and doubling them is part of what validate/kernels prints.
//
// Example: the only shape near has d = 1 and measured 1.2 times the model: weight 0.607, so the
// answer is 1.2^(0.607 / 0.807) = 1.147 times the model.
//
// Attention forward: log2(sequence) half an octave, log2(batch heads) half, log2(heads / kv) two.
//
// Cost: 0.5 ms to read and model a table, on first use of that GPU; then 2 to 5 us a shape. Checked
// shape blocks at a time by validate/kernels; tested by tests/unit/kernels/measured_test.cpp.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/kernel.hpp"

namespace stepcast {

struct MeasuredGemm {
  std::int64_t m = 0, n = 0, k = 0;
  double us = 0;
};

struct MeasuredAttention {
  std::int64_t batch = 0, sequence = 0, heads = 0, kv_heads = 0, head_size = 0;
  double us = 0;
};

// bf16 products and causal forwards of a catalog GPU, sorted by shape; none: empty.
std::vector<MeasuredGemm> measured_gemms(std::string_view gpu);
std::vector<MeasuredAttention> measured_attention(std::string_view gpu);
// Catalog names of the GPUs that have a table of products.
std::vector<std::string> measured_gpus();

Kernel kernel_of(const MeasuredGemm& row);
Kernel kernel_of(const MeasuredAttention& row);

using ShapePoint = std::array<double, 3>;  // in octaves
ShapePoint shape_point(const Kernel& kernel);

// Widths in octaves; `scale` stretches all of them (for the sensitivity that validate prints).
ShapePoint gemm_widths(double scale = 1.0);
ShapePoint attention_widths(double scale = 1.0);

// The smooth part of log(measured / modelled).
class ShapeResiduals {
 public:
  explicit ShapeResiduals(const ShapePoint& widths);

  void add(const ShapePoint& at, double log_ratio);
  bool empty() const { return points_.empty(); }
  double log_ratio(const ShapePoint& at) const;

 private:
  struct Point {
    ShapePoint at;  // in widths
    double log_ratio;
  };
  ShapePoint inverse_widths_;
  std::vector<Point> points_;
};

// The box of a table of products.
struct GemmBox {
  std::int64_t m_min = 0, m_max = 0, n_min = 0, n_max = 0, k_min = 0, k_max = 0;
};
GemmBox box_of(const std::vector<MeasuredGemm>& rows);
Kernel into(const GemmBox& box, const Kernel& kernel);

}  // namespace stepcast

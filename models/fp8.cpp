#include "models/fp8.hpp"

#include <algorithm>
#include <string_view>

namespace stepcast {
namespace {

constexpr std::string_view cast_mark = ".fp8_";  // in names of LinearNames
constexpr std::int64_t multiple = 16;            // of widths, for cuBLAS's fp8 products

bool delayed(const Sizes& z) { return z.fp8 == Fp8Recipe::te_delayed; }
bool compiled(const Sizes& z) { return z.workload->fused_elementwise; }

std::int64_t weight_elements(const Linear& linear) { return linear.in * linear.out; }

// Transformer Engine's cast_transpose: one kernel, both layouts.
Kernel cast_transpose(const Sizes& z, Name name, Bytes element, std::int64_t elements) {
  return memory_bound(name, z.dtype, element * elements, 2 * elements);
}

enum class Layouts : std::uint8_t { plain, transposed, both };

// torchao's cast. Compiled, `scaled` says that the largest value is known from forward: else two
// launches find it; eager code looks for it again.
Kernel dynamic_cast_of(const Sizes& z, Name name, Bytes element, std::int64_t elements,
                       Layouts layouts, bool scaled) {
  if (compiled(z)) {
    return memory_bound(name, z.dtype, (scaled ? 1 : 2) * element * elements,
                        (layouts == Layouts::both ? 2 : 1) * elements, scaled ? 1 : 3);
  }
  const int copy = layouts == Layouts::plain ? 0 : 1;
  const Bytes read = 3 * element + 4 + 4 + 4 + copy;
  const Bytes written = element + 4 + 4 + 4 + 1 + copy;
  return memory_bound(name, z.dtype, read * elements, written * elements, 6 + copy);
}

}  // namespace

bool casts_to_fp8(const Kernel& kernel) {
  return kernel.kind == KernelKind::memory &&
         kernel.name.str().find(cast_mark) != std::string::npos;
}

bool fits_fp8(std::int64_t in, std::int64_t out) {
  return in % multiple == 0 && out % multiple == 0;
}

bool runs_in_fp8(const Sizes& z, const Linear& linear) {
  return z.fp8 != Fp8Recipe::none && fits_fp8(linear.in, linear.out);
}

Kernel fp8_gemm(const Sizes& z, Name name, std::int64_t m, std::int64_t n, std::int64_t k) {
  Kernel kernel = gemm(name, Dtype::fp8, m, n, k);
  kernel.bytes_written = z.element * m * n;
  return kernel;
}

void fp8_linear_forward(const Sizes& z, const Linear& linear, std::vector<Kernel>& list) {
  const LinearNames& names = linear.names;
  const std::int64_t input = z.tokens * linear.in;
  const std::int64_t weight = weight_elements(linear);
  if (delayed(z)) {
    list.push_back(cast_transpose(z, names.fp8_input, z.element, input));
    list.push_back(cast_transpose(z, names.fp8_weight, z.parameter, weight));
  } else {
    const bool shared = linear.shares_input && compiled(z);
    if (!shared) {
      list.push_back(dynamic_cast_of(z, names.fp8_input, z.element, input, Layouts::plain, false));
    }
    if (!z.workload->fp8_gathered) {
      list.push_back(
          dynamic_cast_of(z, names.fp8_weight, z.parameter, weight, Layouts::plain, false));
    }
  }
  list.push_back(fp8_gemm(z, names.forward, z.tokens, linear.out, linear.in));
}

void fp8_linear_backward(const Sizes& z, const Linear& linear, std::vector<BackwardKernel>& list) {
  const LinearNames& names = linear.names;
  const std::int64_t input = z.tokens * linear.in;
  const std::int64_t gradient = z.tokens * linear.out;
  const std::int64_t weight = weight_elements(linear);
  if (delayed(z)) {
    BackwardKernel& cast = list.emplace_back();
    cast.kernel = cast_transpose(z, names.fp8_gradient, z.element, gradient);
    if (linear.bias >= 0) {
      cast.kernel.bytes_written += z.parameter * linear.out;
      cast.ready.push_back(linear.bias);
    }
  } else {
    if (linear.bias >= 0) {
      BackwardKernel& sum = list.emplace_back();
      sum.kernel = memory_bound(names.bias_grad, z.dtype, z.element * gradient,
                                z.parameter * linear.out, z.casts ? 2 : 1);
      sum.ready.push_back(linear.bias);
    }
    list.push_back(marks_nothing(
        dynamic_cast_of(z, names.fp8_gradient, z.element, gradient, Layouts::both, false)));
    if (z.workload->fp8_gathered) {
      list.push_back(marks_nothing(memory_bound(names.fp8_weight, Dtype::fp8, weight, weight)));
    } else {
      list.push_back(marks_nothing(
          dynamic_cast_of(z, names.fp8_weight, z.parameter, weight, Layouts::transposed, true)));
    }
    if (!linear.shares_input || !compiled(z)) {
      list.push_back(marks_nothing(
          dynamic_cast_of(z, names.fp8_input, z.element, input, Layouts::transposed, true)));
    }
  }
  list.push_back(marks_nothing(fp8_gemm(z, names.dgrad, z.tokens, linear.in, linear.out)));
  list.push_back(marks_nothing(fp8_gemm(z, names.wgrad, linear.out, linear.in, z.tokens)));
}

void Fp8Bytes::add(const Sizes& z, const Linear& linear) {
  if (!runs_in_fp8(z, linear)) return;
  const std::int64_t input = z.tokens * linear.in;
  const std::int64_t gradient = z.tokens * linear.out;
  const std::int64_t weight = weight_elements(linear);
  elements += weight;
  if (delayed(z)) {
    inputs += input;
    weights += weight;
    forward_workspace = std::max(forward_workspace, input + weight);  // the layouts not kept
    backward_workspace = std::max(backward_workspace, 2 * gradient);
    return;
  }
  forward_workspace = std::max(forward_workspace, input + (z.workload->fp8_gathered ? 0 : weight));
  backward_workspace = std::max(backward_workspace, 2 * gradient + weight + input);
}

}  // namespace stepcast

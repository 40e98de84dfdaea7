#include "sim/interop/trace_ops.hpp"

#include <algorithm>
#include <iterator>

namespace stepcast {

namespace {

using Dims = std::vector<std::int64_t>;

std::optional<Dtype> dtype_of(const std::string& type) {
  const std::string prefix = "c10::";
  const std::string name = type.starts_with(prefix) ? type.substr(prefix.size()) : type;
  const std::pair<const char*, Dtype> names[] = {
      {"float", Dtype::fp32},        {"Float", Dtype::fp32},      {"double", Dtype::fp64},
      {"Double", Dtype::fp64},       {"Half", Dtype::fp16},       {"BFloat16", Dtype::bf16},
      {"Float8_e4m3fn", Dtype::fp8}, {"Float8_e5m2", Dtype::fp8}, {"Byte", Dtype::int8},
      {"Char", Dtype::int8},         {"Int", Dtype::int32},       {"int", Dtype::int32},
      {"Long", Dtype::int64},        {"long int", Dtype::int64}};
  for (const auto& [known, dtype] : names) {
    if (name == known) return dtype;
  }
  return std::nullopt;
}

std::int64_t elements(const Dims& dims) {
  std::int64_t product = 1;
  for (const std::int64_t d : dims) {
    if (d < 0 || (d > 0 && product > (std::int64_t{1} << 50) / d)) return 0;
    product *= d;
  }
  return product;
}

// [b,] m x k times [b,] k x n, the inputs number `first` and the one after it.
std::optional<Kernel> product(const KinetoEvent& op, std::size_t first, bool batched) {
  if (op.input_dims.size() <= first + 1 || op.input_types.size() <= first) return std::nullopt;
  const Dims& a = op.input_dims[first];
  const Dims& b = op.input_dims[first + 1];
  const std::size_t rank = batched ? 3 : 2;
  if (a.size() != rank || b.size() != rank) return std::nullopt;
  const std::optional<Dtype> dtype = dtype_of(op.input_types[first]);
  const std::int64_t batch = batched ? a[0] : 1;
  const std::int64_t m = a[rank - 2], k = a[rank - 1], n = b[rank - 1];
  if (!dtype || b[rank - 2] != k || m < 1 || n < 1 || k < 1 || batch < 1) return std::nullopt;
  if (elements(a) == 0 || elements(b) == 0 || elements({batch, m, n}) == 0) return std::nullopt;
  return gemm(op.name, *dtype, m, n, k, batch);
}

// Elementwise: which inputs are read, and that the output is as large as the largest.
struct Elementwise {
  const char* name;
  int read;                 // of the first inputs
  bool skip_first = false;  // the first is written only
};
constexpr Elementwise elementwise[] = {{"aten::add", 2},         {"aten::add_", 2},
                                       {"aten::sub", 2},         {"aten::sub_", 2},
                                       {"aten::mul", 2},         {"aten::mul_", 2},
                                       {"aten::div", 2},         {"aten::div_", 2},
                                       {"aten::copy_", 1, true}, {"aten::relu", 1},
                                       {"aten::relu_", 1},       {"aten::clamp_min_", 1},
                                       {"aten::gelu", 1},        {"aten::silu", 1},
                                       {"aten::neg", 1},         {"aten::threshold_backward", 2}};

std::optional<Kernel> memory_kernel(const KinetoEvent& op, const Elementwise& what) {
  Bytes read = 0;
  std::int64_t largest = 0;
  Bytes written = 0;
  const std::size_t first = what.skip_first ? 1 : 0;
  for (std::size_t i = 0; i < first + static_cast<std::size_t>(what.read); ++i) {
    if (i >= op.input_dims.size() || i >= op.input_types.size()) return std::nullopt;
    const std::optional<Dtype> dtype = dtype_of(op.input_types[i]);
    if (!dtype) {
      if (i == 0) return std::nullopt;
      continue;  // a scalar
    }
    const std::int64_t count = elements(op.input_dims[i]);
    if (count == 0) return std::nullopt;
    if (i >= first) read += count * bytes_per_element(*dtype);
    // Of a copy the first is what is written; else the output has the first one's dtype.
    if (i == 0 || (!what.skip_first && count > largest)) {
      written = count * bytes_per_element(*dtype);
    }
    largest = std::max(largest, count);
  }
  return memory_bound(op.name, Dtype::fp32, read, written);
}

}  // namespace

std::optional<Kernel> kernel_of_op(const KinetoEvent& op) {
  if (op.name == "aten::mm" || op.name == "aten::_scaled_mm") return product(op, 0, false);
  if (op.name == "aten::addmm") return product(op, 1, false);
  if (op.name == "aten::bmm") return product(op, 0, true);
  if (op.name == "aten::baddbmm") return product(op, 1, true);
  for (const Elementwise& what : elementwise) {
    if (op.name == what.name) return memory_kernel(op, what);
  }
  return std::nullopt;
}

std::optional<TraceCollective> collective_of(const KinetoEvent& event) {
  if (event.collective.empty() || event.group_size < 2 || event.group_size > (1 << 24)) {
    return std::nullopt;
  }
  const std::pair<const char*, CollectiveKind> names[] = {
      {"allreduce", CollectiveKind::all_reduce},
      {"allreduce_coalesced", CollectiveKind::all_reduce},
      {"_allgather_base", CollectiveKind::all_gather},
      {"allgather", CollectiveKind::all_gather},
      {"all_gather", CollectiveKind::all_gather},
      {"allgather_into_tensor_coalesced", CollectiveKind::all_gather},
      {"_reduce_scatter_base", CollectiveKind::reduce_scatter},
      {"reduce_scatter", CollectiveKind::reduce_scatter},
      {"reduce_scatter_tensor_coalesced", CollectiveKind::reduce_scatter},
      {"broadcast", CollectiveKind::broadcast},
      {"reduce", CollectiveKind::reduce}};
  const auto* const known = std::find_if(std::begin(names), std::end(names), [&](const auto& n) {
    return event.collective == n.first;
  });
  if (known == std::end(names)) return std::nullopt;
  const std::optional<Dtype> dtype = dtype_of(event.dtype);
  const std::int64_t count =
      known->second == CollectiveKind::all_gather ? event.out_elements : event.in_elements;
  if (!dtype || count < 1 || count > (std::int64_t{1} << 50)) return std::nullopt;
  TraceCollective c;
  c.op = known->second;
  c.dtype = *dtype;
  c.bytes = count * bytes_per_element(*dtype);
  c.ranks = static_cast<int>(event.group_size);
  c.members = parse_ranks(event.group_ranks);
  if (c.members.size() != static_cast<std::size_t>(c.ranks)) c.members.clear();
  return c;
}

}  // namespace stepcast

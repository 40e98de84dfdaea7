#pragma once
// Units of the whole project. A plain number in an interface is one of these; anything else
// carries its unit in its name (bandwidth_gbps is 1e9 bytes a second, latency_us, flops).

#include <cstdint>
#include <optional>
#include <string_view>

namespace stepcast {

using Bytes = std::int64_t;  // 1 GB = 1e9 B, 1 MiB = 2^20 B; printed with the unit, never bare
using Seconds = double;

inline constexpr Bytes kib = 1024;
inline constexpr Bytes mib = 1024 * kib;
inline constexpr Bytes gib = 1024 * mib;

// Element types. tf32 is a compute type only: a tensor of it is stored as fp32.
enum class Dtype : std::uint8_t { fp64, fp32, tf32, fp16, bf16, fp8, int64, int32, int8 };

constexpr Bytes bytes_per_element(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp64:
    case Dtype::int64: return 8;
    case Dtype::fp32:
    case Dtype::tf32:
    case Dtype::int32: return 4;
    case Dtype::fp16:
    case Dtype::bf16: return 2;
    case Dtype::fp8:
    case Dtype::int8: return 1;
  }
  return 0;
}

std::string_view to_string(Dtype dtype);
// Reads the names above and the ones users write: float32, torch.bfloat16, half, ...
std::optional<Dtype> parse_dtype(std::string_view text);

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t multiple) {
  return ceil_div(a, multiple) * multiple;
}

}  // namespace stepcast

#include "base/units.hpp"

#include <array>
#include <utility>

namespace stepcast {

std::string_view to_string(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp64: return "fp64";
    case Dtype::fp32: return "fp32";
    case Dtype::tf32: return "tf32";
    case Dtype::fp16: return "fp16";
    case Dtype::bf16: return "bf16";
    case Dtype::fp8: return "fp8";
    case Dtype::int64: return "int64";
    case Dtype::int32: return "int32";
    case Dtype::int8: return "int8";
  }
  return "";
}

std::optional<Dtype> parse_dtype(std::string_view text) {
  constexpr std::string_view torch = "torch.";
  if (text.substr(0, torch.size()) == torch) text.remove_prefix(torch.size());
  static constexpr std::array<std::pair<std::string_view, Dtype>, 22> names{{
      {"fp64", Dtype::fp64},       {"float64", Dtype::fp64}, {"double", Dtype::fp64},
      {"fp32", Dtype::fp32},       {"float32", Dtype::fp32}, {"float", Dtype::fp32},
      {"tf32", Dtype::tf32},       {"fp16", Dtype::fp16},    {"float16", Dtype::fp16},
      {"half", Dtype::fp16},       {"bf16", Dtype::bf16},    {"bfloat16", Dtype::bf16},
      {"fp8", Dtype::fp8},         {"float8", Dtype::fp8},   {"float8_e4m3fn", Dtype::fp8},
      {"float8_e5m2", Dtype::fp8}, {"int64", Dtype::int64},  {"long", Dtype::int64},
      {"int32", Dtype::int32},     {"int", Dtype::int32},    {"int8", Dtype::int8},
      {"uint8", Dtype::int8},
  }};
  for (const auto& [name, dtype] : names) {
    if (text == name) return dtype;
  }
  return std::nullopt;
}

}  // namespace stepcast

#pragma once
// Numbers of a declared dtype in raw memory: how they are read, written and rounded.
//
// bf16 and fp16 are rounded to nearest, ties to even, as GPUs do; arithmetic on them is float.
// `visit` turns a Dtype into a type, once for a whole loop. Tested by tests/unit/runtime/ring_test.

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/error.hpp"
#include "base/units.hpp"

namespace stepcast::runtime {

struct Bf16 {
  std::uint16_t bits = 0;
};
struct Fp16 {
  std::uint16_t bits = 0;
};

inline float to_float(Bf16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }

inline Bf16 to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (std::isnan(x)) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

inline float to_float(Fp16 x) {
  const std::uint32_t sign = std::uint32_t{x.bits & 0x8000u} << 16;
  const std::uint32_t exponent = (x.bits >> 10) & 0x1fu;
  const std::uint32_t fraction = x.bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float small = std::ldexp(static_cast<float>(fraction), -24);
  return sign != 0 ? -small : small;
}

inline Fp16 to_fp16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const float magnitude = std::abs(x);
  if (std::isnan(x)) return {static_cast<std::uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 65520.0F) return {static_cast<std::uint16_t>(sign | 0x7c00u)};
  if (magnitude < 0x1p-14F) {  // subnormal: a multiple of 2^-24; nearbyint rounds ties to even
    const auto steps = static_cast<std::uint16_t>(std::nearbyint(std::ldexp(magnitude, 24)));
    return {static_cast<std::uint16_t>(sign | steps)};
  }
  const std::uint32_t rounded =
      (bits & 0x7fffffffu) + 0xfffu + ((bits >> 13) & 1u) - (std::uint32_t{112} << 23);
  return {static_cast<std::uint16_t>(sign | (rounded >> 13))};
}

// How a stored type is computed with.
template <typename Stored>
struct Number {
  using Real = Stored;
  static Real load(Stored x) { return x; }
  static Stored store(Real x) { return x; }
};
template <>
struct Number<Bf16> {
  using Real = float;
  static float load(Bf16 x) { return to_float(x); }
  static Bf16 store(float x) { return to_bf16(x); }
};
template <>
struct Number<Fp16> {
  using Real = float;
  static float load(Fp16 x) { return to_float(x); }
  static Fp16 store(float x) { return to_fp16(x); }
};

// Calls f with a value of the stored type.
template <typename F>
decltype(auto) visit(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::fp64: return f(double{});
    case Dtype::fp32:
    case Dtype::tf32: return f(float{});
    case Dtype::bf16: return f(Bf16{});
    case Dtype::fp16: return f(Fp16{});
    case Dtype::int64: return f(std::int64_t{});
    case Dtype::int32: return f(std::int32_t{});
    case Dtype::int8: return f(std::int8_t{});
    case Dtype::fp8: break;
  }
  STEPCAST_ASSERT(false, "the CPU executor has no fp8");
}

// Element `at` of raw memory (which need not be aligned: views start anywhere).
template <typename Stored>
typename Number<Stored>::Real load(const std::byte* memory, std::int64_t at) {
  Stored x;
  std::memcpy(&x, memory + at * static_cast<std::int64_t>(sizeof(Stored)), sizeof(Stored));
  return Number<Stored>::load(x);
}
template <typename Stored>
void store(std::byte* memory, std::int64_t at, typename Number<Stored>::Real value) {
  const Stored x = Number<Stored>::store(value);
  std::memcpy(memory + at * static_cast<std::int64_t>(sizeof(Stored)), &x, sizeof(Stored));
}

// What freed and fresh memory is filled with: every floating-point type reads NaN, integers -1.
inline constexpr int poison_byte = 0xff;

}  // namespace stepcast::runtime

#pragma once
// Whole numbers that are written as floats. DeepSpeed's own files say "reduce_bucket_size": 5e8, so
// integer keys take it: in TOML (base/toml) and as flags (cli/scenario_flags). A fraction is no
// whole number, and beyond 2^53 a double no longer tells one from the next. Tested by
// tests/unit/base/toml_test.cpp and tests/cli/bad_input_test.cpp.

#include <cmath>
#include <cstdint>
#include <optional>

namespace stepcast {

inline std::optional<std::int64_t> exact_integer(double number) {
  constexpr double most = 9007199254740992.0;  // 2^53
  if (!(std::fabs(number) <= most) || std::trunc(number) != number) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

}  // namespace stepcast

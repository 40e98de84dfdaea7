#include "base/number_text.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

namespace stepcast {
namespace {

constexpr double row_of_zeros = 1e9;
constexpr double whole_digits = 1e15;  // up to here every integer is a double

// "1e+09" as "1e9".
std::string plain_exponent(std::string text) {
  const std::size_t e = text.find('e');
  if (e == std::string::npos) return text;
  std::size_t digits = e + 1;
  if (text[digits] == '+') text.erase(digits, 1);
  if (text[digits] == '-') ++digits;
  while (text[digits] == '0' && digits + 1 < text.size()) text.erase(digits, 1);
  return text;
}

}  // namespace

std::string number_text(double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  const bool whole = value == std::floor(value);
  if (whole && std::abs(value) < row_of_zeros) return fmt::format("{:.0f}", value);
  if (whole) {
    for (const int digits : {0, 1}) {
      const std::string round = fmt::format("{:.{}e}", value, digits);
      if (std::strtod(round.c_str(), nullptr) == value) return plain_exponent(round);
    }
    if (std::abs(value) < whole_digits) return fmt::format("{:.0f}", value);
  }
  return plain_exponent(fmt::format("{}", value));
}

}  // namespace stepcast

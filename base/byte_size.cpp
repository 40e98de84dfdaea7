#include "base/byte_size.hpp"

#include <charconv>
#include <optional>
#include <string_view>

#include "base/letters.hpp"

namespace stepcast {
namespace {

constexpr double most = 1e15;  // nothing that a GPU holds or a collective moves is near it

// Bytes of "", "B", "K", "KB", "KiB", ...; none for another unit.
std::optional<double> bytes_of_unit(std::string_view unit) {
  if (unit.empty() || unit == "B") return 1;
  const std::string_view rest = unit.substr(1);
  if (!rest.empty() && rest != "B" && rest != "iB") return std::nullopt;
  switch (lower(unit.front())) {
    case 'k': return static_cast<double>(kib);
    case 'm': return static_cast<double>(mib);
    case 'g': return static_cast<double>(gib);
    case 't': return 1024 * static_cast<double>(gib);
    default: return std::nullopt;
  }
}

}  // namespace

Bytes parse_byte_size(const std::string& text, const Where& where) {
  double value = 0;
  const char* end = text.data() + text.size();
  const std::from_chars_result read = std::from_chars(text.data(), end, value);
  const std::optional<double> unit =
      bytes_of_unit({read.ptr, static_cast<std::size_t>(end - read.ptr)});
  // Written so that nan is refused, too.
  if (read.ec == std::errc{} && unit && value * *unit >= 1 && value * *unit <= most) {
    return static_cast<Bytes>(value * *unit);
  }
  throw InputError(where, "'" + text.substr(0, 40) +
                              "' is not accepted; accepted: bytes from 1 to 1e15, as 4096, 25M, "
                              "1GiB (K, M, G, T: powers of 1024)");
}

}  // namespace stepcast

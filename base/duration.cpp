#include "base/duration.hpp"

#include <charconv>
#include <utility>

namespace stepcast {

std::optional<Duration> read_duration(std::string_view text) {
  constexpr std::pair<std::string_view, Seconds> units[] = {
      {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}};
  Duration read;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, read.value);
  if (error != std::errc{}) return std::nullopt;
  for (const auto& [name, seconds] : units) {
    if (name != std::string_view(rest, static_cast<std::size_t>(end - rest))) continue;
    read.unit = seconds;
    return read;
  }
  return std::nullopt;
}

}  // namespace stepcast

#include "sim/report/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace stepcast {

std::string grouped(double value, int decimals) {
  const std::string digits = fmt::format("{:.{}f}", value, decimals);
  const std::size_t whole = std::min(digits.find('.'), digits.size());
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const bool after_digit = i > 0 && digits[i - 1] != '-';
    if (i < whole && after_digit && (whole - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

namespace {

struct Unit {
  double size;
  const char* name;
};

template <std::size_t Count>
std::string with_unit(double value, const std::array<Unit, Count>& units, int digits) {
  for (const Unit& unit : units) {
    const double scaled = value / unit.size;
    if (std::abs(scaled) < 1 && &unit != &units.back()) continue;
    int decimals = digits - 1;
    for (double v = std::abs(scaled); v >= 10 && decimals > 0; v /= 10) --decimals;
    return grouped(scaled, decimals) + " " + unit.name;
  }
  return "";
}

}  // namespace

std::string human_bytes(double bytes) {
  static constexpr std::array<Unit, 5> units{
      {{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}, {1, "B"}}};
  return bytes == 0 ? "0 B" : with_unit(bytes, units, 3);
}

std::string human_gib(Bytes bytes) {
  return grouped(static_cast<double>(bytes) / static_cast<double>(gib), 2) + " GiB";
}

std::string human_seconds(Seconds seconds) {
  static constexpr std::array<Unit, 3> units{{{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}}};
  return seconds == 0 ? "0 s" : with_unit(seconds, units, 4);
}

std::string human_count(double count) {
  static constexpr std::array<Unit, 5> units{
      {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "k"}, {1, ""}}};
  std::string text = with_unit(count, units, 4);
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

namespace {

std::size_t characters(const std::string& text) {  // of UTF-8
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

}  // namespace

std::string padded(const std::string& text, std::size_t width) {
  const std::size_t length = characters(text);
  return text + std::string(length < width ? width - length : 1, ' ');
}

std::string folded(const std::string& margin, const std::string& words, std::size_t width) {
  std::string text;
  std::string line = margin;
  bool fresh = true;
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find(' ', at), words.size());
    const std::string word = words.substr(at, end - at);
    if (!fresh && characters(line) + 1 + characters(word) > width) {
      text += line + "\n";
      line = std::string(characters(margin), ' ');
      fresh = true;
    }
    line += (fresh ? "" : " ") + word;
    fresh = false;
    at = end + 1;
  }
  return text + line + "\n";
}

}  // namespace stepcast

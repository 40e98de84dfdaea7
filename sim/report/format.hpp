#pragma once
// Numbers for people: thousands in groups, a unit always.

#include <string>

#include "base/units.hpp"

namespace stepcast {

std::string grouped(double value, int decimals = 0);  // 12,345.6
std::string human_bytes(double bytes);                // "1.50 GB": 1e9 B; three digits
std::string human_gib(Bytes bytes);                   // "74.5 GiB"
std::string human_seconds(Seconds seconds);           // "1.234 s", "12.3 ms", "45.6 us"
std::string human_count(double count);                // "8.03 B", "124.4 M"
std::string percent(double fraction);                 // "38.8 %"

// Columns and paragraphs, by characters: a psi is two bytes and one character.
// padded: filled up with spaces; at least one follows a text that is too long.
std::string padded(const std::string& text, std::size_t width);
// folded: words after a margin, at most `width` a line, each later line indented as far; ends in a
// line end.
std::string folded(const std::string& margin, const std::string& words, std::size_t width = 96);

}  // namespace stepcast

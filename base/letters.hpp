#pragma once
// Letters of ASCII in any case: names that files and people write as they like.
//
//   lower("All-Reduce") -> "all-reduce"; same_letters("ll128", "LL128")
//
// Bytes above 127 stay as they are, whatever the locale.

#include <algorithm>
#include <string>
#include <string_view>

namespace stepcast {

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

inline std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = lower(c);
  return out;
}

constexpr bool same_letter(char a, char b) { return lower(a) == lower(b); }

inline bool same_letters(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_letter);
}

}  // namespace stepcast

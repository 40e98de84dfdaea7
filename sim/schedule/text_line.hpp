#pragma once
// One line of the text form, read from left to right. Every failure is an InputError with file,
// line and what is accepted.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/units.hpp"
#include "sim/schedule/text_names.hpp"

namespace stepcast::text {

struct Word {
  std::string text;
  bool quoted = false;
  bool is_none() const { return !quoted && text == "-"; }
};

class Line {
 public:
  Line(std::string_view text, const std::string& file, int number)
      : text_(text), file_(file), number_(number) {}

  bool at_end();                     // nothing but blanks and a comment is left
  Word word(std::string_view what);  // bare or quoted; `what` names it in the error
  // The next KEY= or bare flag; `is_key` says which. Call only when not at_end().
  std::string key_or_flag(bool& is_key);
  bool accept(char c);  // takes c when it is next, without skipping blanks
  void expect_end();

  std::int64_t integer(std::string_view what, std::int64_t least, std::int64_t most);
  Bytes bytes(std::string_view what, Bytes most);
  Dtype dtype();

  template <typename Enum>
  Enum one_of(std::string_view what, Enum last) {
    const Word read = word(what);
    const std::vector<std::string> names = enum_names(last);
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] == read.text) return static_cast<Enum>(i);
    }
    throw not_accepted(where(what), read.text, names);
  }

  Where where(std::string_view key = {}) const { return {file_, number_, std::string(key)}; }
  [[noreturn]] void fail(std::string_view key, std::string_view message) const;

 private:
  void skip_blanks();
  std::int64_t digits(std::string_view what);

  std::string_view text_;
  const std::string& file_;
  int number_;
  std::size_t at_ = 0;
};

}  // namespace stepcast::text

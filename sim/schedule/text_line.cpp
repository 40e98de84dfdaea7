#include "sim/schedule/text_line.hpp"

#include <fmt/format.h>

#include <charconv>

namespace stepcast::text {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// What stands there, for messages: short, printable.
std::string shown(std::string_view text) {
  if (text.empty()) return "the end of the line";
  std::string result = "'";
  for (const char c : text.substr(0, 40)) {
    result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return result + "'";
}

}  // namespace

void Line::fail(std::string_view key, std::string_view message) const {
  throw InputError(where(key), message);
}

void Line::skip_blanks() {
  while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
}

bool Line::at_end() {
  skip_blanks();
  return at_ == text_.size() || text_[at_] == '#';
}

bool Line::accept(char c) {
  if (at_ >= text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

void Line::expect_end() {
  if (!at_end())
    fail({}, fmt::format("nothing more is accepted here, found {}", shown(text_.substr(at_))));
}

Word Line::word(std::string_view what) {
  Word result;
  if (at_end()) fail(what, "a word is missing; accepted: letters, digits, _.:/*~#- or \"quoted\"");
  if (text_[at_] != '"') {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_bare_character(text_[at_])) ++at_;
    result.text = std::string(text_.substr(begin, at_ - begin));
    if (result.text.empty()) {
      fail(what,
           fmt::format("found {}; accepted: a word of letters, digits, _.:/*~#- or \"quoted\"",
                       shown(text_.substr(begin))));
    }
    return result;
  }
  result.quoted = true;
  ++at_;
  while (at_ < text_.size() && text_[at_] != '"') {
    char c = text_[at_++];
    if (c == '\\') {
      const char escape = at_ < text_.size() ? text_[at_++] : '\0';
      if (escape == 'n') {
        c = '\n';
      } else if (escape == 't') {
        c = '\t';
      } else if (escape == '"' || escape == '\\') {
        c = escape;
      } else if (escape == 'x' && at_ + 2 <= text_.size() && hex_value(text_[at_]) >= 0 &&
                 hex_value(text_[at_ + 1]) >= 0) {
        c = static_cast<char>(hex_value(text_[at_]) * 16 + hex_value(text_[at_ + 1]));
        at_ += 2;
      } else {
        fail(what, "an unknown escape in a quoted word; accepted: \\n \\t \\\" \\\\ \\xHH");
      }
    }
    result.text += c;
  }
  if (!accept('"')) fail(what, "a quoted word does not end; accepted: \"...\" on one line");
  return result;
}

std::string Line::key_or_flag(bool& is_key) {
  Word read = word("key");
  is_key = accept('=');
  return std::move(read.text);
}

std::int64_t Line::digits(std::string_view what) {
  std::int64_t value = 0;
  const char* begin = text_.data() + at_;
  const char* end = text_.data() + text_.size();
  const auto [next, error] = std::from_chars(begin, end, value);
  if (error == std::errc::result_out_of_range) fail(what, "the number is too large for 64 bits");
  if (error != std::errc()) {
    fail(what, fmt::format("found {}; accepted: a whole number", shown(text_.substr(at_))));
  }
  at_ += static_cast<std::size_t>(next - begin);
  return value;
}

std::int64_t Line::integer(std::string_view what, std::int64_t least, std::int64_t most) {
  skip_blanks();
  const std::int64_t value = digits(what);
  if (value < least || value > most) {
    fail(what, fmt::format("{} is out of range; accepted: {} to {}", value, least, most));
  }
  return value;
}

Bytes Line::bytes(std::string_view what, Bytes most) {
  skip_blanks();
  const std::int64_t count = digits(what);
  const std::size_t begin = at_;
  while (at_ < text_.size() &&
         ((text_[at_] >= 'A' && text_[at_] <= 'Z') || (text_[at_] >= 'a' && text_[at_] <= 'z'))) {
    ++at_;
  }
  const std::string_view unit = text_.substr(begin, at_ - begin);
  Bytes factor = 0;
  if (unit == "B") factor = 1;
  if (unit == "KiB") factor = kib;
  if (unit == "MiB") factor = mib;
  if (unit == "GiB") factor = gib;
  if (factor == 0)
    fail(what, fmt::format("the unit {} is not known; accepted: B, KiB, MiB, GiB", shown(unit)));
  if (count < 0 || count > most / factor) {
    fail(what,
         fmt::format("{}{} is out of range; accepted: 0B to {}", count, unit, spelled_bytes(most)));
  }
  return count * factor;
}

Dtype Line::dtype() {
  const Word read = word("dtype");
  const std::optional<Dtype> parsed = parse_dtype(read.text);
  if (parsed) return *parsed;
  throw not_accepted(where("dtype"), read.text,
                     {"fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int64", "int32", "int8"});
}

}  // namespace stepcast::text

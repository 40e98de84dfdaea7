#include "base/tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace stepcast::tree {

namespace {

bool one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_upper_word(std::string_view text) {
  return text.size() > 2 && text.find('_') != std::string_view::npos && text.front() >= 'A' &&
         text.front() <= 'Z' && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
         });
}

// "1_000" and "+5" as Python writes them; hexadecimal and octal are left as text.
bool number_of(std::string_view word, Value& value) {
  std::string digits;
  for (const char c : word) {
    if (c != '_') digits += c;
  }
  if (digits.starts_with('+')) digits.erase(0, 1);
  if (digits.empty() || digits.find_first_not_of("0123456789.eE+-") != std::string::npos) {
    return false;
  }
  const char* end = digits.data() + digits.size();
  if (digits.find_first_of(".eE") == std::string::npos) {
    const auto read = std::from_chars(digits.data(), end, value.integer);
    if (read.ec == std::errc{} && read.ptr == end) {
      value.kind = Value::Kind::integer;
      value.number = static_cast<double>(value.integer);
      return true;
    }
  }
  const auto read = std::from_chars(digits.data(), end, value.number);
  if (read.ec != std::errc{} || read.ptr != end || !std::isfinite(value.number)) return false;
  value.kind = Value::Kind::number;
  return true;
}

// The first line that is neither blank nor a comment.
std::string_view first_line(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin != std::string_view::npos && line[begin] != '#') return line.substr(begin);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

// [table], or key = value where no colon comes before the equals sign.
bool looks_like_toml(std::string_view line) {
  if (line.starts_with('[')) {
    const std::size_t close = line.find(']');
    const std::string_view name = line.substr(0, close).substr(line.starts_with("[[") ? 2 : 1);
    return close != std::string_view::npos && !name.empty() &&
           std::all_of(name.begin(), name.end(),
                       [](char c) {
                         return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' ||
                                c == '-' || c == '.' || c == ' ' || c == '"';
                       }) &&
           std::isdigit(static_cast<unsigned char>(name.front())) == 0;
  }
  const std::size_t equals = line.find('=');
  return equals != std::string_view::npos && line.substr(0, equals).find(':') == std::string::npos;
}

void put_references_in(Value& value, const Value& root, int levels) {
  if (value.kind == Value::Kind::text && value.text.starts_with("${") &&
      value.text.ends_with("}")) {
    std::string_view path = std::string_view(value.text).substr(2, value.text.size() - 3);
    const Value* at = &root;
    while (at != nullptr && !path.empty()) {
      const std::size_t dot = std::min(path.find('.'), path.size());
      at = at->find(path.substr(0, dot));
      path.remove_prefix(std::min(dot + 1, path.size()));
    }
    // A reference to a table would copy it: of use to nobody here, and a way to grow without end.
    if (at == nullptr || !at->is_scalar() || levels > 8) return;
    Value copy = *at;
    copy.line = value.line;
    value = std::move(copy);
    put_references_in(value, root, levels + 1);
    return;
  }
  for (Value& item : value.items) put_references_in(item, root, levels);
  for (auto& [key, entry] : value.entries) put_references_in(entry, root, levels);
}

}  // namespace

const Value* Value::find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    if (name == key) return &value;
  }
  return nullptr;
}

const char* to_string(Syntax syntax) {
  switch (syntax) {
    case Syntax::json: return "JSON";
    case Syntax::yaml: return "YAML";
    case Syntax::toml: return "TOML";
  }
  return "";
}

Value text_scalar(std::string word, int line) {
  Value value;
  value.kind = Value::Kind::text;
  value.line = line;
  value.text = std::move(word);
  return value;
}

Value plain_scalar(std::string word, int line) {
  Value value = text_scalar(std::move(word), line);
  const std::string_view w = value.text;
  if (one_of(w, {"", "~", "null", "Null", "NULL"})) {
    value.kind = Value::Kind::null;
  } else if (one_of(w, {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})) {
    value.kind = Value::Kind::boolean;
    value.boolean = true;
  } else if (one_of(w, {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})) {
    value.kind = Value::Kind::boolean;
  } else {
    number_of(w, value);
  }
  return value;
}

bool is_blank(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return first_line(text).empty();
}

ParsedValue parse_value(const std::string& text, const std::string& file) {
  if (text.size() > most_bytes) {
    throw InputError(
        {.file = file, .line = 0, .key = ""},
        fmt::format("{} bytes; accepted: JSON, YAML or TOML of at most 4 MiB", text.size()));
  }
  if (text.find('\0') != std::string::npos) {
    throw InputError({.file = file, .line = 0, .key = ""},
                     "is not text; accepted: JSON, YAML or TOML");
  }
  if (text.starts_with("\xEF\xBB\xBF")) return parse_value(text.substr(3), file);
  int line_number = 1;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) {
      throw InputError({.file = file, .line = line_number, .key = ""},
                       "is not valid UTF-8; accepted: JSON, YAML or TOML in UTF-8");
    }
    if (text[at] == '\n') ++line_number;
    at += length;
  }
  const std::string_view line = first_line(text);
  if (line.empty()) {
    throw InputError({.file = file, .line = 0, .key = ""},
                     "is empty; accepted: JSON, YAML or TOML");
  }
  const bool braces = text.find_first_not_of(" \t\r\n") != std::string::npos &&
                      text[text.find_first_not_of(" \t\r\n")] == '{';
  if (braces) {
    try {
      return {parse_json(text, file), Syntax::json};
    } catch (const InputError& strict) {
      // GPT-NeoX's files are YAML in braces: with comments, or a comma before the closing brace.
      // Anything else that is wrong is told as JSON's parser sees it.
      if (text.find('#') == std::string::npos) throw;
      try {
        return {parse_yaml(text, file), Syntax::yaml};
      } catch (const InputError&) {
        throw strict;
      }
    }
  }
  if (line.starts_with('{')) return {parse_yaml(text, file), Syntax::yaml};
  if (looks_like_toml(line)) return {parse_toml(text, file), Syntax::toml};
  return {parse_yaml(text, file), Syntax::yaml};
}

void resolve_references(Value& root) {
  const Value original = root;
  put_references_in(root, original, 0);
}

std::string shown(const Value& value) {
  std::string text;
  switch (value.kind) {
    case Value::Kind::null: text = "null"; break;
    case Value::Kind::boolean: text = value.boolean ? "true" : "false"; break;
    case Value::Kind::map: text = value.entries.empty() ? "{}" : "{...}"; break;
    case Value::Kind::list:
      for (const Value& item : value.items) {
        text += (text.empty() ? "" : ", ") + shown(item);
        if (text.size() > 80) break;
      }
      text = "[" + text + "]";
      break;
    case Value::Kind::text: text = "\"" + value.text + "\""; break;
    default: text = value.text;
  }
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == 127) c = ' ';
  }
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

bool is_placeholder(std::string_view text) {
  return text.find("${") != std::string_view::npos || text.find("{{") != std::string_view::npos ||
         text == "???" || text.find("TODO") != std::string_view::npos ||
         (text.size() > 2 && text.front() == '<' && text.back() == '>') ||
         (text.size() > 2 && text.front() == '%' && text.back() == '%') || is_upper_word(text);
}

std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  if (first < 0x80) return 1;
  const std::size_t n = first >= 0xC2 && first < 0xE0   ? 2
                        : first >= 0xE0 && first < 0xF0 ? 3
                        : first >= 0xF0 && first < 0xF5 ? 4
                                                        : 0;
  if (n == 0 || at + n > text.size()) return 0;
  for (std::size_t i = at + 1; i < at + n; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, beyond U+10FFFF.
  const unsigned char second = byte(at + 1);
  const bool wrong = (first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) ||
                     (first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90);
  return wrong ? 0 : n;
}

const Value& empty_table() {
  static const Value empty = [] {
    Value value;
    value.kind = Value::Kind::map;
    return value;
  }();
  return empty;
}

void Limits::enter(int line) {
  if (++depth_ > most_depth) {
    throw InputError({.file = file_, .line = line, .key = ""},
                     fmt::format("more than {} levels deep; accepted: fewer", most_depth));
  }
}

void Limits::count(int line, std::size_t values) {
  values_ += values;
  if (values_ > most_values) {
    throw InputError({.file = file_, .line = line, .key = ""},
                     fmt::format("more than {} values; accepted: fewer", most_values));
  }
}

}  // namespace stepcast::tree

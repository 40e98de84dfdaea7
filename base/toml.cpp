#include "base/toml.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/number_text.hpp"
#include "base/suggestion.hpp"
#include "base/whole.hpp"

namespace stepcast {

struct TomlTable::Node {
  std::shared_ptr<toml::table> root;  // keeps the tree alive
  toml::table* table = nullptr;
  std::string file;
  std::string prefix;  // dotted path of this table, "" at the root
  std::set<std::string, std::less<>> asked;
};

namespace {

std::string_view type_name(toml::node_type type) {
  switch (type) {
    case toml::node_type::table: return "a table";
    case toml::node_type::array: return "an array";
    case toml::node_type::string: return "a string";
    case toml::node_type::integer: return "an integer";
    case toml::node_type::floating_point: return "a number";
    case toml::node_type::boolean: return "true or false";
    default: return "a date or time";
  }
}

InputError wrong_type(const Where& where, const toml::node& node, std::string_view wanted) {
  return InputError(where, fmt::format("is {}; accepted: {}", type_name(node.type()), wanted));
}

std::string bounds_text(TomlTable::Bounds b) {
  const bool low = std::isfinite(b.min);
  const bool high = std::isfinite(b.max);
  if (low && high) return fmt::format("{} to {}", number_text(b.min), number_text(b.max));
  if (low) return number_text(b.min) + " or more";
  if (high) return "at most " + number_text(b.max);
  return "any finite number";
}

}  // namespace

TomlTable::TomlTable(std::shared_ptr<Node> node) : node_(std::move(node)) {}

namespace {

// The parser follows dotted keys by recursion: a.a.a... must not exhaust the stack.
constexpr int most_key_parts = 64;

// Where the string that opens at `at` has ended: "", '', and both of three quotes, over lines and
// with up to two quotes of its own before the last three.
std::size_t after_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string_view three = quote == '"' ? "\"\"\"" : "'''";
  const bool over_lines = text.substr(at, 3) == three;
  for (at += over_lines ? 3 : 1; at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\') {
      ++at;
    } else if (over_lines && text.substr(at, 3) == three) {
      at += 3;
      for (int own = 0; own < 2 && at < text.size() && text[at] == quote; ++own) ++at;
      return at;
    } else if (!over_lines && text[at] == quote) {
      return at + 1;
    } else if (!over_lines && text[at] == '\n') {
      return at;  // the parser refuses it
    }
  }
  return text.size();
}

void refuse_deep_keys(std::string_view text, const std::string& file) {
  std::ptrdiff_t line = 1;
  int dots = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      const std::size_t end = after_string(text, at);
      line += std::count(text.begin() + at, text.begin() + end, '\n');
      at = end;
      continue;
    }
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    ++at;
    if (c == '\n') ++line;
    if (c == '\n' || c == '=' || c == ',' || c == '{' || c == '}') dots = 0;
    if (c == '.' && ++dots >= most_key_parts) {
      throw InputError({file, static_cast<int>(line), ""},
                       fmt::format("a key of more than {} parts; accepted: fewer", most_key_parts));
    }
  }
}

}  // namespace

TomlTable TomlTable::from_text(std::string_view text, const std::string& file) {
  refuse_deep_keys(text, file);
  auto node = std::make_shared<Node>();
  try {
    node->root = std::make_shared<toml::table>(toml::parse(text, file));
  } catch (const toml::parse_error& error) {
    throw InputError({file, static_cast<int>(error.source().begin.line), ""},
                     fmt::format("not valid TOML: {}", error.description()));
  }
  node->table = node->root.get();
  node->file = file;
  return TomlTable(std::move(node));
}

TomlTable TomlTable::from_file(const std::string& path) {
  return from_text(read_file(path, 16ll << 20), path);
}

bool TomlTable::has(std::string_view key) const { return node_->table->contains(key); }

std::vector<std::string> TomlTable::keys() const {
  std::vector<std::string> all;
  for (const auto& [key, value] : *node_->table) all.emplace_back(key.str());
  return all;
}

Where TomlTable::where(std::string_view key) const {
  Where where;
  where.file = node_->file;
  where.key = node_->prefix;
  where.line = static_cast<int>(node_->table->source().begin.line);
  if (!key.empty()) {
    where.key += (where.key.empty() ? "" : ".") + std::string(key);
    if (const toml::node* value = node_->table->get(key)) {
      where.line = static_cast<int>(value->source().begin.line);
    }
  }
  return where;
}

namespace {

template <typename Table>
toml::node* ask(Table& node, std::string_view key) {
  node.asked.emplace(key);
  return node.table->get(key);
}

// An integer, or one that is written as a float: 5e8.
std::optional<std::int64_t> whole_number(const toml::node& value) {
  if (value.is_integer()) return value.as_integer()->get();
  if (value.is_floating_point()) return exact_integer(value.as_floating_point()->get());
  return std::nullopt;
}

InputError missing(const Where& where, std::string_view wanted) {
  return InputError(where, fmt::format("is missing; accepted: {}", wanted));
}

}  // namespace

std::optional<std::string> TomlTable::optional_string(std::string_view key) {
  toml::node* value = ask(*node_, key);
  if (!value) return std::nullopt;
  if (!value->is_string()) throw wrong_type(where(key), *value, "a string");
  return value->as_string()->get();
}

std::string TomlTable::string(std::string_view key) {
  auto value = optional_string(key);
  if (!value) throw missing(where(key), "a string");
  return *std::move(value);
}

std::string TomlTable::string_or(std::string_view key, std::string fallback) {
  return optional_string(key).value_or(std::move(fallback));
}

namespace {

// Of an integer that no double holds toml++'s value<double>() is empty: the nearest double is
// meant.
double number_in(const toml::node& node) {
  if (const auto* whole = node.as_integer()) return static_cast<double>(whole->get());
  return node.as_floating_point()->get();
}

}  // namespace

std::optional<double> TomlTable::optional_number(std::string_view key, Bounds bounds) {
  toml::node* value = ask(*node_, key);
  if (!value) return std::nullopt;
  if (!value->is_number()) throw wrong_type(where(key), *value, "a number");
  const double number = number_in(*value);
  if (!std::isfinite(number) || number < bounds.min || number > bounds.max) {
    throw InputError(where(key),
                     fmt::format("{} is out of range; accepted: {}", number, bounds_text(bounds)));
  }
  return number;
}

double TomlTable::number(std::string_view key, Bounds bounds) {
  const auto value = optional_number(key, bounds);
  if (!value) throw missing(where(key), "a number, " + bounds_text(bounds));
  return *value;
}

double TomlTable::number_or(std::string_view key, double fallback, Bounds bounds) {
  return optional_number(key, bounds).value_or(fallback);
}

std::optional<std::int64_t> TomlTable::optional_integer(std::string_view key, Bounds bounds) {
  toml::node* value = ask(*node_, key);
  if (!value) return std::nullopt;
  const std::optional<std::int64_t> whole = whole_number(*value);
  if (!whole && value->is_floating_point()) {
    throw InputError(
        where(key), fmt::format("{} is not accepted; accepted: an integer, also as 5e8, up to 2^53",
                                value->as_floating_point()->get()));
  }
  if (!whole) throw wrong_type(where(key), *value, "an integer");
  const std::int64_t integer = *whole;
  const double number = static_cast<double>(integer);
  if (number < bounds.min || number > bounds.max) {
    throw InputError(where(key),
                     fmt::format("{} is out of range; accepted: {}", integer, bounds_text(bounds)));
  }
  return integer;
}

std::int64_t TomlTable::integer(std::string_view key, Bounds bounds) {
  const auto value = optional_integer(key, bounds);
  if (!value) throw missing(where(key), "an integer, " + bounds_text(bounds));
  return *value;
}

std::int64_t TomlTable::integer_or(std::string_view key, std::int64_t fallback, Bounds bounds) {
  return optional_integer(key, bounds).value_or(fallback);
}

std::optional<bool> TomlTable::optional_boolean(std::string_view key) {
  toml::node* value = ask(*node_, key);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) throw wrong_type(where(key), *value, "true or false");
  return value->as_boolean()->get();
}

bool TomlTable::is_integer(std::string_view key) const {
  const toml::node* value = node_->table->get(key);
  return value && whole_number(*value);
}

bool TomlTable::boolean_or(std::string_view key, bool fallback) {
  return optional_boolean(key).value_or(fallback);
}

std::vector<std::string> TomlTable::strings(std::string_view key) {
  std::vector<std::string> list;
  toml::node* value = ask(*node_, key);
  if (!value) return list;
  if (!value->is_array()) throw wrong_type(where(key), *value, "an array of strings");
  for (const toml::node& item : *value->as_array()) {
    if (!item.is_string()) throw wrong_type(where(key), item, "an array of strings");
    list.push_back(item.as_string()->get());
  }
  return list;
}

std::vector<double> TomlTable::numbers(std::string_view key) {
  std::vector<double> list;
  toml::node* value = ask(*node_, key);
  if (!value) return list;
  if (!value->is_array()) throw wrong_type(where(key), *value, "an array of numbers");
  for (const toml::node& item : *value->as_array()) {
    if (!item.is_number()) throw wrong_type(where(key), item, "an array of numbers");
    const double number = number_in(item);
    if (!std::isfinite(number)) {
      throw InputError(where(key),
                       fmt::format("{} is out of range; accepted: finite numbers", number));
    }
    list.push_back(number);
  }
  return list;
}

std::vector<std::vector<std::string>> TomlTable::string_rows(std::string_view key) {
  std::vector<std::vector<std::string>> rows;
  toml::node* value = ask(*node_, key);
  if (!value) return rows;
  constexpr std::string_view wanted = "an array of arrays of strings and numbers";
  if (!value->is_array()) throw wrong_type(where(key), *value, wanted);
  for (const toml::node& item : *value->as_array()) {
    if (!item.is_array()) throw wrong_type(where(key), item, wanted);
    auto& row = rows.emplace_back();
    for (const toml::node& cell : *item.as_array()) {
      if (cell.is_string()) {
        row.push_back(cell.as_string()->get());
      } else if (cell.is_integer()) {
        row.push_back(std::to_string(cell.as_integer()->get()));
      } else if (cell.is_floating_point()) {
        row.push_back(fmt::format("{}", cell.as_floating_point()->get()));
      } else {
        throw wrong_type(where(key), cell, wanted);
      }
    }
  }
  return rows;
}

std::optional<TomlTable> TomlTable::table(std::string_view key) {
  toml::node* value = ask(*node_, key);
  if (!value) return std::nullopt;
  if (!value->is_table()) throw wrong_type(where(key), *value, "a table");
  auto child = std::make_shared<Node>();
  child->root = node_->root;
  child->table = value->as_table();
  child->file = node_->file;
  child->prefix = where(key).key;
  return TomlTable(std::move(child));
}

std::vector<TomlTable> TomlTable::tables(std::string_view key) {
  std::vector<TomlTable> list;
  toml::node* value = ask(*node_, key);
  if (!value) return list;
  if (!value->is_array()) throw wrong_type(where(key), *value, "an array of tables");
  for (toml::node& item : *value->as_array()) {
    if (!item.is_table()) throw wrong_type(where(key), item, "an array of tables");
    auto child = std::make_shared<Node>();
    child->root = node_->root;
    child->table = item.as_table();
    child->file = node_->file;
    child->prefix = fmt::format("{}[{}]", where(key).key, list.size());
    list.push_back(TomlTable(std::move(child)));
  }
  return list;
}

void TomlTable::finish() const {
  const std::vector<std::string> known(node_->asked.begin(), node_->asked.end());
  for (const auto& [key, value] : *node_->table) {
    if (node_->asked.find(key.str()) == node_->asked.end()) {
      const std::string near = suggestion(key.str(), known);
      throw InputError(where(key.str()),
                       "is not a known key" + near + accepted_words(known, !near.empty()));
    }
  }
}

}  // namespace stepcast

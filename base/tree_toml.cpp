// TOML to Value. base/toml reads files whose every key is known by type; these are not.

#include <fmt/format.h>
#include <toml++/toml.h>

#include <cmath>
#include <sstream>

#include "base/toml.hpp"
#include "base/tree.hpp"

namespace stepcast::tree {

namespace {

Value value_of(const toml::node& node, Limits& limits) {
  Value value;
  value.line = static_cast<int>(node.source().begin.line);
  limits.count(value.line);
  if (const toml::table* table = node.as_table()) {
    limits.enter(value.line);
    value.kind = Value::Kind::map;
    for (const auto& [key, entry] : *table) {
      Value read = value_of(entry, limits);
      // A table [a.b] lies where its header is; a plain value where its key is.
      if (!read.is_map()) read.line = static_cast<int>(key.source().begin.line);
      value.entries.push_back({std::string(key.str()), std::move(read)});
    }
    limits.leave();
  } else if (const toml::array* array = node.as_array()) {
    limits.enter(value.line);
    value.kind = Value::Kind::list;
    for (const toml::node& item : *array) value.items.push_back(value_of(item, limits));
    limits.leave();
  } else if (const auto* text = node.as_string()) {
    value.kind = Value::Kind::text;
    value.text = text->get();
  } else if (const auto* integer = node.as_integer()) {
    value.kind = Value::Kind::integer;
    value.integer = integer->get();
    value.number = static_cast<double>(integer->get());
    value.text = std::to_string(integer->get());
  } else if (const auto* number = node.as_floating_point()) {
    value.kind = Value::Kind::number;
    value.number = number->get();
    value.text = fmt::format("{}", number->get());
  } else if (const auto* boolean = node.as_boolean()) {
    value.kind = Value::Kind::boolean;
    value.boolean = boolean->get();
    value.text = value.boolean ? "true" : "false";
  } else {
    std::ostringstream out;
    node.visit([&](const auto& n) { out << n; });
    value.kind = Value::Kind::text;
    value.text = out.str();
  }
  return value;
}

}  // namespace

Value parse_toml(const std::string& text, const std::string& file) {
  TomlTable::from_text(text, file);  // its limits on keys, its words for what is wrong
  Limits limits(file);
  const toml::table root = toml::parse(text, file);
  return value_of(root, limits);
}

}  // namespace stepcast::tree

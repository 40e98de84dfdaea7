#include "models/json_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/toml.hpp"

namespace stepcast {

using Json = nlohmann::json;

struct JsonReader::Node {
  std::shared_ptr<const Json> root;  // keeps the tree alive
  std::shared_ptr<const std::string> text;
  const Json* object = nullptr;
  std::string file;
  std::string path;  // dotted, of this object; "" at the root
};

namespace {

int line_at(std::string_view text, std::size_t position) {
  position = std::min(position, text.size());
  return 1 + static_cast<int>(std::count(
                 text.begin(), text.begin() + static_cast<std::ptrdiff_t>(position), '\n'));
}

// "an array", "the string 'silu'", "-3": what stands there, briefly.
std::string described(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  if (value.is_string()) {
    return fmt::format("the string '{}'", value.get_ref<const std::string&>().substr(0, 60));
  }
  return value.dump();
}

InputError wrong_type(const Where& where, const Json& value, std::string_view wanted) {
  return InputError(where, fmt::format("is {}; accepted: {}", described(value), wanted));
}

InputError missing(const Where& where, std::string_view wanted) {
  return InputError(where, fmt::format("is missing; accepted: {}", wanted));
}

const Json* find(const JsonReader::Node& node, std::string_view key) {
  const auto it = node.object->find(key);
  return it == node.object->end() || it->is_null() ? nullptr : &*it;
}

// Python writes Infinity and NaN, which are not JSON, into config.json (time_step_limit of hybrid
// models). Nothing here asks for such a value: it becomes an empty string of the same length, so
// that lines stay and a size that is NaN is still an error.
std::string without_nonfinite(std::string text) {
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted) {
      for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
        if (text.compare(i, word.size(), word) != 0) continue;
        text.replace(i, word.size(), "\"\"" + std::string(word.size() - 2, ' '));
        i += word.size() - 1;
        break;
      }
    }
  }
  return text;
}

// Where brackets first lie deeper than `most`; npos: nowhere. Copies and destructors of a tree
// recurse.
std::size_t too_deep(std::string_view text, int most) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && (text[i] == '{' || text[i] == '[')) {
      if (++depth > most) return i;
    } else if (!quoted && (text[i] == '}' || text[i] == ']')) {
      --depth;
    }
  }
  return std::string_view::npos;
}

}  // namespace

// Walks the text once, keeping the dotted path of the open objects. The text has been parsed, so
// brackets and quotes match.
int line_of_json_key(std::string_view text, std::string_view path) {
  std::vector<std::size_t> path_sizes;  // length of `open` before each open bracket's key
  std::string open;                     // path of the innermost object, then of the key read last
  std::string key;
  int line = 1;
  int key_line = 0;
  int found = 0;
  std::size_t base = 0;  // length of the innermost object's path in `open`
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (c == '"') {
      const std::size_t start = i + 1;
      key_line = line;
      for (++i; i < text.size() && text[i] != '"'; ++i) {
        if (text[i] == '\\') ++i;
      }
      key.assign(text.substr(start, std::min(i, text.size()) - start));
    } else if (c == ':') {
      open.resize(base);
      if (base > 0) open += '.';
      open += key;
      if (open == path) found = key_line;
    } else if (c == '{' || c == '[') {
      path_sizes.push_back(base);
      if (c == '[') open += "[]";  // elements of arrays are never asked for
      base = open.size();
    } else if (c == '}' || c == ']') {
      if (!path_sizes.empty()) {
        base = path_sizes.back();
        path_sizes.pop_back();
      }
      open.resize(std::min(base, open.size()));
    }
  }
  return found;
}

JsonReader JsonReader::from_file(const std::string& path) {
  return from_text(read_file(path, 16ll << 20), path);
}

JsonReader JsonReader::from_text(const std::string& text, const std::string& file) {
  constexpr int most_depth = 128;
  if (const std::size_t at = too_deep(text, most_depth); at != std::string_view::npos) {
    throw InputError({file, line_at(text, at), ""},
                     fmt::format("nests deeper than {} brackets; accepted: a Hugging Face "
                                 "config.json",
                                 most_depth));
  }
  auto node = std::make_shared<Node>();
  try {
    node->root = std::make_shared<const Json>(Json::parse(without_nonfinite(text)));
  } catch (const Json::parse_error& error) {
    // Only where it stands: the library's own words carry its class names.
    throw InputError({file, line_at(text, error.byte), ""},
                     error.byte >= text.size()
                         ? "ends in the middle of a value: not valid JSON; accepted: a "
                           "whole config.json"
                         : "is not valid JSON here; accepted: a Hugging "
                           "Face config.json");
  } catch (const Json::exception&) {
    throw InputError({file, 0, ""}, "holds a number that JSON readers cannot represent");
  }
  node->text = std::make_shared<const std::string>(text);
  node->file = file;
  if (!node->root->is_object()) {
    throw wrong_type({file, 1, ""}, *node->root, "an object of keys and values");
  }
  node->object = node->root.get();
  return JsonReader(std::move(node));
}

bool JsonReader::has(std::string_view key) const { return find(*node_, key) != nullptr; }

Where JsonReader::where(std::string_view key) const {
  Where where;
  where.file = node_->file;
  where.key = node_->path;
  if (!key.empty()) where.key += (where.key.empty() ? "" : ".") + std::string(key);
  where.line = line_of_json_key(*node_->text, where.key);
  if (where.line == 0 && !node_->path.empty()) {
    where.line = line_of_json_key(*node_->text, node_->path);
  }
  if (where.line == 0) where.line = 1;  // missing from the file's own object
  return where;
}

std::optional<std::int64_t> JsonReader::optional_integer(std::string_view key) const {
  const Json* value = find(*node_, key);
  if (!value) return std::nullopt;
  if (!value->is_number_integer()) throw wrong_type(where(key), *value, "an integer");
  if (value->is_number_unsigned() &&
      value->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) {
    throw wrong_type(where(key), *value, "an integer below 2^63");
  }
  return value->get<std::int64_t>();
}

std::int64_t JsonReader::integer(std::string_view key) const {
  const auto value = optional_integer(key);
  if (!value) throw missing(where(key), "an integer");
  return *value;
}

std::optional<double> JsonReader::optional_number(std::string_view key) const {
  const Json* value = find(*node_, key);
  if (!value) return std::nullopt;
  if (!value->is_number()) throw wrong_type(where(key), *value, "a number");
  return value->get<double>();
}

bool JsonReader::boolean_or(std::string_view key, bool fallback) const {
  const Json* value = find(*node_, key);
  if (!value) return fallback;
  if (!value->is_boolean()) throw wrong_type(where(key), *value, "true or false");
  return value->get<bool>();
}

std::optional<std::string> JsonReader::optional_string(std::string_view key) const {
  const Json* value = find(*node_, key);
  if (!value) return std::nullopt;
  if (!value->is_string()) throw wrong_type(where(key), *value, "a string");
  return value->get<std::string>();
}

std::string JsonReader::string(std::string_view key, std::string_view wanted) const {
  auto value = optional_string(key);
  if (!value) throw missing(where(key), wanted);
  return *std::move(value);
}

std::vector<std::string> JsonReader::strings(std::string_view key) const {
  const Json* value = find(*node_, key);
  std::vector<std::string> list;
  if (!value) return list;
  if (!value->is_array()) throw wrong_type(where(key), *value, "an array of strings");
  for (const Json& element : *value) {
    if (!element.is_string()) throw wrong_type(where(key), element, "an array of strings");
    list.push_back(element.get<std::string>());
  }
  return list;
}

std::vector<std::int64_t> JsonReader::integers(std::string_view key) const {
  const Json* value = find(*node_, key);
  std::vector<std::int64_t> list;
  if (!value) return list;
  if (!value->is_array()) throw wrong_type(where(key), *value, "an array of integers");
  for (const Json& element : *value) {
    if (!element.is_number_integer()) throw wrong_type(where(key), element, "an array of integers");
    list.push_back(element.get<std::int64_t>());
  }
  return list;
}

std::vector<std::string> JsonReader::repeated_strings(std::string_view key) const {
  constexpr std::size_t most = 1 << 16;
  const Json* value = find(*node_, key);
  std::vector<std::string> list;
  if (!value) return list;
  const auto refuse = [&](const Json& what) {
    throw wrong_type(where(key), what, "lists of names, each with how often it stands");
  };
  if (!value->is_array()) refuse(*value);
  for (const Json& part : *value) {
    if (!part.is_array() || part.size() != 2 || !part[0].is_array() ||
        !part[1].is_number_unsigned()) {
      refuse(part);
    }
    const auto times = part[1].get<std::uint64_t>();
    if (times > most || part[0].size() > most || list.size() + times * part[0].size() > most) {
      refuse(part[1]);
    }
    for (const Json& name : part[0]) {
      if (!name.is_string()) refuse(name);
    }
    for (std::uint64_t i = 0; i < times; ++i) {
      for (const Json& name : part[0]) list.push_back(name.get<std::string>());
    }
  }
  return list;
}

bool JsonReader::is_string(std::string_view key) const {
  const Json* value = find(*node_, key);
  return value != nullptr && value->is_string();
}

std::int64_t JsonReader::entries() const {
  return static_cast<std::int64_t>(node_->object->size());
}

std::optional<JsonReader> JsonReader::object(std::string_view key) const {
  const Json* value = find(*node_, key);
  if (!value) return std::nullopt;
  if (!value->is_object()) throw wrong_type(where(key), *value, "an object");
  auto child = std::make_shared<Node>();
  child->root = node_->root;
  child->text = node_->text;
  child->object = value;
  child->file = node_->file;
  child->path = where(key).key;
  return JsonReader(std::move(child));
}

std::optional<JsonReader> JsonReader::object_inheriting(
    std::string_view key, std::initializer_list<const char*> keys) const {
  auto inner = object(key);
  if (!inner) return inner;
  Json merged = *inner->node_->object;
  for (const char* inherited : keys) {
    const Json* mine = find(*node_, inherited);
    const auto theirs = merged.find(inherited);
    if (mine && (theirs == merged.end() || theirs->is_null())) merged[inherited] = *mine;
  }
  auto node = std::make_shared<Node>(*inner->node_);
  node->root = std::make_shared<const Json>(std::move(merged));
  node->object = node->root.get();
  return JsonReader(std::move(node));
}

bool JsonReader::holds(std::string_view key) const {
  return node_->object->find(key) != node_->object->end();
}

JsonReader JsonReader::completed(const std::vector<Completion>& values) const {
  Json merged = *node_->object;
  for (const Completion& value : values) {
    if (merged.find(value.key) != merged.end()) continue;
    Json& there = merged[std::string(value.key)];
    if (value.text.empty()) {
      there = value.integer;
    } else {
      there = std::string(value.text);
    }
  }
  auto node = std::make_shared<Node>(*node_);
  node->root = std::make_shared<const Json>(std::move(merged));
  node->object = node->root.get();
  return JsonReader(std::move(node));
}

}  // namespace stepcast

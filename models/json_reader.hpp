#pragma once
// Typed reading of a JSON file that others wrote: keys are asked for by name and type, unknown keys
// are left alone (a config.json holds dozens), and every error names file, line and key. null
// counts as absent, as transformers writes it. Internal to models/.

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace stepcast {

class JsonReader {
 public:
  static JsonReader from_file(const std::string& path);  // at most 16 MiB
  static JsonReader from_text(const std::string& text, const std::string& file);

  bool has(std::string_view key) const;          // present and not null
  Where where(std::string_view key = {}) const;  // with the key's line, or the object's

  std::int64_t integer(std::string_view key) const;
  std::optional<std::int64_t> optional_integer(std::string_view key) const;
  std::optional<double> optional_number(std::string_view key) const;
  bool boolean_or(std::string_view key, bool fallback) const;
  std::string string(std::string_view key, std::string_view wanted) const;
  std::optional<std::string> optional_string(std::string_view key) const;
  std::optional<JsonReader> object(std::string_view key) const;
  // With this object's values of `keys` where the inner one has none.
  std::optional<JsonReader> object_inheriting(std::string_view key,
                                              std::initializer_list<const char*> keys) const;
  // With `values` of keys that this object lacks; a key that is null is there. Strings where `text`
  // says something, else integers.
  struct Completion {
    std::string_view key;
    std::int64_t integer = 0;
    std::string_view text = {};
  };
  JsonReader completed(const std::vector<Completion>& values) const;
  bool holds(std::string_view key) const;                        // also where it is null
  bool is_string(std::string_view key) const;                    // for keys that take several types
  std::vector<std::string> strings(std::string_view key) const;  // absent: empty
  std::vector<std::int64_t> integers(std::string_view key) const;  // absent: empty
  // [[["global", "local"], 12], ...]: names and how often each list of them stands; absent: empty.
  std::vector<std::string> repeated_strings(std::string_view key) const;
  std::int64_t entries() const;  // keys of this object

  struct Node;  // hides nlohmann-json

 private:
  explicit JsonReader(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  std::shared_ptr<const Node> node_;
};

// The line on which the value at a dotted PATH of keys stands in valid JSON; 0 where there is none.
// Of a repeated key the last counts, as for the parser.
int line_of_json_key(std::string_view text, std::string_view path);

}  // namespace stepcast

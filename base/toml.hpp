#pragma once
// Strict TOML: every key is asked for by name and type, and finish() refuses what nobody asked for,
// with the nearest known key. All errors are InputErrors with file, line and key.
//
//   TomlTable t = TomlTable::from_file("machine.toml");
//   std::string name = t.string("name");
//   double gbps = t.number_or("nic_gbps", 50, {.min = 0});
//   for (TomlTable& gpu : t.tables("gpu")) { ...; gpu.finish(); }
//   t.finish();

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace stepcast {

class TomlTable {
 public:
  struct Bounds {
    double min = -std::numeric_limits<double>::infinity();
    double max = std::numeric_limits<double>::infinity();
  };

  static TomlTable from_file(const std::string& path);  // at most 16 MiB
  static TomlTable from_text(std::string_view text, const std::string& file);

  bool has(std::string_view key) const;
  std::vector<std::string> keys() const;
  Where where(std::string_view key = {}) const;  // for errors of the caller's own

  std::string string(std::string_view key);
  std::string string_or(std::string_view key, std::string fallback);
  std::optional<std::string> optional_string(std::string_view key);
  double number(std::string_view key, Bounds bounds);  // integers and floats
  double number_or(std::string_view key, double fallback, Bounds bounds);
  std::optional<double> optional_number(std::string_view key, Bounds bounds);
  std::int64_t integer(std::string_view key, Bounds bounds);  // also 5e8, whole.hpp
  std::int64_t integer_or(std::string_view key, std::int64_t fallback, Bounds bounds);
  std::optional<std::int64_t> optional_integer(std::string_view key, Bounds bounds);
  bool boolean_or(std::string_view key, bool fallback);
  std::optional<bool> optional_boolean(std::string_view key);
  bool is_integer(std::string_view key) const;             // for keys that take several types
  std::vector<std::string> strings(std::string_view key);  // an array of strings, or absent: empty
  std::vector<double> numbers(std::string_view key);       // an array of numbers, or absent: empty
  std::vector<std::vector<std::string>> string_rows(std::string_view key);  // array of arrays
  std::optional<TomlTable> table(std::string_view key);                     // [key]
  std::vector<TomlTable> tables(std::string_view key);  // [[key]], or absent: empty

  // Throws on the first key that was never asked for.
  void finish() const;

  struct Node;  // hides toml++

 private:
  explicit TomlTable(std::shared_ptr<Node> node);
  std::shared_ptr<Node> node_;
};

// The text of a file; InputError when it cannot be read or is larger than max_bytes.
std::string read_file(const std::string& path, std::int64_t max_bytes = 64ll << 20);
// Writes beside and renames, so that a reader never sees half a file.
void write_file(const std::string& path, std::string_view text);

}  // namespace stepcast

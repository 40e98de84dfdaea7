#pragma once
// A file of another program as a tree of values, whichever of JSON, YAML and TOML it is written in.
// Values keep the line they stand on, so that everything said about them can name it.
//
//   Value root = parse_value(text, "ds.json").root;
//   const Value* stage = root.find("zero_optimization")->find("stage");   // 3, on line 4
//
// Which syntax: text whose first character is { or [ is JSON (YAML where it has comments or bare
// words, as GPT-NeoX's files have); text with [table] lines or key = value lines is TOML; the rest
// is YAML. Plain YAML words mean what PyYAML makes of them (YAML 1.1: yes, no, on and off are
// booleans). <<-merges are followed; ${a.b} of OmegaConf is put in by resolve_references().
//
// Limits, so that no text costs more than it looks: 4 MiB, 64 levels, 200,000 values after aliases
// are expanded. A key that stands twice in one table is refused in all three.
//
// Throws InputError with file and line. Tested by tests/unit/base/tree_test.cpp; fuzzed by
// tests/fuzz/job.cpp and fabric.cpp.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace stepcast::tree {

struct Entry;

struct Value {
  enum class Kind : std::uint8_t { null, boolean, integer, number, text, list, map };
  Kind kind = Kind::null;
  int line = 0;      // 1-based; 0 is unknown
  std::string text;  // scalars: as written, quotes removed
  bool boolean = false;
  std::int64_t integer = 0;
  double number = 0;  // of integers, too
  std::vector<Value> items;
  std::vector<Entry> entries;  // of a map, in the order of the file

  bool is_map() const { return kind == Kind::map; }
  bool is_null() const { return kind == Kind::null; }
  bool is_scalar() const { return kind < Kind::list; }
  const Value* find(std::string_view key) const;  // of a map; null where absent or not a map
};

// A type of its own: a std::pair would have to know all of Value while Value is being declared.
struct Entry {
  std::string key;
  Value value;
};

enum class Syntax : std::uint8_t { json, yaml, toml };
const char* to_string(Syntax syntax);

struct ParsedValue {
  Value root;
  Syntax syntax = Syntax::yaml;
};

inline constexpr std::size_t most_bytes = std::size_t{4} << 20;
inline constexpr int most_depth = 64;
inline constexpr std::size_t most_values = 200'000;

ParsedValue parse_value(const std::string& text, const std::string& file);

// Whether there is nothing in it but blank lines and remarks; parse_value() refuses that.
bool is_blank(std::string_view text);

// The three syntaxes, each in its file.
Value parse_json(const std::string& text, const std::string& file);
Value parse_yaml(const std::string& text, const std::string& file);
Value parse_toml(const std::string& text, const std::string& file);

// A plain word as PyYAML reads it: null, a boolean, a number or text.
Value plain_scalar(std::string word, int line);
Value text_scalar(std::string word, int line);

// Puts ${a.b.c} in, where the whole value is that and a.b.c stands in the root. What cannot be
// found stays as it is written.
void resolve_references(Value& root);

// "3", "true", "[0.9, 0.95]", "{...}": for messages and comments, cut at 60 characters.
std::string shown(const Value& value);

// Whether text is something that a script fills in: CONFIG_BATCH_SIZE, ${stage}, {{x}}, ???, <x>.
bool is_placeholder(std::string_view text);

// The bytes from `at` on that make one character of UTF-8; 0 where they make none.
std::size_t utf8_length(std::string_view text, std::size_t at);

// A table without keys, that lives as long as the program.
const Value& empty_table();

// Counts values and levels while a tree is built; throws beyond the limits.
class Limits {
 public:
  explicit Limits(const std::string& file) : file_(file) {}
  void enter(int line);
  void leave() { --depth_; }
  void count(int line, std::size_t values = 1);

 private:
  const std::string& file_;
  int depth_ = 0;
  std::size_t values_ = 0;
};

}  // namespace stepcast::tree

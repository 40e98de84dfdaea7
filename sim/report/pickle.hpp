#pragma once
// Writes Python's pickle format, protocol 2, as far as plain data goes: dicts, lists, pairs,
// strings, whole numbers, floats, booleans, None. No classes, so that nothing runs on loading, and
// only opcodes that readers outside Python know too (memory_viz is JavaScript).
//
//   Pickle p;
//   p.begin_dict().text("size").number(512).end_dict();
//   write_file("x.pickle", p.finish());
//
// Source: Python's Lib/pickletools.py, which documents every opcode. A string that comes again is
// taken from the memo (the first 256 distinct ones), so keys cost two bytes. Tested by
// tests/unit/report/memory_snapshot_test.cpp.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace stepcast {

class Pickle {
 public:
  Pickle() : out_("\x80\x02") {}

  Pickle& begin_dict() { return op("}("); }  // then key, value, key, value, ...
  Pickle& end_dict() { return op("u"); }
  Pickle& begin_list() { return op("]("); }
  Pickle& end_list() { return op("e"); }
  Pickle& pair(std::int64_t first, std::int64_t second) {
    return number(first).number(second).op("\x86");
  }
  Pickle& text(std::string_view text);
  Pickle& number(std::int64_t value);
  Pickle& real(double value);
  Pickle& boolean(bool value) { return op(value ? "\x88" : "\x89"); }
  Pickle& none() { return op("N"); }

  std::string finish() {
    op(".");
    return std::move(out_);
  }

 private:
  Pickle& op(std::string_view code) {
    out_ += code;
    return *this;
  }
  void little_endian(std::uint64_t value, int bytes);

  std::string out_;
  std::unordered_map<std::string, int> memo_;
};

}  // namespace stepcast

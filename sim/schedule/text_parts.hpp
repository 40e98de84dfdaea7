#pragma once
// The parser's parts: what has been declared so far, and who reads declarations and programs.
// Private to the folder; text_parser.cpp drives them.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sim/schedule/schedule.hpp"
#include "sim/schedule/text_line.hpp"

namespace stepcast::text {

constexpr std::int64_t most_queues = 128;     // lanes, streams, communicators, each
constexpr std::int64_t most_ranks = 1 << 20;  // world size
constexpr std::int64_t most_micro_batch = 32767;
constexpr std::int64_t most_count = 1'000'000'000;
constexpr std::int64_t most_size = std::int64_t{1} << 40;  // m, n, k, batch, heads
constexpr Bytes most_bytes = std::int64_t{1} << 50;        // 1 PiB
constexpr std::int64_t most_elements = std::int64_t{1} << 50;

// Labels of one kind of thing, in declaration order.
class Labels {
 public:
  explicit Labels(const char* what) : what_(what) {}
  std::size_t size() const { return names_.size(); }
  void add(const Line& line, const std::string& label);  // refuses one that exists
  std::int64_t find(const std::string& label) const;     // -1: not declared
  // Refuses one that was not declared, with the nearest that was.
  std::int64_t at(const Line& line, std::string_view key, const std::string& label) const;
  void clear();

 private:
  const char* what_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::size_t> index_;
};

// Refuses a key given twice: lists of one op lie together in their arena.
class KeysOnce {
 public:
  explicit KeysOnce(const Line& line) : line_(line) {}
  void take(const std::string& key);

 private:
  const Line& line_;
  std::vector<std::string> seen_;
};

// Reads "KEY=" and refuses what is not one of `accepted`.
std::string next_key(Line& line, KeysOnce& once, const std::vector<std::string>& accepted);

// The schedule as far as it was read.
struct Draft {
  Schedule schedule;
  bool mesh_seen = false;
  bool units_implied = false;  // no unit is declared: ops declare them by use
  Labels lanes{"lane"};
  Labels streams{"stream"};
  Labels comms{"communicator"};
  Labels units{"unit"};
  Labels buffers{"buffer"};
  Labels kernels{"kernel list"};
  std::vector<Range> kernel_ranges;  // by kernel list

  void add_unit(const Line& line, const std::string& label);
  UnitIndex unit_at(const Line& line, const std::string& label);
};

class Declarations {
 public:
  explicit Declarations(Draft& draft) : d_(draft), s_(draft.schedule) {}
  // Reads the rest of a line that began with KEYWORD; false where it is no declaration.
  bool parse(const std::string& keyword, Line& line);
  static const std::vector<std::string>& keywords();

 private:
  using Handler = void (Declarations::*)(Line&);
  static const std::unordered_map<std::string, Handler>& handlers();

  void parse_name(Line& line);
  void parse_note(Line& line);
  void parse_mesh(Line& line);
  void parse_lane(Line& line);
  void parse_stream(Line& line);
  void parse_communicator(Line& line);
  void parse_units(Line& line);
  void parse_unit(Line& line);
  void parse_buffer(Line& line);
  void parse_kernels(Line& line);
  void parse_kernel(Line& line, const std::string& kind);

  Draft& d_;
  Schedule& s_;
  bool in_kernels_ = false;  // the line before began or went on with a kernel list
};

class Programs {
 public:
  explicit Programs(Draft& draft) : d_(draft), s_(draft.schedule) {}
  void parse_role(Line& line);
  void parse_step(Line& line);
  void parse_op(Line& line, const std::string& label);
  // Waits may name a later op of the step, so they are resolved when the step is complete.
  void finish_step();
  bool in_step() const { return in_step_; }

 private:
  struct PendingRef {
    std::size_t ref = 0;  // into Schedule::refs
    std::string label;
    Line line;
  };

  void parse_particulars(Line& line, Op& op);
  bool parse_particular_key(Line& line, Op& op, const std::string& key, bool is_key);
  Range parse_refs(Line& line);
  Range parse_views(Line& line, const std::string& key);
  Range parse_streams(Line& line, const std::string& key);

  Draft& d_;
  Schedule& s_;
  Labels ops_{"op of this step"};
  std::vector<PendingRef> pending_;
  bool in_step_ = false;
  std::int64_t ranks_ = 0;  // of all roles so far
};

}  // namespace stepcast::text

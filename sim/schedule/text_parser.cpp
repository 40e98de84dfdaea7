// Reads the text form of text.cpp; the grammar is in docs/schedule-format.md.
//
// Declarations come before their use, except that an op may wait on a later one of its step: such a
// schedule is unsound, and saying so is the task of problems(), not of the parser. Everything is
// bounded: sizes by the limits below, work by the length of the text (every name is looked up in a
// hash table). Tested by tests/unit/schedule/text_test.cpp, with mutated texts too.

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "sim/schedule/text.hpp"
#include "sim/schedule/text_line.hpp"

namespace stepcast {
namespace {

using text::Line;
using text::Word;

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

  void add(const Line& line, const std::string& label) {
    if (!index_.emplace(label, names_.size()).second) {
      line.fail(what_,
                fmt::format("'{}' is declared twice; accepted: one {} of a name", label, what_));
    }
    names_.push_back(label);
  }
  std::int64_t find(const std::string& label) const {
    const auto found = index_.find(label);
    return found == index_.end() ? -1 : static_cast<std::int64_t>(found->second);
  }
  std::int64_t at(const Line& line, std::string_view key, const std::string& label) const {
    const std::int64_t index = find(label);
    if (index >= 0) return index;
    const std::string near = nearest(label, names_);
    std::string message = fmt::format("{} '{}' is not declared", what_, label.substr(0, 80));
    if (!near.empty()) message += fmt::format(" (did you mean '{}'?)", near);
    constexpr std::size_t most_listed = 12;
    message += "; accepted: ";
    for (std::size_t i = 0; i < std::min(most_listed, names_.size()); ++i) {
      message += (i > 0 ? ", " : "") + names_[i];
    }
    if (names_.empty()) message += fmt::format("a {} declared above", what_);
    if (names_.size() > most_listed) {
      message += fmt::format(" and {} more", names_.size() - most_listed);
    }
    line.fail(key, message);
  }
  void clear() {
    names_.clear();
    index_.clear();
  }

 private:
  const char* what_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::size_t> index_;
};

// Refuses a key given twice: lists of one op lie together in their arena.
class KeysOnce {
 public:
  explicit KeysOnce(const Line& line) : line_(line) {}
  void take(const std::string& key) {
    if (std::find(seen_.begin(), seen_.end(), key) != seen_.end()) {
      line_.fail(key, "given twice; accepted: once a line");
    }
    seen_.push_back(key);
  }

 private:
  const Line& line_;
  std::vector<std::string> seen_;
};

class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Schedule parse() {
    int number = 0;
    bool ended = false;
    bool version = false;
    while (!text_.empty()) {
      const std::size_t length = text_.find('\n');
      Line line(text_.substr(0, length), file_, ++number);
      text_.remove_prefix(length == std::string_view::npos ? text_.size() : length + 1);
      if (line.at_end()) continue;
      if (ended) line.fail({}, "nothing is accepted after 'end'");
      if (!version) {
        parse_version(line);
        version = true;
      } else {
        ended = parse_line(line);
      }
      line.expect_end();
    }
    const Line last({}, file_, number);
    if (!version) last.fail({}, "the file is empty; accepted: a first line 'stepcast-schedule 1'");
    if (!ended) last.fail({}, "the file is truncated: the last line must be 'end'");
    finish_step();
    if (!mesh_seen_) last.fail("mesh", "missing; accepted: mesh replicate=R shard=S");
    return std::move(s_);
  }

 private:
  struct PendingRef {
    std::size_t ref = 0;  // into Schedule::refs
    std::string label;
    Line line;
  };

  static void parse_version(Line& line) {
    const Word word = line.word("format");
    if (word.quoted || word.text != "stepcast-schedule") {
      line.fail("format", "not a schedule; accepted: a first line 'stepcast-schedule 1'");
    }
    line.integer("version", 1, 1);
  }

  // True for 'end'.
  bool parse_line(Line& line) {
    const Word word = line.word("line");
    if (!word.quoted) {
      using Handler = void (Parser::*)(Line&);
      static const std::unordered_map<std::string, Handler> handlers = {
          {"schedule", &Parser::parse_name},
          {"mesh", &Parser::parse_mesh},
          {"lane", &Parser::parse_lane},
          {"stream", &Parser::parse_stream},
          {"communicator", &Parser::parse_communicator},
          {"units", &Parser::parse_units},
          {"unit", &Parser::parse_unit},
          {"buffer", &Parser::parse_buffer},
          {"kernels", &Parser::parse_kernels},
          {"note", &Parser::parse_note},
          {"role", &Parser::parse_role},
          {"step", &Parser::parse_step}};
      if (word.text == "end") return true;
      const auto handler = handlers.find(word.text);
      if (handler != handlers.end()) {
        in_kernels_ = false;
        if (word.text != "step" && word.text != "role" && !s_.roles.empty()) {
          line.fail(word.text, "a declaration after the first role; accepted: op, step, role, end");
        }
        (this->*handler->second)(line);
        return false;
      }
      if (in_kernels_) {
        parse_kernel(line, word.text);
        return false;
      }
    }
    if (!in_step_) {
      throw not_accepted(line.where(), word.text,
                         {"schedule", "mesh", "lane", "stream", "communicator", "units", "unit",
                          "buffer", "kernels", "note", "role", "step", "end"});
    }
    parse_op(line, word.text);
    return false;
  }

  // ---- declarations

  void parse_name(Line& line) { s_.name = line.word("name").text; }
  void parse_note(Line& line) { s_.notes.push_back(line.word("note").text); }

  void parse_mesh(Line& line) {
    if (mesh_seen_) line.fail("mesh", "given twice; accepted: once");
    mesh_seen_ = true;
    KeysOnce once(line);
    std::int64_t replicate = 1;
    std::int64_t shard = 1;
    while (!line.at_end()) {
      const std::string key = next_key(line, once, {"replicate", "shard"});
      (key == "shard" ? shard : replicate) = line.integer(key, 1, most_ranks);
    }
    if (replicate * shard > most_ranks) {
      line.fail("mesh", fmt::format("{} ranks are out of range; accepted: 1 to {}",
                                    replicate * shard, most_ranks));
    }
    s_.mesh = {static_cast<int>(replicate), static_cast<int>(shard)};
  }

  // Reads "KEY=" and checks that it is one of `accepted`.
  static std::string next_key(Line& line, KeysOnce& once,
                              const std::vector<std::string>& accepted) {
    bool is_key = false;
    std::string key = line.key_or_flag(is_key);
    if (!is_key || std::find(accepted.begin(), accepted.end(), key) == accepted.end()) {
      std::vector<std::string> keys;
      for (const std::string& name : accepted) keys.push_back(name + "=");
      throw not_accepted(line.where(), is_key ? key + "=" : key, keys);
    }
    once.take(key);
    return key;
  }

  void check_room(const Line& line, const Labels& labels, std::int64_t most) {
    if (static_cast<std::int64_t>(labels.size()) >= most) {
      line.fail({}, fmt::format("too many; accepted: at most {} of these", most));
    }
  }

  void parse_lane(Line& line) {
    check_room(line, lanes_, most_queues);
    Lane lane;
    const std::string label = line.word("lane").text;
    lane.name = label;
    KeysOnce once(line);
    while (!line.at_end()) {
      const std::string key = next_key(line, once, {"lock", "name"});
      (key == "lock" ? lane.lock : lane.name) = line.word(key).text;
    }
    lanes_.add(line, label);
    s_.lanes.push_back(lane);
  }

  void parse_stream(Line& line) {
    check_room(line, streams_, most_queues);
    Stream stream;
    const std::string label = line.word("stream").text;
    stream.name = label;
    KeysOnce once(line);
    while (!line.at_end()) {
      const std::string key = next_key(line, once, {"priority", "name"});
      if (key == "name") {
        stream.name = line.word(key).text;
      } else {
        stream.priority = static_cast<int>(line.integer(key, -1000, 1000));
      }
    }
    streams_.add(line, label);
    s_.streams.push_back(stream);
  }

  void parse_communicator(Line& line) {
    check_room(line, comms_, most_queues);
    Communicator comm;
    const std::string label = line.word("communicator").text;
    comm.name = label;
    KeysOnce once(line);
    while (!line.at_end()) {
      const std::string key = next_key(line, once, {"axis", "name"});
      if (key == "name") {
        comm.name = line.word(key).text;
      } else {
        comm.axis = line.one_of(key, Axis::replicate);
      }
    }
    comms_.add(line, label);
    s_.communicators.push_back(comm);
  }

  void parse_units(Line& line) {
    do {
      add_unit(line, line.word("unit").text);
    } while (!line.at_end());
  }

  void parse_unit(Line& line) {
    add_unit(line, line.word("unit").text);
    KeysOnce once(line);
    while (!line.at_end()) {
      const std::string key = next_key(line, once, {"name"});
      s_.units.back() = line.word(key).text;
    }
  }

  void add_unit(const Line& line, const std::string& label) {
    units_.add(line, label);
    s_.units.emplace_back(label);
  }

  void parse_buffer(Line& line) {
    Buffer buffer;
    const std::string label = line.word("buffer").text;
    buffer.name = label;
    buffer.kind = line.one_of("kind", BufferKind::other);
    buffer.dtype = line.dtype();
    buffer.bytes = line.bytes("bytes", most_bytes);
    KeysOnce once(line);
    while (!line.at_end()) {
      bool is_key = false;
      const std::string key = line.key_or_flag(is_key);
      once.take(key);
      if (is_key && key == "pool") {
        buffer.pool = static_cast<StreamIndex>(streams_.at(line, key, line.word(key).text));
      } else if (is_key && key == "view_of") {
        buffer.view_of = static_cast<BufferIndex>(buffers_.at(line, key, line.word(key).text));
      } else if (is_key && key == "at") {
        buffer.view_offset = line.bytes(key, most_bytes);
      } else if (is_key && key == "name") {
        buffer.name = line.word(key).text;
      } else if (!is_key && key == "persistent") {
        buffer.persistent = true;
      } else {
        throw not_accepted(line.where(), key, {"pool=", "persistent", "view_of=", "at=", "name="});
      }
    }
    buffers_.add(line, label);
    s_.buffers.push_back(buffer);
  }

  void parse_kernels(Line& line) {
    const std::string label = line.word("kernels").text;
    kernels_.add(line, label);
    kernel_ranges_.push_back({static_cast<std::int32_t>(s_.kernels.size()), 0});
    in_kernels_ = true;
  }

  void parse_kernel(Line& line, const std::string& kind) {
    Kernel kernel;
    const std::vector<std::string> kinds = text::enum_names(KernelKind::memory);
    const auto found = std::find(kinds.begin(), kinds.end(), kind);
    if (found == kinds.end()) throw not_accepted(line.where("kernel"), kind, kinds);
    kernel.kind = static_cast<KernelKind>(found - kinds.begin());
    kernel.name = line.word("name").text;
    kernel.dtype = line.dtype();
    KeysOnce once(line);
    while (!line.at_end()) {
      bool is_key = false;
      const std::string key = line.key_or_flag(is_key);
      once.take(key);
      const std::pair<const char*, std::int64_t*> sizes[] = {
          {"batch", &kernel.batch}, {"heads", &kernel.heads}, {"kv_heads", &kernel.kv_heads},
          {"m", &kernel.m},         {"n", &kernel.n},         {"k", &kernel.k}};
      bool taken = false;
      for (const auto& size : sizes) {
        if (!is_key || key != size.first) continue;
        *size.second = line.integer(key, 0, most_size);
        taken = true;
      }
      if (taken) continue;
      if (is_key && key == "read") {
        kernel.bytes_read = line.bytes(key, most_bytes);
      } else if (is_key && key == "write") {
        kernel.bytes_written = line.bytes(key, most_bytes);
      } else if (is_key && key == "launches") {
        kernel.launches = static_cast<int>(line.integer(key, 0, most_count));
      } else if (!is_key && key == "causal") {
        kernel.causal = true;
      } else if (!is_key && key == "unfused") {
        kernel.fused = false;
      } else {
        throw not_accepted(line.where(), key,
                           {"batch=", "heads=", "kv_heads=", "m=", "n=", "k=", "causal", "unfused",
                            "read=", "write=", "launches="});
      }
    }
    s_.kernels.push_back(kernel);
    ++kernel_ranges_.back().count;
  }

  // ---- programs

  void parse_role(Line& line) {
    finish_step();
    Role role;
    role.name = line.word("role").text;
    KeysOnce once(line);
    bool ranks = false;
    while (!line.at_end()) {
      const std::string key = next_key(line, once, {"ranks"});
      ranks = true;
      parse_ranks(line, role);
    }
    if (!ranks) line.fail("ranks", "missing; accepted: ranks=FIRST..LAST, /STRIDE may follow");
    s_.roles.push_back(std::move(role));
  }

  static void parse_ranks(Line& line, Role& role) {
    role.rank_count = 0;
    if (line.accept('-')) return;
    const std::int64_t first = line.integer("ranks", 0, most_ranks - 1);
    std::int64_t last = first;
    std::int64_t stride = 1;
    if (line.accept('.')) {
      if (!line.accept('.')) line.fail("ranks", "accepted: ranks=FIRST..LAST, /STRIDE may follow");
      last = line.integer("ranks", first, most_ranks - 1);
      if (line.accept('/')) stride = line.integer("ranks", 1, most_ranks);
    }
    if ((last - first) % stride != 0) {
      line.fail("ranks", fmt::format("{} is not {} plus a multiple of {}", last, first, stride));
    }
    role.first_rank = static_cast<int>(first);
    role.rank_count = static_cast<int>((last - first) / stride + 1);
    role.rank_stride = static_cast<int>(stride);
  }

  void parse_step(Line& line) {
    finish_step();
    if (s_.roles.empty()) line.fail("step", "a step before the first role; accepted: role first");
    s_.roles.back().steps.push_back({line.word("step").text, {}});
    in_step_ = true;
  }

  // Waits may name a later op of the step, so they are read when the step is complete.
  void finish_step() {
    for (const PendingRef& pending : pending_) {
      s_.refs[pending.ref].op = static_cast<OpIndex>(ops_.at(pending.line, "on", pending.label));
    }
    pending_.clear();
    ops_.clear();
    in_step_ = false;
  }

  void parse_op(Line& line, const std::string& label) {
    Op op;
    const text::OpLabel split = text::split_op_label(label);
    if (!split.phase) {
      line.fail("op", fmt::format("'{}' does not begin with a phase; accepted: PHASE.VERB[.UNIT] "
                                  "with a phase of setup, load, forward, loss, backward, optimizer",
                                  label.substr(0, 80)));
    }
    ops_.add(line, label);
    op.phase = *split.phase;
    op.verb = split.verb;
    op.kind = line.one_of("kind", OpKind::storage);
    parse_particulars(line, op);

    bool unit_given = false;
    std::int64_t launches = -1;
    if (split.micro_batch > most_micro_batch) {
      line.fail("micro", fmt::format("{} is out of range; accepted: 0 to {}", split.micro_batch,
                                     most_micro_batch));
    }
    op.micro_batch = static_cast<std::int16_t>(split.micro_batch);
    KeysOnce once(line);
    while (!line.at_end()) {
      bool is_key = false;
      const std::string key = line.key_or_flag(is_key);
      once.take(key);
      if (parse_particular_key(line, op, key, is_key)) continue;
      if (!is_key) refuse_key(line, op, key);
      if (key == "stream") {
        op.stream = static_cast<StreamIndex>(streams_.at(line, key, line.word(key).text));
      } else if (key == "kernels") {
        const std::int64_t list = kernels_.at(line, key, line.word(key).text);
        op.kernels = kernel_ranges_[static_cast<std::size_t>(list)];
      } else if (key == "on") {
        op.waits = parse_refs(line);
      } else if (key == "reads") {
        op.reads = parse_views(line, key);
      } else if (key == "writes") {
        op.writes = parse_views(line, key);
      } else if (key == "launches") {
        launches = line.integer(key, 0, most_count);
      } else if (key == "lane") {
        op.lane = static_cast<LaneIndex>(lanes_.at(line, key, line.word(key).text));
      } else if (key == "rule") {
        op.rule = line.word(key).text;
      } else if (key == "verb") {
        op.verb = line.word(key).text;
      } else if (key == "unit") {
        const Word unit = line.word(key);
        unit_given = true;
        op.unit = unit.is_none() ? -1 : unit_at(line, unit.text);
      } else if (key == "micro") {
        op.micro_batch = static_cast<std::int16_t>(line.integer(key, 0, most_micro_batch));
      } else {
        refuse_key(line, op, key);
      }
    }
    if (!unit_given && split.unit) op.unit = unit_at(line, *split.unit);
    op.launches = launches >= 0 ? static_cast<int>(launches) : text::usual_launches(s_, op);
    s_.roles.back().steps.back().ops.push_back(op);
  }

  // Where the file declares no unit at all, ops declare them by use.
  UnitIndex unit_at(const Line& line, const std::string& label) {
    if (s_.units.empty()) units_implied_ = true;
    if (units_implied_ && units_.find(label) < 0) add_unit(line, label);
    return static_cast<UnitIndex>(units_.at(line, "unit", label));
  }

  void parse_particulars(Line& line, Op& op) {
    switch (op.kind) {
      case OpKind::compute:
      case OpKind::stream_wait: break;
      case OpKind::collective:
        op.collective = line.one_of("collective", CollectiveKind::reduce);
        op.dtype = line.dtype();
        op.elements = line.integer("elements", 0, most_elements);
        break;
      case OpKind::copy:
        op.copy = line.one_of("copy", CopyKind::peer);
        op.bytes = line.bytes("bytes", most_bytes);
        break;
      case OpKind::storage: op.bytes = line.bytes("bytes", most_bytes); break;
      case OpKind::host_work:
        op.cost = line.word("cost").text;
        op.count = 1;
        break;
      case OpKind::host_wait: op.wait_target = line.one_of("target", WaitTarget::device); break;
      case OpKind::alloc:
      case OpKind::free:
        op.buffer = static_cast<BufferIndex>(buffers_.at(line, "buffer", line.word("buffer").text));
        break;
    }
  }

  // Keys that one kind of op has; false when it is none of them.
  bool parse_particular_key(Line& line, Op& op, const std::string& key, bool is_key) {
    if (op.kind == OpKind::collective && is_key) {
      if (key == "reduction") {
        op.reduction = line.one_of(key, Reduction::max);
      } else if (key == "root") {
        op.root = static_cast<std::int32_t>(line.integer(key, 0, most_ranks));
      } else if (key == "comm") {
        op.comm = static_cast<CommIndex>(comms_.at(line, key, line.word(key).text));
      } else {
        return false;
      }
      return true;
    }
    if (op.kind == OpKind::host_work && is_key && key == "count") {
      op.count = static_cast<std::int32_t>(line.integer(key, 0, most_count));
      return true;
    }
    if (op.kind == OpKind::host_wait && is_key && key == "of") {
      op.wait_stream = static_cast<StreamIndex>(streams_.at(line, key, line.word(key).text));
      return true;
    }
    if (op.kind == OpKind::free) {
      if (is_key && key == "streams") {
        op.free_streams = parse_streams(line, key);
        return true;
      }
      for (const FreeRule rule : {FreeRule::after_streams, FreeRule::after_op}) {
        if (is_key || key != to_string(rule)) continue;
        op.free_rule = rule;
        return true;
      }
    }
    return false;
  }

  [[noreturn]] static void refuse_key(const Line& line, const Op& op, const std::string& key) {
    std::vector<std::string> accepted;
    if (op.kind == OpKind::collective) accepted = {"reduction=", "root=", "comm="};
    if (op.kind == OpKind::host_work) accepted = {"count="};
    if (op.kind == OpKind::host_wait) accepted = {"of="};
    if (op.kind == OpKind::free) accepted = {"after_streams", "streams=", "after_op"};
    for (const char* common : {"stream=", "kernels=", "reads=", "writes=", "on=", "launches=",
                               "lane=", "rule=", "verb=", "unit=", "micro="}) {
      accepted.emplace_back(common);
    }
    throw not_accepted(line.where(), key, accepted);
  }

  Range parse_refs(Line& line) {
    Range range{static_cast<std::int32_t>(s_.refs.size()), 0};
    do {
      OpRef ref;
      std::string label = line.word("on").text;
      if (line.accept('@')) {
        ref.steps_back = static_cast<std::int8_t>(-line.integer("on", -127, -1));
      }
      pending_.push_back({s_.refs.size(), std::move(label), line});
      s_.refs.push_back(ref);
      ++range.count;
    } while (line.accept(','));
    return range;
  }

  Range parse_views(Line& line, const std::string& key) {
    Range range{static_cast<std::int32_t>(s_.views.size()), 0};
    do {
      View view;
      view.buffer = static_cast<BufferIndex>(buffers_.at(line, key, line.word(key).text));
      if (line.accept('[')) {
        view.offset = line.bytes(key, most_bytes);
        if (!line.accept('+')) line.fail(key, "accepted: BUFFER[OFFSET+LENGTH]");
        view.bytes = line.bytes(key, most_bytes);
        if (!line.accept(']')) line.fail(key, "accepted: BUFFER[OFFSET+LENGTH]");
      } else {
        view.bytes = s_.buffers[static_cast<std::size_t>(view.buffer)].bytes;
      }
      s_.views.push_back(view);
      ++range.count;
    } while (line.accept(','));
    return range;
  }

  Range parse_streams(Line& line, const std::string& key) {
    Range range{static_cast<std::int32_t>(s_.stream_lists.size()), 0};
    do {
      s_.stream_lists.push_back(
          static_cast<StreamIndex>(streams_.at(line, key, line.word(key).text)));
      ++range.count;
    } while (line.accept(','));
    return range;
  }

  std::string_view text_;  // what is still to be read
  const std::string& file_;
  Schedule s_;
  Labels lanes_{"lane"}, streams_{"stream"}, comms_{"communicator"}, units_{"unit"};
  Labels buffers_{"buffer"}, kernels_{"kernel list"}, ops_{"op of this step"};
  std::vector<Range> kernel_ranges_;  // by kernel list
  std::vector<PendingRef> pending_;
  bool mesh_seen_ = false;
  bool in_kernels_ = false;
  bool in_step_ = false;
  bool units_implied_ = false;
};

}  // namespace

Schedule parse_schedule(std::string_view text, const std::string& file) {
  return Parser(text, file).parse();
}

}  // namespace stepcast

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/schedule/text_parts.hpp"

namespace stepcast::text {
namespace {

void check_room(const Line& line, const Labels& labels, std::int64_t most) {
  if (static_cast<std::int64_t>(labels.size()) >= most) {
    line.fail({}, fmt::format("too many; accepted: at most {} of these", most));
  }
}

}  // namespace

const std::unordered_map<std::string, Declarations::Handler>& Declarations::handlers() {
  static const std::unordered_map<std::string, Handler> list = {
      {"schedule", &Declarations::parse_name},
      {"mesh", &Declarations::parse_mesh},
      {"lane", &Declarations::parse_lane},
      {"stream", &Declarations::parse_stream},
      {"communicator", &Declarations::parse_communicator},
      {"units", &Declarations::parse_units},
      {"unit", &Declarations::parse_unit},
      {"buffer", &Declarations::parse_buffer},
      {"kernels", &Declarations::parse_kernels},
      {"note", &Declarations::parse_note}};
  return list;
}

const std::vector<std::string>& Declarations::keywords() {
  static const std::vector<std::string> list = {"schedule",     "mesh",  "lane", "stream",
                                                "communicator", "units", "unit", "buffer",
                                                "kernels",      "note"};
  return list;
}

bool Declarations::parse(const std::string& keyword, Line& line) {
  const auto handler = handlers().find(keyword);
  if (handler == handlers().end()) {
    if (!in_kernels_ || !s_.roles.empty()) return false;
    parse_kernel(line, keyword);
    return true;
  }
  if (!s_.roles.empty()) {
    line.fail(keyword, "a declaration after the first role; accepted: op, step, role, end");
  }
  in_kernels_ = false;
  (this->*handler->second)(line);
  return true;
}

void Declarations::parse_name(Line& line) { s_.name = line.word("name").text; }
void Declarations::parse_note(Line& line) { s_.notes.push_back(line.word("note").text); }

void Declarations::parse_mesh(Line& line) {
  if (d_.mesh_seen) line.fail("mesh", "given twice; accepted: once");
  d_.mesh_seen = true;
  KeysOnce once(line);
  std::int64_t replicate = 1;
  std::int64_t shard = 1;
  while (!line.at_end()) {
    const std::string key = next_key(line, once, {"replicate", "shard"});
    (key == "shard" ? shard : replicate) = line.integer(key, 1, most_ranks);
  }
  if (replicate * shard > most_ranks) {
    line.fail("mesh", fmt::format("{} ranks are out of range; accepted: 1 to {}", replicate * shard,
                                  most_ranks));
  }
  s_.mesh = {static_cast<int>(replicate), static_cast<int>(shard)};
}

void Declarations::parse_lane(Line& line) {
  check_room(line, d_.lanes, most_queues);
  Lane lane;
  const std::string label = line.word("lane").text;
  lane.name = label;
  KeysOnce once(line);
  while (!line.at_end()) {
    const std::string key = next_key(line, once, {"lock", "sharers", "name"});
    if (key == "sharers") {
      lane.sharers = static_cast<int>(line.integer(key, 1, most_ranks));
    } else {
      (key == "lock" ? lane.lock : lane.name) = line.word(key).text;
    }
  }
  d_.lanes.add(line, label);
  s_.lanes.push_back(lane);
}

void Declarations::parse_stream(Line& line) {
  check_room(line, d_.streams, most_queues);
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
  d_.streams.add(line, label);
  s_.streams.push_back(stream);
}

void Declarations::parse_communicator(Line& line) {
  check_room(line, d_.comms, most_queues);
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
  d_.comms.add(line, label);
  s_.communicators.push_back(comm);
}

void Declarations::parse_units(Line& line) {
  do {
    d_.add_unit(line, line.word("unit").text);
  } while (!line.at_end());
}

void Declarations::parse_unit(Line& line) {
  d_.add_unit(line, line.word("unit").text);
  KeysOnce once(line);
  while (!line.at_end()) {
    const std::string key = next_key(line, once, {"name"});
    s_.units.back() = line.word(key).text;
  }
}

void Declarations::parse_buffer(Line& line) {
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
      buffer.pool = static_cast<StreamIndex>(d_.streams.at(line, key, line.word(key).text));
    } else if (is_key && key == "view_of") {
      buffer.view_of = static_cast<BufferIndex>(d_.buffers.at(line, key, line.word(key).text));
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
  d_.buffers.add(line, label);
  s_.buffers.push_back(buffer);
}

void Declarations::parse_kernels(Line& line) {
  const std::string label = line.word("kernels").text;
  d_.kernels.add(line, label);
  d_.kernel_ranges.push_back({static_cast<std::int32_t>(s_.kernels.size()), 0});
  in_kernels_ = true;
}

void Declarations::parse_kernel(Line& line, const std::string& kind) {
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
  ++d_.kernel_ranges.back().count;
}

}  // namespace stepcast::text

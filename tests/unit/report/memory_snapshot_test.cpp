// The memory snapshot: the pickle is read back by a reader of its own (and by python3 where there
// is one), and the trace replayed on paper must end in the segments that the file lists.

#include "sim/report/memory_snapshot.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/engines/engine.hpp"
#include "sim/report/pickle.hpp"
#include "sim/schedule/text.hpp"

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;

// Protocol 2 as pickletools documents it, as far as Pickle writes it. Pairs become arrays.
class Reader {
 public:
  explicit Reader(const std::string& bytes) : in_(bytes) {}

  Json read() {
    REQUIRE(in_.substr(0, 2) == "\x80\x02");
    at_ = 2;
    while (true) {
      const char op = in_.at(at_++);
      switch (op) {
        case '.':
          REQUIRE(at_ == in_.size());
          REQUIRE(stack_.size() == 1);
          return stack_.back();
        case '}': stack_.push_back(Json::object()); break;
        case ']': stack_.push_back(Json::array()); break;
        case '(': marks_.push_back(stack_.size()); break;
        case 'u': set_items(); break;
        case 'e': append(); break;
        case 'X': {
          const auto length = static_cast<std::size_t>(little_endian(4));
          stack_.push_back(in_.substr(at_, length));
          at_ += length;
          break;
        }
        case 'q': memo_[little_endian(1)] = stack_.back(); break;
        case 'h': stack_.push_back(memo_.at(little_endian(1))); break;
        case 'K': stack_.push_back(little_endian(1)); break;
        case 'J': stack_.push_back(static_cast<std::int32_t>(little_endian(4))); break;
        case '\x8a':
          REQUIRE(little_endian(1) == 8);
          stack_.push_back(little_endian(8));
          break;
        case 'G': stack_.push_back(big_endian_double()); break;
        case '\x88': stack_.push_back(true); break;
        case '\x89': stack_.push_back(false); break;
        case 'N': stack_.push_back(nullptr); break;
        case '\x86': {
          const Json second = pop();
          const Json first = pop();
          stack_.push_back(Json::array({first, second}));
          break;
        }
        default: FAIL("opcode " << static_cast<int>(static_cast<unsigned char>(op)));
      }
    }
  }

 private:
  std::int64_t little_endian(int bytes) {
    std::uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) {
      value |= std::uint64_t{static_cast<unsigned char>(in_.at(at_++))} << (8 * i);
    }
    return static_cast<std::int64_t>(value);
  }
  double big_endian_double() {
    std::uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) bits = bits << 8 | static_cast<unsigned char>(in_.at(at_++));
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  Json pop() {
    Json top = stack_.back();
    stack_.pop_back();
    return top;
  }
  std::vector<Json> to_mark() {
    std::vector<Json> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()),
                            stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  void set_items() {
    const std::vector<Json> items = to_mark();
    for (std::size_t i = 0; i < items.size(); i += 2) {
      stack_.back()[items[i].get<std::string>()] = items[i + 1];
    }
  }
  void append() {
    for (const Json& item : to_mark()) stack_.back().push_back(item);
  }

  const std::string& in_;
  std::size_t at_ = 0;
  std::vector<Json> stack_;
  std::vector<std::size_t> marks_;
  std::map<std::int64_t, Json> memo_;
};

std::string every_kind() {
  Pickle p;
  p.begin_dict();
  p.text("numbers").begin_list();
  for (const std::int64_t n :
       {std::int64_t{0}, std::int64_t{255}, std::int64_t{256}, std::int64_t{-1},
        std::int64_t{2147483647}, std::int64_t{2147483648}, std::int64_t{0x7f0000000200}}) {
    p.number(n);
  }
  p.end_list();
  p.text("text").begin_list().text("a").text("b").text("a").text("").end_list();
  p.text("rest").begin_list().real(-0.5).boolean(true).boolean(false).none().pair(7, 8).end_list();
  p.text("empty").begin_dict().end_dict();
  p.end_dict();
  return p.finish();
}

const char* const every_kind_json =
    R"({"numbers":[0,255,256,-1,2147483647,2147483648,139637976728064],)"
    R"("text":["a","b","a",""],"rest":[-0.5,true,false,null,[7,8]],"empty":{}})";

struct Step {
  Schedule schedule;
  Timeline timeline;
  std::vector<RoleReplay> replays;
  AllocatorOptions options;

  explicit Step(const AllocatorOptions& allocator = {}) : options(allocator) {
    schedule = parse_schedule(R"(stepcast-schedule 1
mesh shard=1
lane main
stream compute
stream side
buffer weight parameter bf16 24MiB pool=compute persistent
buffer a unsharded bf16 30MiB pool=side
buffer small activation bf16 5KiB pool=compute
role all ranks=0
step steady
  forward.a        alloc a
  forward.small    alloc small
  forward.compute  compute stream=compute reads=weight,a writes=small
  forward.free_a   free a after_streams streams=compute
  backward.small   free small
end
)",
                              "test");
    const CostTable costs =
        costs_by(schedule, [](const Op& op) { return op.kind == OpKind::compute ? 1e-3 : 0.0; });
    RunOptions run;
    run.programs = {0, 0};
    timeline = make_formula_engine()->run(schedule, costs, run);
    ReplayOptions replay;
    replay.allocator = allocator;
    replay.record = true;
    replays = replay_memory(schedule, timeline, replay);
  }
  std::string bytes() const { return memory_snapshot(schedule, timeline, replays, options); }
};

TEST_CASE("every kind of value comes back from the pickle") {
  const std::string bytes = every_kind();
  CHECK(Reader(bytes).read().dump() == every_kind_json);
}

TEST_CASE("the snapshot lists segments, traces and settings as PyTorch does") {
  const std::string bytes = Step().bytes();
  const Json snapshot = Reader(bytes).read();
  for (const char* key :
       {"segments", "device_traces", "allocator_settings", "external_annotations"}) {
    CAPTURE(key);
    CHECK(snapshot.contains(key));
  }
  // 24 MiB, 30 MiB twice (the host is ahead: the first a waits for the compute stream), 2 MiB.
  REQUIRE(snapshot["segments"].size() == 4);
  const Json& segment = snapshot["segments"][0];
  for (const char* key :
       {"device", "address", "total_size", "allocated_size", "active_size", "requested_size",
        "stream", "segment_type", "segment_pool_id", "is_expandable", "frames", "blocks"}) {
    CAPTURE(key);
    CHECK(segment.contains(key));
  }
  CHECK(segment["total_size"] == 24 * mib);
  CHECK(segment["segment_type"] == "large");
  CHECK(segment["blocks"][0]["state"] == "active_allocated");
  CHECK(segment["blocks"][0]["frames"][0]["name"] == "weight");
  CHECK(snapshot["segments"][1]["blocks"][0]["state"] == "active_pending_free");
  CHECK(snapshot["segments"][2]["segment_type"] == "small");
  REQUIRE(snapshot["device_traces"].size() == 1);
  std::string actions;
  for (const Json& event : snapshot["device_traces"][0]) {
    actions += event["action"].get<std::string>() + " ";
    for (const char* key : {"addr", "size", "stream", "time_us", "frames"}) {
      CHECK(event.contains(key));
    }
  }
  CHECK(actions ==
        "segment_alloc alloc "                           // weight
        "segment_alloc alloc segment_alloc alloc "       // a, small
        "free_requested free_requested free_completed "  // a (recorded), small
        "segment_alloc alloc alloc "                     // a anew, small from the cache
        "free_requested free_requested free_completed ");
  CHECK(snapshot["device_traces"][0][1]["frames"][1]["filename"] == "construction");  // weight
  const Json& first_a = snapshot["device_traces"][0][3];
  CHECK(first_a["size"] == 30 * mib);
  CHECK(first_a["frames"][0]["name"] == "a");
  CHECK(first_a["frames"][1]["name"] == "forward.a");
  CHECK(snapshot["allocator_settings"]["max_split_size"] == -1);
}

TEST_CASE("the trace, replayed, ends in the listed segments, expandable or not") {
  for (const bool expandable : {false, true}) {
    AllocatorOptions options;
    options.expandable_segments = expandable;
    const std::string bytes = Step(options).bytes();
    const Json snapshot = Reader(bytes).read();
    std::map<std::int64_t, Bytes> alive;
    Bytes reserved = 0;
    for (const Json& event : snapshot["device_traces"][0]) {
      const std::string action = event["action"];
      const Bytes size = event["size"];
      const auto address = event["addr"].get<std::int64_t>();
      if (action == "alloc") {
        CHECK(alive.emplace(address, size).second);
      } else if (action == "free_completed") {
        REQUIRE(alive.count(address) == 1);
        CHECK(alive[address] == size);
        alive.erase(address);
      } else if (action == "segment_alloc" || action == "segment_map") {
        reserved += size;
      }
    }
    Bytes total = 0;
    std::map<std::int64_t, Bytes> listed;
    for (const Json& segment : snapshot["segments"]) {
      CHECK(segment["is_expandable"] == expandable);
      total += segment["total_size"].get<Bytes>();
      for (const Json& block : segment["blocks"]) {
        if (block["state"] != "inactive") {
          listed[block["address"].get<std::int64_t>()] = block["requested_size"].get<Bytes>();
        }
      }
    }
    CHECK(total == reserved);
    CHECK(listed == alive);
    CHECK(snapshot["allocator_settings"]["expandable_segments"] == expandable);
  }
}

TEST_CASE("python3 reads what our own reader reads") {
  if (std::system("python3 -c '' > /dev/null 2>&1") != 0) {
    MESSAGE("no python3: skipped");
    return;
  }
  const std::string file = "/tmp/stepcast-snapshot-" + std::to_string(getpid());
  for (const std::string& bytes : {every_kind(), Step().bytes()}) {
    std::ofstream(file + ".pickle", std::ios::binary) << bytes;
    const std::string command =
        "python3 -c 'import json,pickle,sys; json.dump(pickle.load(open("
        "sys.argv[1]+\".pickle\",\"rb\")),open(sys.argv[1]+\".json\",\"w\"))"
        "' " +
        file;
    REQUIRE(std::system(command.c_str()) == 0);
    std::ifstream json(file + ".json");
    CHECK(Json::parse(json) == Reader(bytes).read());
  }
  std::remove((file + ".pickle").c_str());
  std::remove((file + ".json").c_str());
}

}  // namespace
}  // namespace stepcast

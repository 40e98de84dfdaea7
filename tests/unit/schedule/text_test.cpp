#include "sim/schedule/text.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "sim/schedule/problems.hpp"
#include "tests/unit/schedule/small_schedules.hpp"

using namespace stepcast;

namespace {

// What parsing TEXT complains about, without the file name.
std::string refusal(const std::string& text) {
  try {
    parse_schedule(text, "f");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

const std::string head = "stepcast-schedule 1\nmesh shard=2\nlane main\nstream compute\n";
const std::string step = head + "role all ranks=0..1\nstep steady\n";

std::string documented_example() {
  const std::string page = read_file(std::string(STEPCAST_SOURCE_DIR) + "/docs/schedule-format.md");
  const std::string fence = "```schedule\n";
  const std::size_t begin = page.find(fence) + fence.size();
  REQUIRE(begin > fence.size());
  return page.substr(begin, page.find("```", begin) - begin);
}

}  // namespace

TEST_CASE("every kind of op, kernel and declaration prints and parses back to the same meaning") {
  const Schedule schedule = everything();
  const std::string text = to_text(schedule);
  const Schedule read = parse_schedule(text, "text");
  CHECK(equal(schedule, read));
  CHECK(to_text(read) == text);
}

TEST_CASE("a role whose ranks follow no stride prints as runs and parses back") {
  const std::string world = "stepcast-schedule 1\nmesh replicate=64\nlane main\n";
  const Schedule s = parse_schedule(
      world + "role a ranks=17\nstep steady\nrole b ranks=0..16,18..63\nstep steady\nend\n", "f");
  REQUIRE(s.roles.size() == 2);
  CHECK(s.roles[0].listed.empty());
  CHECK(s.roles[1].rank_count == 63);
  CHECK(s.roles[1].rank(16) == 16);
  CHECK(s.roles[1].rank(17) == 18);
  CHECK(problems(s).empty());
  CHECK(to_text(s).find("ranks=0..16,18..63\n") != std::string::npos);
  CHECK(equal(s, parse_schedule(to_text(s), "again")));
  Schedule other = s;
  other.roles[1].listed[0] = 1;
  CHECK_FALSE(equal(s, other));
  CHECK(refusal(world + "role b ranks=4..8,8..9\n").find("8 is out of range; accepted: 9 to") !=
        std::string::npos);
}

TEST_CASE("the documented example parses, has no problems and prints as documented") {
  const std::string example = documented_example();
  const Schedule schedule = parse_schedule(example, "docs/schedule-format.md");
  CHECK(schedule.roles.at(0).steps.at(0).ops.size() == 16);
  CHECK(problems(schedule).empty());
  // The page is what the program prints, but for a comment.
  std::string printed = example;
  const std::size_t comment = printed.find("          # this rank's half");
  REQUIRE(comment != std::string::npos);
  printed.erase(comment, printed.find('\n', comment) - comment);
  CHECK(to_text(schedule) == printed);
}

TEST_CASE("an equal kernel list is printed once, whatever its place in the arena") {
  const std::string text = to_text(everything());
  // Twice two block lists in the arena, used by 4 steps, named after their first op.
  std::size_t lists = 0;
  for (std::size_t at = text.find("\nkernels "); at != std::string::npos;
       at = text.find("\nkernels ", at + 1)) {
    ++lists;
  }
  CHECK(lists == 2);
  CHECK(text.find("\nkernels forward.compute\n  gemm \"qkv proj\" bf16 m=128 n=96 k=64 ") !=
        std::string::npos);
}

TEST_CASE("bytes are exact and as short as they can be") {
  const auto printed = [](Bytes bytes) {
    ScheduleBuilder b("b", Mesh{1, 1});
    b.stream("compute");
    b.persistent("x", BufferKind::other, Dtype::fp32, bytes);
    const std::string text = to_text(b.take());
    const std::size_t begin = text.find("fp32 ") + 5;
    return text.substr(begin, text.find(" persistent") - begin);
  };
  CHECK(printed(0) == "0B");
  CHECK(printed(1001) == "1001B");
  CHECK(printed(1024) == "1KiB");
  CHECK(printed(404'766'720) == "395280KiB");
  CHECK(printed(3 * gib) == "3GiB");
  CHECK(printed(3 * gib + mib) == "3073MiB");
}

TEST_CASE("names that share a spelling, quote, or look like a suffix survive") {
  ScheduleBuilder b("odd \"names\"\t\x01", Mesh{1, 2});
  const StreamIndex compute = b.stream("a stream, with = and #");
  b.stream("-");
  const std::vector<std::string> units = {"x", "x.m1", "x#2", "", "-", "layers 0", "ü", "x.m1#3"};
  for (const std::string& unit : units) b.unit(unit);
  for (int i = 0; i < 3; ++i) b.buffer("same", BufferKind::other, Dtype::int8, i, compute);
  b.buffer("same#2", BufferKind::other, Dtype::int8, 7, compute);
  b.role("all", 0, 2);
  for (const int micro_batches : {1, 2}) {
    b.step(micro_batches == 1 ? "one" : "two");
    for (int micro = 0; micro < micro_batches; ++micro) {
      for (const char* verb : {"go", "go.on", "", "a b", "x#2"}) {
        b.at(Phase::forward, -1, micro);
        b.compute(verb, compute, {}, {}, {});
        for (const std::string& unit : units) {
          b.at(Phase::forward, b.unit(unit), micro);
          const OpIndex op = b.compute(verb, compute, {}, {}, {});
          b.stream_wait(compute, op);
        }
      }
    }
  }
  const Schedule schedule = b.take();
  const std::string text = to_text(schedule);
  const Schedule read = parse_schedule(text, "text");
  CHECK(equal(schedule, read));
  CHECK(to_text(read) == text);
}

TEST_CASE("equal() sees every field that means something and no other") {
  const Schedule schedule = everything();
  const auto changed = [&](auto&& change) {
    Schedule copy = schedule;
    change(copy, copy.roles[1].steps[1].ops);
    return !equal(schedule, copy);
  };
  using Ops = std::vector<Op>;
  REQUIRE_FALSE(changed([](Schedule&, Ops&) {}));
  CHECK(changed([](Schedule& s, Ops&) { s.name = "other"; }));
  CHECK(changed([](Schedule& s, Ops&) { s.mesh = {4, 2}; }));
  CHECK(changed([](Schedule& s, Ops&) { s.buffers[0].kind = BufferKind::other; }));
  CHECK(changed([](Schedule& s, Ops&) { s.buffers[2].view_offset = 1; }));
  CHECK(changed([](Schedule& s, Ops&) { s.notes.clear(); }));
  CHECK(changed([](Schedule& s, Ops&) { s.kernels.back().causal = true; }));
  CHECK(changed([](Schedule& s, Ops&) { s.roles[0].rank_stride = 1; }));
  CHECK(changed([](Schedule&, Ops& ops) { ops[4].elements = 1; }));
  CHECK(changed([](Schedule&, Ops& ops) { ops[4].rule = "other"; }));
  CHECK(changed([](Schedule&, Ops& ops) { ops[6].lane = 1; }));
  CHECK(changed([](Schedule&, Ops& ops) { ops.pop_back(); }));
  // a compute has no reduction, a persistent buffer no view offset
  CHECK_FALSE(changed([](Schedule&, Ops& ops) { ops[6].reduction = Reduction::max; }));
  CHECK_FALSE(changed([](Schedule& s, Ops&) { s.buffers[0].view_offset = 1; }));
}

TEST_CASE("a refusal names file, line, key and what is accepted") {
  CHECK(refusal("") == "f: the file is empty; accepted: a first line 'stepcast-schedule 1'");
  CHECK(refusal("hello\n") ==
        "f:1: format: not a schedule; accepted: a first line 'stepcast-schedule 1'");
  CHECK(refusal("stepcast-schedule 2\n") == "f:1: version: 2 is out of range; accepted: 1 to 1");
  CHECK(refusal(head) == "f:4: the file is truncated: the last line must be 'end'");
  CHECK(refusal("stepcast-schedule 1\nend\n") ==
        "f:2: mesh: missing; accepted: mesh replicate=R shard=S");
  CHECK(refusal(head + "end\nlane two\n") == "f:6: nothing is accepted after 'end'");
  CHECK(refusal(head + "strem x\n").substr(0, 63) ==
        "f:5: 'strem' is not accepted (did you mean 'stream'?); accepted");
  CHECK(refusal(head + "stream compute\nend\n") ==
        "f:5: stream: 'compute' is declared twice; accepted: one stream of a name");
  CHECK(refusal(head + "stream x priority=high\n") ==
        "f:5: priority: found 'high'; accepted: a whole number");
  CHECK(refusal(head + "stream x prio=1\n") ==
        "f:5: 'prio=' is not accepted; accepted: priority=, name=");
  CHECK(refusal(head + "stream x y\n") == "f:5: 'y' is not accepted; accepted: priority=, name=");
  CHECK(refusal(head + "buffer x other fp32 4kB\n") ==
        "f:5: bytes: the unit 'kB' is not known; accepted: B, KiB, MiB, GiB");
  CHECK(refusal(head + "buffer x other fp32 -4B\n") ==
        "f:5: bytes: -4B is out of range; accepted: 0B to 1048576GiB");
  CHECK(refusal(head + "buffer x other fp32 99999999999999999999B\n") ==
        "f:5: bytes: the number is too large for 64 bits");
  CHECK(refusal(head + "buffer x other fp32 9000000000000GiB\n") ==
        "f:5: bytes: 9000000000000GiB is out of range; accepted: 0B to 1048576GiB");
  CHECK(refusal(head + "buffer x other fp31 4B\n") ==
        "f:5: dtype: 'fp31' is not accepted (did you mean 'fp32'?); accepted: fp64, fp32, tf32, "
        "fp16, bf16, fp8, int64, int32, int8");
  CHECK(refusal(head + "buffer x other fp32 4B pool=comput\n") ==
        "f:5: pool: stream 'comput' is not declared (did you mean 'compute'?); accepted: compute");
  CHECK(refusal(head + "note \"no end\n") ==
        "f:5: note: a quoted word does not end; accepted: \"...\" on one line");
  CHECK(refusal(head + "note a b\n") == "f:5: nothing more is accepted here, found 'b'");
  CHECK(refusal(head + "mesh shard=2\n") == "f:5: mesh: given twice; accepted: once");
  CHECK(refusal("stepcast-schedule 1\nmesh shard=1048576 replicate=2\n") ==
        "f:2: mesh: 2097152 ranks are out of range; accepted: 1 to 1048576");
  CHECK(refusal(head + "role all\n") ==
        "f:5: ranks: missing; accepted: ranks=FIRST..LAST, /STRIDE may follow");
  // Each in range, together twice as many as there can be: printing alone would take minutes.
  CHECK(refusal(head + "role a ranks=0,2..1048575\nrole b ranks=0..1048575\n") ==
        "f:6: ranks: 2097151 of all roles; accepted: at most 1048576");
  CHECK(refusal(head + "role all ranks=0..5/2\n") == "f:5: ranks: 5 is not 0 plus a multiple of 2");
  CHECK(refusal(head + "step steady\n") ==
        "f:5: step: a step before the first role; accepted: role first");
  CHECK(refusal(step + "stream late\n") ==
        "f:7: stream: a declaration after the first role; accepted: op, step, role, end");
}

TEST_CASE("an op is refused by what is wrong with it") {
  CHECK(refusal(step + "go compute stream=compute\n").substr(0, 46) ==
        "f:7: op: 'go' does not begin with a phase; acc");
  CHECK(refusal(step + "forward.go comput\n") ==
        "f:7: kind: 'comput' is not accepted (did you mean 'compute'?); accepted: compute, "
        "collective, copy, stream_wait, host_work, host_wait, alloc, free, storage");
  CHECK(refusal(step + "forward.go compute stream=compute stream=compute\n") ==
        "f:7: stream: given twice; accepted: once a line");
  CHECK(
      refusal(step + "forward.go compute comm=world\n") ==
      "f:7: 'comm' is not accepted; accepted: stream=, kernels=, reads=, writes=, on=, launches=, "
      "lane=, rule=, verb=, unit=, micro=");
  CHECK(refusal(step + "forward.go compute\nforward.go compute\n") ==
        "f:8: op of this step: 'forward.go' is declared twice; accepted: one op of this step of a "
        "name");
  CHECK(refusal(step + "forward.go stream_wait stream=compute on=forward.gone\nend\n") ==
        "f:7: on: op of this step 'forward.gone' is not declared (did you mean 'forward.go'?); "
        "accepted: forward.go");
  CHECK(refusal(step + "forward.go stream_wait on=forward.go@2\n") ==
        "f:7: on: 2 is out of range; accepted: -127 to -1");
  CHECK(refusal(step + "forward.go compute reads=x\n") ==
        "f:7: reads: buffer 'x' is not declared; accepted: a buffer declared above");
  CHECK(refusal(step + "forward.go.u.m40000 compute\n") ==
        "f:7: micro: 40000 is out of range; accepted: 0 to 32767");
  CHECK(
      refusal(head + "units alpha beta\nrole all ranks=0..1\nstep s\nforward.go.sigma compute\n") ==
      "f:8: unit: unit 'sigma' is not declared; accepted: alpha, beta");
  CHECK(refusal(step + "forward.go.a compute\nend\n") == "accepted");  // declared by use
}

TEST_CASE("every truncation of a schedule is refused") {
  const std::string text = to_text(everything());
  for (std::size_t length = 0; length + 1 < text.size(); length += 7) {
    CAPTURE(length);
    CHECK_THROWS_AS(parse_schedule(text.substr(0, length), "f"), InputError);
  }
}

// A text with random damage either parses or is refused; what parses prints, parses back to the
// same, and can be looked at by problems() without a crash.
TEST_CASE("mutated schedules are parsed or refused, never a crash") {
  const std::string sound = to_text(everything());
  const std::string example = documented_example();
  const std::string pieces[] = {"#",
                                "\"",
                                "=",
                                ",",
                                "@-1",
                                "[",
                                "+1B]",
                                "\n",
                                " ",
                                "..",
                                "-",
                                "/",
                                "99999999999999999999",
                                "end\n",
                                "x",
                                "0",
                                "B",
                                "GiB",
                                "step s\n",
                                "role r ranks=0\n",
                                "\\",
                                "\0x",
                                "\xff",
                                "on=",
                                "persistent"};
  std::mt19937 random(20240607);
  int parsed = 0;
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string text = round % 2 == 0 ? sound : example;
    const int damages = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < damages; ++i) {
      const std::size_t at = random() % text.size();
      switch (random() % 5) {
        case 0: text.erase(at, 1 + random() % 9); break;
        case 1: text.insert(at, pieces[random() % std::size(pieces)]); break;
        case 2: text[at] = static_cast<char>(random() % 256); break;
        case 3: text.insert(at, text.substr(random() % text.size(), random() % 200)); break;
        default: std::swap(text[at], text[random() % text.size()]); break;
      }
      if (text.empty()) text = "x";
    }
    try {
      const Schedule schedule = parse_schedule(text, "f");
      ++parsed;
      const std::string printed = to_text(schedule);
      REQUIRE(equal(parse_schedule(printed, "f"), schedule));
      problems(schedule);
    } catch (const InputError& error) {
      ++refused;
      REQUIRE(std::string(error.what()).substr(0, 2) == "f:");
    }
  }
  // Both happen, or the test tests nothing.
  CHECK(parsed > 100);
  CHECK(refused > 1000);
}

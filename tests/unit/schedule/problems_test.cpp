// One minimal schedule per kind of misuse, with the sentence it must give, and the mended schedule,
// which must give none.

#include "sim/schedule/problems.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include "base/error.hpp"
#include "sim/schedule/text.hpp"
#include "tests/unit/schedule/small_schedules.hpp"

using namespace stepcast;

namespace doctest {
template <>
struct StringMaker<std::vector<std::string>> {
  static String convert(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += "\n    " + line;
    return text.empty() ? "nothing" : text.c_str();
  }
};
}  // namespace doctest

namespace {

const std::string machine = R"(stepcast-schedule 1
schedule test
mesh shard=4
lane main
lane autograd
stream compute
stream comm
communicator shard axis=shard
communicator world axis=world
buffer weight parameter bf16 1KiB persistent
buffer low parameter bf16 512B persistent view_of=weight at=0B
buffer high parameter bf16 512B persistent view_of=weight at=512B
buffer full unsharded bf16 4KiB pool=compute
buffer other unsharded bf16 4KiB pool=compute
)";

std::vector<std::string> problems_of(const std::string& programs) {
  return problems(parse_schedule(machine + programs + "end\n", "test"));
}

std::vector<std::string> problems_of_step(const std::string& ops) {
  return problems_of("role all ranks=0..3\nstep steady\n" + ops);
}

using Sentences = std::vector<std::string>;

}  // namespace

TEST_CASE("a gather, its wait, a compute and the free are sound") {
  CHECK(problems_of_step(R"(
    forward.alloc.a    alloc full
    forward.gather.a   collective all_gather bf16 2048 comm=shard stream=comm reads=weight writes=full
    forward.wait.a     stream_wait stream=compute on=forward.gather.a
    forward.compute.a  compute stream=compute reads=full
    forward.back.a     stream_wait stream=comm on=forward.compute.a
    forward.free.a     free full
  )") == Sentences{});
}

TEST_CASE("a compute that does not wait for the gather races with it") {
  CHECK(problems_of_step(R"(
    forward.alloc.a    alloc full
    forward.gather.a   collective all_gather bf16 2048 comm=shard stream=comm reads=weight writes=full
    forward.compute.a  compute stream=compute reads=full
    forward.wait.a     stream_wait stream=comm on=forward.compute.a
    forward.mend.a     stream_wait stream=compute on=forward.gather.a
    forward.free.a     free full
  )") ==
        Sentences{"all/steady: forward.compute.a reads full while forward.gather.a may still write "
                  "it: nothing orders the two"});
}

TEST_CASE("halves of a buffer do not overlap, a view and its whole do") {
  CHECK(problems_of_step(R"(
    forward.left   compute stream=compute writes=low
    forward.right  compute stream=comm writes=weight[512B+512B]
    forward.meet   stream_wait stream=compute on=forward.right
    forward.meet2  stream_wait stream=comm on=forward.meet
  )") == Sentences{});
  CHECK(problems_of_step(R"(
    forward.left   compute stream=compute writes=low
    forward.right  compute stream=comm reads=weight[511B+512B]
    forward.meet   stream_wait stream=compute on=forward.right
    forward.meet2  stream_wait stream=comm on=forward.meet
  )") == Sentences{"all/steady: forward.right reads weight[511B+512B] while forward.left may still "
                   "write it: nothing orders the two"});
}

TEST_CASE("two reads never race") {
  CHECK(problems_of_step(R"(
    forward.left   compute stream=compute reads=weight
    forward.right  compute stream=comm reads=weight
  )") == Sentences{});
}

TEST_CASE("a race between a step and the next shows") {
  const std::string step = R"(
    forward.gather   collective all_gather bf16 2048 comm=shard stream=comm reads=weight
    forward.wait     stream_wait stream=compute on=forward.gather
    optimizer.adamw  compute stream=compute reads=weight writes=weight
  )";
  CHECK(
      problems_of_step(step) ==
      Sentences{"all/steady: forward.gather reads weight while optimizer.adamw of the step before "
                "may still write it: nothing orders the two"});
  CHECK(problems_of_step("forward.root stream_wait stream=comm on=optimizer.adamw@-1\n" + step) ==
        Sentences{});
}

TEST_CASE("a wait on an earlier step that ran another program means the op of the same name") {
  const std::string first = R"(
    forward.extra    compute stream=compute
    optimizer.adamw  compute stream=compute writes=weight
  )";
  const std::string steady = R"(
    forward.root     stream_wait stream=comm on=optimizer.adamw@-1
    forward.gather   collective all_gather bf16 2048 comm=shard stream=comm reads=weight
    forward.wait     stream_wait stream=compute on=forward.gather
    optimizer.adamw  compute stream=compute writes=weight
  )";
  CHECK(problems_of("role all ranks=0..3\nstep first\n" + first + "step steady\n" + steady) ==
        Sentences{});
  // Where the first step's op has another name there is nothing to wait for, and they race.
  const std::string renamed =
      "forward.extra compute stream=compute\n"
      "optimizer.sgd compute stream=compute writes=weight\n";
  CHECK(problems_of("role all ranks=0..3\nstep first\n" + renamed + "step steady\n" + steady) ==
        Sentences{"all/steady: forward.gather reads weight while optimizer.sgd of the step before "
                  "may still write it: nothing orders the two"});
}

TEST_CASE("the host orders what it has waited for") {
  const std::string racy = R"(
    forward.left   compute stream=compute writes=weight
    forward.right  compute stream=comm reads=weight
    forward.meet   stream_wait stream=compute on=forward.right
  )";
  CHECK(problems_of_step(racy).size() == 1);
  for (const char* wait :
       {"host_wait ops on=forward.left", "host_wait stream of=compute", "host_wait device"}) {
    CAPTURE(wait);
    CHECK(problems_of_step("forward.left   compute stream=compute writes=weight\nforward.host " +
                           std::string(wait) + R"(
      forward.right  compute stream=comm reads=weight
      forward.meet   stream_wait stream=compute on=forward.right
    )") == Sentences{});
  }
  // Waiting for the other stream orders nothing.
  CHECK(problems_of_step(R"(
    forward.left   compute stream=compute writes=weight
    forward.host   host_wait stream of=comm
    forward.right  compute stream=comm reads=weight
    forward.meet   stream_wait stream=compute on=forward.right
  )")
            .size() == 1);
}

TEST_CASE("a communicator orders its collectives whatever their streams") {
  const auto with = [](const std::string& comm) {
    return problems_of_step(R"(
      forward.one  collective all_reduce bf16 512 comm=shard stream=comm reads=weight writes=weight
      forward.two  collective all_reduce bf16 512 comm=)" +
                            comm + R"( stream=compute reads=weight writes=weight
      forward.meet stream_wait stream=comm on=forward.two
    )");
  };
  CHECK(with("shard") == Sentences{});
  // forward.one's read and write of the same bytes are one thing to race with.
  CHECK(with("world") ==
        Sentences{"all/steady: forward.two reads weight while forward.one may still write it: "
                  "nothing orders the two",
                  "all/steady: forward.two writes weight while forward.one may still write it: "
                  "nothing orders the two"});
}

TEST_CASE("use before alloc, use after free, double free and a leak are named") {
  CHECK(problems_of_step("forward.compute compute stream=compute writes=full\n") ==
        Sentences{"all/steady: forward.compute writes full before it is allocated"});
  CHECK(problems_of_step(R"(
    forward.alloc    alloc full
    forward.free     free full
    forward.compute  compute stream=compute writes=full
  )") == Sentences{"all/steady: forward.compute writes full after forward.free has freed it"});
  CHECK(problems_of_step(R"(
    forward.alloc  alloc full
    forward.free   free full
    forward.again  free full
  )") == Sentences{"all/steady: forward.again frees full, which forward.free has freed already"});
  CHECK(problems_of_step("forward.free free full\nforward.alloc alloc full\n") ==
        Sentences{"all/steady: forward.free frees full before it is allocated"});
  CHECK(problems_of_step("forward.alloc alloc full\n") ==
        Sentences{"all/steady: forward.alloc allocates full again, which forward.alloc of the step "
                  "before allocated and nothing has freed"});
}

TEST_CASE("a read of what nothing wrote is named, even where only a part is missing") {
  CHECK(problems_of_step(R"(
    forward.alloc  alloc full
    forward.read   compute stream=compute reads=full
    forward.free   free full
  )") == Sentences{"all/steady: forward.read reads full, which nothing has written"});
  const auto reading = [](const std::string& view) {
    return problems_of_step(R"(
      forward.alloc  alloc full
      forward.left   compute stream=compute writes=full[0B+1KiB]
      forward.right  compute stream=compute writes=full[3KiB+1KiB]
      forward.mid    compute stream=compute writes=full[1KiB+1KiB]
      forward.read   compute stream=compute reads=)" +
                            view + R"(
      forward.free   free full
    )");
  };
  CHECK(reading("full[0B+2KiB]") == Sentences{});
  CHECK(reading("full[3KiB+1KiB]") == Sentences{});
  CHECK(reading("full[1KiB+3KiB]") ==
        Sentences{"all/steady: forward.read reads full[1KiB+3KiB], which nothing has written"});
  CHECK(reading("full[2KiB+1B]") ==
        Sentences{"all/steady: forward.read reads full[2KiB+1B], which nothing has written"});
}

TEST_CASE("memory forgets its contents when it is freed") {
  CHECK(problems_of_step(R"(
    forward.alloc   alloc full
    forward.write   compute stream=compute writes=full
    forward.free    free full
    backward.alloc  alloc full
    backward.read   compute stream=compute reads=full
    backward.free   free full
  )") == Sentences{"all/steady: backward.read reads full, which nothing has written"});
}

TEST_CASE("freed memory that another stream still reads must not be handed out to its pool") {
  const auto freed = [](const std::string& free) {
    return problems_of_step(R"(
      forward.alloc   alloc full
      forward.write   compute stream=compute writes=full
      forward.wait    stream_wait stream=comm on=forward.write
      forward.reduce  collective reduce_scatter bf16 2048 comm=shard stream=comm reads=full
      )" + free);
  };
  CHECK(
      freed("forward.free free full\n") ==
      Sentences{"all/steady: forward.write writes full, whose memory may be that of full, freed "
                "before, while forward.reduce of the step before may still use it: nothing orders "
                "the two"});
  CHECK(
      freed(
          "forward.back stream_wait stream=compute on=forward.reduce\nforward.free free full\n") ==
      Sentences{});
  // The wait may follow the free, as long as it comes before the memory is used again.
  CHECK(
      freed(
          "forward.free free full\nforward.back stream_wait stream=compute on=forward.reduce\n") ==
      Sentences{});
  CHECK(freed("forward.free free full after_streams streams=comm\n") == Sentences{});
  CHECK(freed("forward.free free full after_streams streams=compute\n").size() == 1);
  CHECK(freed("forward.free free full after_op on=forward.reduce\n") == Sentences{});
  CHECK(freed("forward.free free full after_op on=forward.write\n").size() == 1);
}

TEST_CASE("memory that a pool hands out again must not be used before its last user is done") {
  const auto with = [](const std::string& wait) {
    return problems_of_step(R"(
      forward.alloc1  alloc full
      forward.write   compute stream=compute writes=full
      forward.free1   free full
      forward.alloc2  alloc other
      )" + wait + R"(
      forward.gather  collective all_gather bf16 2048 comm=shard stream=comm writes=other
      forward.back    stream_wait stream=compute on=forward.gather
      forward.free2   free other
    )");
  };
  CHECK(with("") ==
        Sentences{"all/steady: forward.gather writes other, whose memory may be that of "
                  "full, freed before, while forward.write may still use it: nothing "
                  "orders the two"});
  CHECK(with("forward.wait stream_wait stream=comm on=forward.write\n") == Sentences{});
}

TEST_CASE("lanes order nothing among themselves without a wait") {
  CHECK(problems_of_step(R"(
    forward.alloc  alloc full
    forward.use    compute stream=compute writes=full lane=autograd
    forward.meet   host_wait ops on=forward.use
    forward.free   free full
    forward.end    host_work sync
    forward.next   host_wait ops on=forward.end lane=autograd
  )") == Sentences{
             "all/steady: forward.use writes full, which lane main allocates in forward.alloc: "
             "nothing orders the two lanes"});
  CHECK(problems_of_step(R"(
    forward.alloc  alloc full
    forward.start  host_wait ops on=forward.alloc lane=autograd
    forward.use    compute stream=compute writes=full lane=autograd
    forward.free   free full
    forward.next   host_wait ops on=forward.free lane=autograd
  )") == Sentences{"all/steady: forward.free frees full, which lane autograd uses in forward.use: "
                   "nothing orders the two lanes"});
}

TEST_CASE("a wait on what is issued later or never is named") {
  CHECK(problems_of_step(R"(
    forward.wait     stream_wait stream=compute on=forward.compute
    forward.compute  compute stream=compute
  )") == Sentences{"all/steady: forward.wait waits on forward.compute, which is issued only after "
                   "it; it can never run"});
  CHECK(
      problems_of_step("forward.wait stream_wait stream=compute on=forward.wait\n") ==
      Sentences{"all/steady: forward.wait waits on forward.wait, which is issued by itself; it can "
                "never run"});
}

TEST_CASE("broken indices are named and nothing crashes") {
  const Schedule sound = everything();
  REQUIRE(problems(sound) == Sentences{});
  const auto broken = [&](auto&& breaks) {
    Schedule schedule = sound;
    breaks(schedule, schedule.roles[0].steps[0].ops[6]);  // forward.compute.layers.0.m0
    const std::vector<std::string> found = problems(schedule);
    try {
      to_text(schedule);  // prints "?9", or refuses a range beyond its arena
    } catch (const std::logic_error&) {
    }
    return found.empty() ? std::string("none") : found.front();
  };
  const std::string op = "even/first: forward.compute.layers.0.m0 ";
  CHECK(broken([](Schedule&, Op& o) { o.stream = 9; }) ==
        op + "is on a stream that does not exist");
  CHECK(broken([](Schedule&, Op& o) { o.lane = -1; }) == op + "is on a lane that does not exist");
  CHECK(broken([](Schedule&, Op& o) {
          o.kernels = {100, 1};
        }) == op + "runs kernels that do not exist");
  CHECK(broken([](Schedule&, Op& o) {
          o.reads = {-1, 1};
        }) == op + "reads views that do not exist");
  CHECK(broken([](Schedule&, Op& o) {
          o.waits = {0, 1 << 20};
        }) == op + "waits on what does not exist");
  CHECK(broken([](Schedule& s, Op& o) {
          s.views[static_cast<std::size_t>(o.reads.first)].buffer = 77;
        }) == op + "reads a buffer that does not exist");
  CHECK(broken([](Schedule& s, Op& o) {
          s.views[static_cast<std::size_t>(o.reads.first)].bytes = 3 * mib;
        }) == op + "reads full[0B+3MiB], beyond the buffer's 2097152 bytes");
  CHECK(broken([](Schedule& s, Op&) { s.refs[0].op = 1000; }) ==
        "even/first: forward.wait.layers.0.m0 waits on an op that does not exist and never runs");
  CHECK(broken([](Schedule& s, Op&) { s.refs[0].steps_back = -1; }) ==
        "even/first: forward.wait.layers.0.m0 waits on forward.all_gather.layers.0.m0 of a later "
        "step, which cannot have run");
  CHECK(broken([](Schedule&, Op& o) { o.unit = 5; }) ==
        "even/first: forward.compute.?5.m0 belongs to a unit that does not exist");
}

TEST_CASE("buffers that do not hold together are named") {
  const auto with = [](auto&& breaks) {
    Schedule schedule = parse_schedule(machine + "end\n", "test");
    breaks(schedule);
    const std::vector<std::string> found = problems(schedule);
    return found.empty() ? std::string("none") : found.front();
  };
  CHECK(with([](Schedule&) {}) == "none");
  CHECK(with([](Schedule& s) { s.buffers[2].view_offset = 513; }) ==
        "buffer high reaches beyond weight, which it views");
  CHECK(with([](Schedule& s) { s.buffers[1].view_of = 2; }) ==
        "buffer low views a buffer that is not declared before it");
  CHECK(with([](Schedule& s) { s.buffers[3].pool = 2; }) ==
        "buffer full is in the pool of a stream that does not exist");
  CHECK(with([](Schedule& s) { s.buffers[3].bytes = -1; }) == "buffer full has a negative size");
}

TEST_CASE("a persistent buffer and a view are neither allocated nor freed") {
  CHECK(problems_of_step("forward.alloc alloc weight\nforward.free free low\n") ==
        Sentences{"all/steady: forward.alloc is the alloc of weight, which is persistent",
                  "all/steady: forward.free is the free of low, a view, which owns no memory"});
}

TEST_CASE("a broadcast needs a root among its ranks") {
  CHECK(problems_of_step("forward.tell collective broadcast bf16 512 comm=world stream=comm\n") ==
        Sentences{"all/steady: forward.tell needs a root between 0 and 3, has -1"});
  CHECK(problems_of_step(
            "forward.tell collective broadcast bf16 512 root=4 comm=world stream=comm\n") ==
        Sentences{"all/steady: forward.tell needs a root between 0 and 3, has 4"});
}

TEST_CASE("every rank has exactly one role and every role the same steps") {
  CHECK(problems_of("role all ranks=0..2\nstep steady\n") ==
        Sentences{"rank 3 belongs to no role and would issue no collective"});
  CHECK(problems_of("role a ranks=0..2\nstep steady\nrole b ranks=2..3\nstep steady\n") ==
        Sentences{"rank 2 belongs to two roles, a and b"});
  CHECK(problems_of("role a ranks=0..4\nstep steady\n") ==
        Sentences{"role a has ranks outside 0 to 3, or none"});
  CHECK(problems_of("role a ranks=0..1\nstep steady\nrole b ranks=2..3\nstep first\n") ==
        Sentences{"role b has other steps than role a"});
}

TEST_CASE("a collective that one role never issues is named") {
  CHECK(problems_of(R"(
    role gpu0 ranks=0
    step steady
    forward.tell  collective broadcast bf16 512 root=0 comm=world stream=comm
    forward.sum   collective all_reduce bf16 512 reduction=sum comm=world stream=comm
    role rest ranks=1..3
    step steady
    forward.tell  collective broadcast bf16 512 root=0 comm=world stream=comm
  )") == Sentences{
             "steady: communicator world: role gpu0 issues forward.sum (bf16 all_reduce of 512 "
             "elements, sum), and role rest never does"});
}

TEST_CASE("collectives that differ in order, size, dtype, reduction or root are named") {
  const auto pair = [](const std::string& left, const std::string& right) {
    return problems_of("role a ranks=0..1\nstep steady\n" + left +
                       "role b ranks=2..3\nstep steady\n" + right);
  };
  const std::string sum =
      "forward.sum collective all_reduce bf16 512 reduction=sum comm=world stream=comm\n";
  const std::string tell =
      "forward.tell collective broadcast bf16 512 root=0 comm=world stream=comm\n";
  CHECK(pair(sum + tell, sum + tell) == Sentences{});
  CHECK(
      pair(sum + tell, tell + sum) ==
      Sentences{"steady: communicator world: collective 1 differs: role a issues forward.sum (bf16 "
                "all_reduce of 512 elements, sum), role b issues forward.tell (bf16 broadcast of "
                "512 elements, root 0)"});
  for (const char* other :
       {"all_reduce bf16 513 reduction=sum", "all_reduce fp16 512 reduction=sum",
        "all_reduce bf16 512 reduction=avg", "reduce_scatter bf16 512 reduction=sum"}) {
    CAPTURE(other);
    const auto found =
        pair(sum, "forward.x collective " + std::string(other) + " comm=world stream=comm\n");
    REQUIRE(found.size() == 1);
    CHECK(found[0].find("collective 1 differs") != std::string::npos);
  }
  CHECK(pair(tell, "forward.tell collective broadcast bf16 512 root=1 comm=world stream=comm\n")
            .size() == 1);
}

TEST_CASE("roles that never meet in a group may differ") {
  // Two shard groups of two ranks: role a is the first, role b the second.
  const std::string groups = R"(stepcast-schedule 1
    schedule test
    mesh replicate=2 shard=2
    lane main
    stream comm
    communicator shard axis=shard
    communicator replicate axis=replicate
    role a ranks=0..1
    step steady
    forward.one collective all_gather bf16 512 comm=%s stream=comm
    role b ranks=2..3
    step steady
    end
  )";
  const auto over = [&](const std::string& comm) {
    std::string text = groups;
    text.replace(text.find("%s"), 2, comm);
    return problems(parse_schedule(text, "test")).size();
  };
  CHECK(over("shard") == 0);
  CHECK(over("replicate") == 1);
}

TEST_CASE("two communicators crossed between roles are named") {
  const std::string one = "forward.one collective all_reduce bf16 512 comm=world stream=comm\n";
  const std::string two = "forward.two collective all_reduce bf16 512 comm=shard stream=comm\n";
  CHECK(
      problems_of("role a ranks=0..1\nstep steady\n" + one + two +
                  "role b ranks=2..3\nstep steady\n" + two + one) ==
      Sentences{"steady: communicator shard world: collective 1 differs: role a issues forward.one "
                "(bf16 all_reduce of 512 elements), role b issues forward.two (bf16 all_reduce of "
                "512 elements)"});
}

TEST_CASE("views of one role do not conflict with another role's") {
  CHECK(problems_of(R"(
    role a ranks=0..1
    step steady
    forward.one compute stream=compute writes=weight
    role b ranks=2..3
    step steady
    forward.two compute stream=comm writes=weight
  )") == Sentences{});
}

TEST_CASE("an endless list of problems is cut at a hundred") {
  std::string ops;
  for (int i = 0; i < 150; ++i)
    ops += "forward.c" + std::to_string(i) + " compute stream=compute reads=full\n";
  const auto found = problems_of_step(ops);
  CHECK(found.size() == 101);
  CHECK(found.front() == "all/steady: forward.c0 reads full before it is allocated");
  CHECK(found.back() == "the check stopped at 100 problems");
}

TEST_CASE("a schedule of ten thousand ops with a thousand slices is checked at once") {
  ScheduleBuilder b("large", Mesh{1, 4});
  b.lane("main");
  const StreamIndex compute = b.stream("compute");
  const StreamIndex comm = b.stream("comm");
  const int slices = 1000;
  const BufferIndex all = b.persistent("all", BufferKind::gradient, Dtype::fp32, slices * kib);
  b.role("all", 0, 4);
  b.step("steady");
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < slices; ++i) {
      b.at(Phase::backward, b.unit("u" + std::to_string(i)));
      const View view{all, i * kib, kib};
      const std::vector<View> views = {view};
      const OpIndex write = b.compute("write", compute, {}, {}, views);
      b.stream_wait(comm, write);
      const OpIndex read = b.compute("read", comm, {}, views, {});
      b.stream_wait(compute, read);
    }
  }
  const Schedule schedule = b.take();
  REQUIRE(schedule.roles[0].steps[0].ops.size() == 12000);
  CHECK(problems(schedule) == Sentences{});
}

// One minimal schedule a misuse, with the sentence it must give, and the mended schedule, which
// must give none: what nothing orders, and waits that never end.
#include <string>

#include "sim/schedule/builder.hpp"
#include "tests/unit/schedule/problem_sentences.hpp"

using namespace stepcast;
using namespace stepcast::test;

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

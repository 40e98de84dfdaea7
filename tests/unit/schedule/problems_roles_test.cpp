// One minimal schedule a misuse, with the sentence it must give, and the mended schedule, which
// must give none: roles that do not meet.
#include "tests/unit/schedule/problem_sentences.hpp"

using namespace stepcast;
using namespace stepcast::test;

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

// One minimal schedule a misuse, with the sentence it must give, and the mended schedule, which
// must give none: memory that is used without being there, or being somebody else's.
#include "tests/unit/schedule/problem_sentences.hpp"

using namespace stepcast;
using namespace stepcast::test;

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

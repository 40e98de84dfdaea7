#include "base/error.hpp"

#include <doctest/doctest.h>

using stepcast::InputError;
using stepcast::nearest;
using stepcast::not_accepted;

TEST_CASE("an input error reads FILE:LINE: KEY: MESSAGE") {
  CHECK(std::string(InputError({"a.toml", 12, "gpu.count"}, "is missing").what()) ==
        "a.toml:12: gpu.count: is missing");
}

TEST_CASE("an input error leaves out what is not known") {
  CHECK(std::string(InputError({"a.toml", 0, ""}, "cannot be read").what()) ==
        "a.toml: cannot be read");
  CHECK(std::string(InputError({"--nodes", 0, ""}, "is 0").what()) == "--nodes: is 0");
  CHECK(std::string(InputError("nothing to do").what()) == "nothing to do");
}

TEST_CASE("an input error is one line, whatever the value holds") {
  const std::string text = InputError({"a\nb", 1, "k\r"}, "x\ny").what();
  CHECK(text == "a b:1: k : x y");
}

TEST_CASE("a value that is not accepted is shown with what is, and with the nearest") {
  const std::vector<std::string> accepted{"ddp", "fsdp1", "fsdp2", "hsdp"};
  CHECK(std::string(not_accepted({"s.toml", 3, "strategy"}, "fdsp2", accepted).what()) ==
        "s.toml:3: strategy: 'fdsp2' is not accepted (did you mean 'fsdp2'?); accepted: ddp, "
        "fsdp1, fsdp2, hsdp");
}

TEST_CASE("a value far from all accepted ones gets no suggestion") {
  CHECK(std::string(not_accepted({}, "pipeline", {"ddp", "hsdp"}).what()) ==
        "'pipeline' is not accepted; accepted: ddp, hsdp");
}

TEST_CASE("a long value is cut to 80 characters in the message") {
  const std::string long_value(1000, 'x');
  const std::string text = not_accepted({}, long_value, {"ddp"}).what();
  CHECK(text == "'" + std::string(80, 'x') + "' is not accepted; accepted: ddp");
}

TEST_CASE("the nearest word is the one with the fewest edits") {
  CHECK(nearest("llama-3-8", {"llama-3-70b", "llama-3-8b", "gpt2"}) == "llama-3-8b");
  CHECK(nearest("gpt2", {"gpt2-xl", "gpt2"}) == "gpt2");
  CHECK(nearest("", {"abc"}).empty());
  CHECK(nearest("word", {}).empty());
}

TEST_CASE("words of the same distance: the first is taken, so that messages do not vary") {
  CHECK(nearest("ab", {"aa", "bb"}) == "aa");
}

TEST_CASE("a failed assertion says what, where and why") {
  const int two = 2;
  try {
    STEPCAST_ASSERT(two == 3, "numbers are off");
    FAIL("did not throw");
  } catch (const std::logic_error& error) {
    const std::string text = error.what();
    CHECK(text.find("internal error: numbers are off (two == 3 at ") == 0);
    CHECK(text.find("error_test.cpp:") != std::string::npos);
  }
}

TEST_CASE("an assertion that holds does nothing") {
  CHECK_NOTHROW(STEPCAST_ASSERT(1 + 1 == 2, "never"));
}

TEST_CASE("names that contain the word are suggested, in any case, before words of two edits") {
  CHECK(nearest("b300", {"dgx-h100", "hgx-b300-400g", "hgx-b300"}) == "hgx-b300");
  CHECK(nearest("H100", {"a100", "dgx-h100"}) == "a100");  // one letter off
  CHECK(nearest("fp16", {"fp32", "amp-fp16"}) == "amp-fp16");
  CHECK(nearest("o2", {"gpt2", "ab-o2"}).empty());  // too short to be part of a name
  CHECK(std::string(not_accepted({}, "b300", {"hgx-b300", "b300-x8", "dgx-2"}).what()) ==
        "'b300' is not accepted (did you mean 'b300-x8' or 'hgx-b300'?); accepted: hgx-b300, "
        "b300-x8, dgx-2");
}

TEST_CASE("a suggestion stands alone where the list is too long to read") {
  std::vector<std::string> names{"strategy"};
  for (int i = 0; i < 100; ++i) names.push_back("another-name-" + std::to_string(i));
  CHECK(std::string(not_accepted({}, "stratgy", names).what()) ==
        "'stratgy' is not accepted (did you mean 'strategy'?); accepted: one of 101 names");
  CHECK(std::string(not_accepted({}, "q", names).what()).find("accepted: strategy, another") !=
        std::string::npos);
}

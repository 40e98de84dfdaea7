#include "base/words.hpp"

#include <doctest/doctest.h>

using stepcast::plain_words;
using Words = std::vector<std::string>;

TEST_CASE("words lose colours, carriage returns and no-break spaces") {
  CHECK(plain_words("\x1b[4mGPU0\tGPU1\x1b[0m\r") == Words{"GPU0", "GPU1"});
  CHECK(plain_words("a\xc2\xa0"
                    "b") == Words{"a", "b"});
  CHECK(plain_words("\xef\xbb\xbf# x") == Words{"#", "x"});
  CHECK(plain_words("\x1b(B\x1b[m1 2") == Words{"1", "2"});
  CHECK(plain_words(" \t\r\n").empty());
}

TEST_CASE("an escape sequence that a file ends in the middle of is dropped") {
  CHECK(plain_words("a \x1b") == Words{"a"});
  CHECK(plain_words("a \x1b[") == Words{"a"});
  CHECK(plain_words("a \x1b[3") == Words{"a"});
}

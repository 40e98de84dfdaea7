#include "base/words.hpp"

#include <doctest/doctest.h>

using stepcast::is_time;
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

TEST_CASE("a colour of which ESC is lost or written out is no word, a bracket of somebody's is") {
  CHECK(plain_words("[4mGPU0 GPU1[0m") == Words{"GPU0", "GPU1"});
  CHECK(plain_words("^[[1;31mGPU0^[[m") == Words{"GPU0"});
  CHECK(plain_words("\\x1b[4mGPU0\\033[0m") == Words{"GPU0"});
  CHECK(plain_words("\xef\xbf\xbd[4mGPU0\xe2\x90\x9b[0m") == Words{"GPU0"});
  CHECK(plain_words("[1,0]<stdout>: [main] [4]m [12") ==
        Words{"[1,0]<stdout>:", "[main]", "[4]m", "[12"});
  CHECK(plain_words("^[ \\x1b") == Words{"^[", "\\x1b"});
}

TEST_CASE("times of logs are told from other words") {
  for (const char* time :
       {"2026-11-30T20:00:00.123456789Z", "2026-11-30", "2026/11/30", "20:00:00", "20:00:00,123",
        "[2026-11-30", "20:00:00]", "(20:00:00.5)", "2026-11-30T20:00:00+00:00"}) {
    CAPTURE(time);
    CHECK(is_time(time));
  }
  for (const char* other : {"", "GPU0", "0-31,64-95", "0:", "0000:0f:00.0", "0000:04:00.0", "N/A",
                            "2026", "[1,0]<stdout>:", "node-2026-11-30"}) {
    CAPTURE(other);
    CHECK_FALSE(is_time(other));
  }
}

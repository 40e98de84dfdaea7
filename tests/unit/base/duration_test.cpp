#include "base/duration.hpp"

#include <doctest/doctest.h>

#include <string>

namespace stepcast {

TEST_CASE("a duration is a number and its unit") {
  CHECK(read_duration("120ms")->seconds() == 0.12);
  CHECK(read_duration("0.12s")->seconds() == 0.12);
  CHECK(read_duration("2min")->seconds() == 120);
  CHECK(read_duration("1.5e3us")->seconds() == doctest::Approx(1.5e-3));
  // The number that was typed, not one that went through seconds.
  CHECK(read_duration("0.3ms")->milliseconds() == 0.3);
  CHECK(read_duration("0.12s")->milliseconds() == 120);
  CHECK(read_duration("250us")->milliseconds() == 0.25);
}

TEST_CASE("without a unit, or with another one, it is none") {
  for (const char* text : {"", "120", "ms", "120 ms", "120m", "120Ms", "120ms ", " 120ms", "1h",
                           "1e999s", "0.12ss", "+1s"}) {
    CAPTURE(text);
    CHECK_FALSE(read_duration(text));
  }
}

}  // namespace stepcast

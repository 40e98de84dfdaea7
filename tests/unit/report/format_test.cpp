#include "sim/report/format.hpp"

#include <doctest/doctest.h>

using namespace stepcast;

TEST_CASE("numbers for people have groups and units") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(1234567.891, 2) == "1,234,567.89");
  CHECK(grouped(-1234.5, 1) == "-1,234.5");
  CHECK(grouped(-123) == "-123");
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(999) == "999 B");
  CHECK(human_bytes(24.5e9) == "24.5 GB");
  CHECK(human_bytes(1.54e6) == "1.54 MB");
  CHECK(human_bytes(36.75e9) == "36.8 GB");
  CHECK(human_gib(80 * gib) == "80.00 GiB");
  CHECK(human_seconds(1.2345) == "1.234 s");
  CHECK(human_seconds(0.0123) == "12.30 ms");
  CHECK(human_seconds(4.5e-5) == "45.00 us");
  CHECK(human_count(8030261248.0) == "8.030 B");
  CHECK(human_count(124439808.0) == "124.4 M");
  CHECK(percent(0.3374) == "33.7 %");
}

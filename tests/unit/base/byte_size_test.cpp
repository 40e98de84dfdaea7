#include "base/byte_size.hpp"

#include <doctest/doctest.h>

namespace stepcast {

namespace {

Bytes read(const std::string& text) {
  return parse_byte_size(text, {.file = "--bytes", .line = 0, .key = ""});
}

}  // namespace

TEST_CASE("K, M, G and T are powers of 1024 in either case, with or without B and iB") {
  CHECK(read("1") == 1);
  CHECK(read("4096") == 4096);
  CHECK(read("4096B") == 4096);
  CHECK(read("1e9") == 1'000'000'000);
  for (const char* text : {"25M", "25m", "25MB", "25mB", "25MiB", "25miB", "25600K", "26214400"}) {
    CAPTURE(text);
    CHECK(read(text) == 26'214'400);
  }
  CHECK(read("2k") == 2048);
  CHECK(read("1G") == 1'073'741'824);
  CHECK(read("1TiB") == 1'099'511'627'776);
  CHECK(read("1.5K") == 1536);
  CHECK(read("0.3K") == 307);  // 307.2, as nccl-tests cuts it
  CHECK(read("900t") == 900 * 1'099'511'627'776);
}

TEST_CASE("sizes that are none are refused with what is accepted") {
  for (const char* text : {"",     "M",     "B",     "iB",     "0",    "0.5",   "-1",   "-25M",
                           "25X",  "25Mb",  "25MIB", "25MiBs", "25 M", "25M ",  " 25M", "25,000",
                           "1e16", "1000T", "nan",   "inf",    "0x10", "1e999", "25KM"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(read(text), doctest::Contains("accepted: bytes from 1 to 1e15"),
                         InputError);
  }
  CHECK_THROWS_WITH_AS(read("25Mb"), doctest::Contains("--bytes: '25Mb' is not accepted"),
                       InputError);
}

}  // namespace stepcast

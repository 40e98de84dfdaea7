// What is given beside a log of nccl-tests (--log-op, --log-ranks, --log-nodes) and what the log
// says of itself; sizes that were measured more than once.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.hpp"
#include "sim/collectives/nccl_tests_log.hpp"

using namespace stepcast;

namespace {

std::string refusal(const std::string& text, const NcclTestsHints& hints) {
  try {
    read_nccl_tests_log(text, "t.log", hints);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

// busbw / algbw = 1.875 = 2 * 15 / 16: 16 ranks.
const std::string reduced =
    "  1048576  262144  float  sum  -1  50.25  20.87  39.13  0  50.50  20.76  38.93  0\n";
// The size is that of 16 ranks' elements.
const std::string gathered = "  1048576  16384  float  none  -1  50.25  20.87  19.57  0\n";

std::string devices(int ranks, int hosts, const std::string& name = "host",
                    const std::string& gpu = "NVIDIA H100 80GB HBM3") {
  std::string text = "# nThread 1 nGpus 1 minBytes 8 maxBytes 128\n";
  for (int r = 0; r < ranks; ++r) {
    const std::string host = hosts > 1 ? name + std::to_string(r * hosts / ranks) : name;
    text += fmt::format("#  Rank  {} Group  0 Pid   100 on {} device  0 [0x1a] {}\n", r, host, gpu);
  }
  return text;
}

}  // namespace

TEST_CASE("ranks that are given against the device lines or the rows are refused with both") {
  CHECK(refusal(devices(16, 2) + reduced, {.ranks = 8}) ==
        "--log-ranks: is 8, but t.log lists 16 ranks; accepted: the same, or without --log-ranks");
  CHECK(refusal(reduced, {.ranks = 8, .nodes = 1}) ==
        "--log-ranks: is 8, but t.log has rows (busbw and algbw, size and count) of 16 ranks; "
        "accepted: the same, or without --log-ranks");
  CHECK(refusal(gathered, {.ranks = 8, .nodes = 1, .op = "all_gather"})
            .find("--log-ranks: is 8, but t.log has rows") == 0);
  CHECK(refusal(devices(16, 2) + reduced, {.ranks = 16}) == "accepted");
  CHECK(refusal(reduced, {.ranks = 16, .nodes = 2}) == "accepted");
  // Too slow for its two digits to say anything.
  CHECK(refusal("  64  16  float  sum  -1  9.50  0.01  0.01  0\n", {.ranks = 8, .nodes = 1}) ==
        "accepted");
}

TEST_CASE("slow rows that each leave many ranks open narrow them down together") {
  // 0.21 / 0.11 is 1.78 at least: 10 ranks or more. 0.43 / 0.23 is 1.81 to 1.93: 11 to 30.
  // 3.47 / 1.85 is 1.868 to 1.884: 16 or 17.
  const std::string slow =
      "  1048576  262144  float  sum  -1  9532  0.11  0.21  0  4560  0.23  0.43  0\n"
      "  8388608  2097152  float  sum  -1  4534  1.85  3.47  0  4534  1.85  3.47  0\n";
  for (const int ranks : {2, 3, 8, 14, 18, 64}) {
    CAPTURE(ranks);
    CHECK(refusal(slow, {.ranks = ranks, .nodes = 2}) ==
          fmt::format("--log-ranks: is {}, but t.log has rows (busbw and algbw, size and count) of "
                      "16 to 17 ranks; accepted: the same, or without --log-ranks",
                      ranks));
  }
  CHECK(refusal(slow, {.ranks = 16, .nodes = 2}) == "accepted");
  CHECK(refusal(slow, {.ranks = 17, .nodes = 1}) == "accepted");
  // More than twice algbw is no all-reduce.
  CHECK(refusal("  1048576  262144  float  sum  -1  50.25  20.87  80.00  0\n",
                {.ranks = 2, .nodes = 1})
            .find("has rows (busbw and algbw, size and count) of no one number of ranks;") !=
        std::string::npos);
  CHECK(refusal("  64  16  float  sum  -1  0.64  0.10  0.19  0\n", {.ranks = 2, .nodes = 1})
            .find(" ranks or more; accepted:") != std::string::npos);
}

TEST_CASE("nodes that are given against the hosts are refused, but where hosts are no nodes") {
  CHECK(refusal(devices(16, 2) + reduced, {.nodes = 4}) ==
        "--log-nodes: is 4, but t.log lists 2 hosts; accepted: the same, or without --log-nodes");
  CHECK(refusal(devices(16, 1) + reduced, {.nodes = 2}) ==
        "--log-nodes: is 2, but t.log lists 1 host; accepted: the same, or without --log-nodes");
  CHECK(refusal(devices(16, 2) + reduced, {.nodes = 2}) == "accepted");
  const auto nodes = [](const std::string& text, int given) {
    return read_nccl_tests_log(text, "t.log", {.nodes = given}).at(0).nodes;
  };
  CHECK(nodes(devices(16, 1, "localhost") + reduced, 2) == 2);
  // A device of its own for each rank: one host, whatever it is called.
  CHECK(refusal("#  Rank  0 Group  0 Pid  1 on localhost device  0 [0x1a] NVIDIA H100\n"
                "#  Rank  1 Group  0 Pid  1 on localhost device  1 [0x1b] NVIDIA H100\n"
                "all_reduce_perf\n  64  16  float  sum  -1  9.50  0.01  0.01  0\n",
                {.nodes = 2})
            .find("--log-nodes: is 2, but t.log lists 1 host;") == 0);
  // Trays of a rack are hosts of one node.
  CHECK(nodes(devices(16, 4, "tray", "NVIDIA GB200") + reduced, 1) == 1);
}

TEST_CASE("an operation that is given against the start line or the rows is refused with both") {
  CHECK(refusal("all_gather_perf\n" + gathered, {.nodes = 2, .op = "all_reduce"}) ==
        "--log-op: is all_reduce, but t.log says that it measures all_gather; accepted: the same, "
        "or without --log-op");
  CHECK(refusal(reduced, {.nodes = 2, .op = "all_gather"}) ==
        "--log-op: is all_gather, but t.log has rows with redop sum, no root and a size of count "
        "elements, as all_reduce has; accepted: the same, or without --log-op");
  CHECK(refusal(gathered, {.nodes = 2, .op = "all_gather"}) == "accepted");
}

TEST_CASE("of several tests what is given must be of one of them") {
  const std::string two = devices(16, 2) + reduced + devices(16, 4) + reduced;
  CHECK(refusal(two, {.nodes = 4}) == "accepted");
  CHECK(refusal(two, {.nodes = 8}) ==
        "--log-nodes: is 8, but t.log has tests of 2, 4 nodes; accepted: the same, or without "
        "--log-nodes");
  CHECK(refusal(two, {.ranks = 8}).find("--log-ranks: is 8, but t.log has tests of 16 ranks") == 0);
  CHECK(refusal(two, {.op = "all_gather"})
            .find("--log-op: is all_gather, but t.log has tests of all_reduce") == 0);
}

TEST_CASE("a size that a test has twice is said, and its smallest time counts") {
  const NcclTestsLog log =
      read_nccl_tests_log(
          "all_reduce_perf\n" + reduced +
              "  1048576  262144  float  sum  -1  45.00  23.30  43.69  0  45.10  23.25  43.59  0\n"
              "  1048576  262144  float  sum  -1  47.00  22.31  41.83  0  47.10  22.26  41.74  0\n"
              "  2097152  524288  float  sum  -1  80.00  26.21  49.15  0  80.10  26.18  49.09  0\n"
              "  4194304 1048576  float  sum  -1  140.00  29.96  56.17  0  140.10  29.94  56.13  "
              "0\n"
              "  4194304 1048576  float  sum  -1  141.00  29.75  55.77  0  141.10  29.73  55.74  "
              "0\n",
          "t.log", {.nodes = 2})
          .at(0);
  REQUIRE(log.rows.size() == 3);
  CHECK(log.rows[0].time_us() == 45);
  CHECK(log.rows[2].time_us() == 140);
  REQUIRE(log.notes.size() == 1);
  CHECK(log.notes[0] == "2 sizes are measured up to 3 times: the smallest time of each counts");
}

// Every log of nccl-tests at hand is read, or refused with the true reason.

#include "sim/collectives/nccl_tests_log.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "base/toml.hpp"

using namespace stepcast;

namespace {

const std::string logs = STEPCAST_TEST_DATA "/logs/";

NcclTestsLog read(const std::string& file, const NcclTestsHints& hints = {}) {
  return read_nccl_tests_log(read_file(logs + file), logs + file, hints);
}

std::string refusal(const std::string& text, const std::string& file = "t.log",
                    const NcclTestsHints& hints = {}) {
  try {
    read_nccl_tests_log(text, file, hints);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const std::string row =
    "  1048576  262144  float  sum  -1  50.25  20.87  39.13  0  50.50  20.76  "
    "38.93  0\n";

}  // namespace

TEST_CASE("every real log gives its operation, ranks, nodes and rows") {
  struct Row {
    const char* file;
    NcclTestsHints hints;
    CollectiveKind op;
    int ranks, nodes;
    std::size_t rows;
    Bytes last_bytes;
    double last_us;  // the smaller of the two columns, read off the file
  };
  const Row rows[] = {
      {"2.13-144xGB200-coreweave-2racks-allreduce.log",
       {0, 2, ""},
       CollectiveKind::all_reduce,
       144,
       2,
       6,
       17179869184,
       41557},
      {"2.13-72xGB200-coreweave-1rack-allreduce.log",
       {0, 1, ""},
       CollectiveKind::all_reduce,
       72,
       1,
       5,
       8589934592,
       20006},
      {"2.13-2x8xA100-azure-ndv4-ib-allreduce.log",
       {0, 2, ""},
       CollectiveKind::all_reduce,
       16,
       2,
       16,
       8589934592,
       86026},
      {"2.13-2x8xA100-azure-ndv4-ipoib-allreduce.log",
       {16, 2, ""},
       CollectiveKind::all_reduce,
       16,
       2,
       16,
       8589934592,
       5111454},
      {"2.13-2x8xB200-gcp-a4-allreduce-nohash.log",
       {0, 2, ""},
       CollectiveKind::all_reduce,
       16,
       2,
       11,
       8589934592,
       23563},
      {"2.13-2x8xH100-aws-p5-allreduce-mpiprefix.log",
       {0, 2, ""},
       CollectiveKind::all_reduce,
       16,
       2,
       32,
       17179869184,
       66109},
      {"2.13-2x8xH100-gcp-a3high-allgather-nohash.log",
       {0, 2, ""},
       CollectiveKind::all_gather,
       16,
       2,
       11,
       8589934592,
       160117},
      {"2.13-8xH100-1node-mlperf-bert-allreduce.log",
       {},
       CollectiveKind::all_reduce,
       8,
       1,
       6,
       704643072,
       0},
      {"2.17-2x8xB200-lambda-allreduce-nohash.log",
       {0, 2, ""},
       CollectiveKind::all_reduce,
       16,
       2,
       29,
       2147483648,
       5728.40},
      {"2.17.1-2x4xGH200-cscs-alps-socket-allreduce.log",
       {},
       CollectiveKind::all_reduce,
       8,
       2,
       25,
       134217728,
       0},
      {"old2.10-2x8xA100-dgxa100-8hdr-allreduce.log",
       {0, 2, ""},
       CollectiveKind::all_reduce,
       16,
       2,
       30,
       4294967296,
       42677},
      {"old2.10-8xA100-40GB-1node-allgather.log",
       {},
       CollectiveKind::all_gather,
       8,
       1,
       29,
       8589934592,
       0},
      {"old2.10-8xA100-40GB-1node-allreduce.log",
       {},
       CollectiveKind::all_reduce,
       8,
       1,
       32,
       8589934592,
       0},
      {"old2.10-8xA100-40GB-1node-reduce.log", {}, CollectiveKind::reduce, 8, 1, 32, 8589934592, 0},
      {"old2.10-8xA100-40GB-1node-reducescatter.log",
       {},
       CollectiveKind::reduce_scatter,
       8,
       1,
       29,
       8589934592,
       0},
      {"2.13-2x8xH100-gcp-a3mega-allgather-nohash.log",
       {0, 2, ""},
       CollectiveKind::all_gather,
       16,
       2,
       11,
       8589934592,
       0},
      {"2.13-2x8xH100-gcp-a3mega-allreduce.log", {}, CollectiveKind::all_reduce, 16, 2, 0, 0, 0},
      {"2.13-2xRTX4090-crosssocket-allreduce.log", {}, CollectiveKind::all_reduce, 2, 1, 0, 0, 0},
      {"2.13-4xRTX4090-1node-slow-allreduce.log", {}, CollectiveKind::all_reduce, 4, 1, 0, 0, 0},
      {"2.13-4xRTX4090-k8s-allreduce.log", {}, CollectiveKind::all_reduce, 4, 1, 0, 0, 0},
      {"illustration-v2.17-timestamps.txt",
       {},
       CollectiveKind::all_gather,
       2,
       1,
       1,
       1048576,
       50.25},
      {"illustration-v2.19.2-periter-21cols.txt",
       {},
       CollectiveKind::all_reduce,
       2,
       1,
       2,
       2097152,
       80.00},
      {"illustration-json-v1.json", {}, CollectiveKind::all_reduce, 2, 1, 2, 2097152, 80.00}};
  for (const Row& expected : rows) {
    CAPTURE(expected.file);
    NcclTestsLog log;
    CHECK_NOTHROW(log = read(expected.file, expected.hints));
    CHECK(log.op == expected.op);
    CHECK(log.ranks == expected.ranks);
    CHECK(log.nodes == expected.nodes);
    REQUIRE_FALSE(log.rows.empty());
    if (expected.rows > 0) CHECK(log.rows.size() == expected.rows);
    if (expected.last_bytes > 0) CHECK(log.rows.back().bytes == expected.last_bytes);
    if (expected.last_us > 0) {
      CHECK(log.rows.back().time_us() == doctest::Approx(expected.last_us));
    }
    for (std::size_t i = 1; i < log.rows.size(); ++i) {
      CHECK(log.rows[i - 1].bytes < log.rows[i].bytes);
    }
  }
}

TEST_CASE("a log that cannot be used is refused with the true reason") {
  const std::string alltoall = "old2.10-8xA100-40GB-1node-alltoall.log";
  CHECK(contains(refusal(read_file(logs + alltoall), alltoall), "measures alltoall"));
  const std::string other = "other-program.json";
  CHECK(contains(refusal(read_file(logs + other), other), "without the results of nccl-tests"));
  CHECK(contains(refusal(""), "no result row"));
  CHECK(contains(refusal("hello\nworld\n"), "no result row"));
  CHECK(contains(refusal("{ not json"), "not valid JSON"));
  CHECK(contains(refusal("#  size count type redop root cputime algbw busbw\n" + row), "-C 1"));
  // 39.13 / 20.87 = 1.875 = 2 * 15 / 16, so 16 ranks; of nodes it says nothing.
  CHECK(contains(refusal(row), "its 16 ranks ran; give --log-nodes"));
  CHECK(contains(refusal(row, "t.log", {.nodes = 17}), "17 is more than the 16 ranks"));
  CHECK(contains(refusal("  1048576  262144  float  none  0  50.25  20.87  20.87  0\n"),
                 "does not say which operation"));
}

TEST_CASE("launcher prefixes, lost hashes, exponents and noise do no harm") {
  for (const std::string prefix : {"", "0: ", "[1,0]<stdout>:", "[1,0]<stdout>: ", "0:", "   "}) {
    CAPTURE(prefix);
    const NcclTestsLog log = read_nccl_tests_log(
        prefix + "# Collective test starting: all_reduce_perf\n" + prefix + row +
            "host:1:1 [0] NCCL INFO Channel 00/24 : 0 1 2 3\n" + prefix +
            "  2097152  524288  float  sum  -1  1.2e+02  20.87  39.13  0  N/A  N/A  N/A  N/A\n",
        "x", {.nodes = 2});
    REQUIRE(log.rows.size() == 2);
    CHECK(log.rows[0].out_of_place_us == 50.25);
    CHECK(log.rows[0].in_place_us == 50.50);
    CHECK(log.rows[0].time_us() == 50.25);
    CHECK(log.rows[1].time_us() == 120);
  }
}

TEST_CASE("an in-place-only row fills the in-place half, a cut row is skipped and said") {
  const NcclTestsLog log = read_nccl_tests_log(
      "all_reduce_perf\n  1048576  262144  float  sum  -1  50.50  20.76  38.93  0\n"
      "  2097152  524288  float  sum  -1  50.50  20.76\n",
      "x", {.ranks = 16, .nodes = 2});
  REQUIRE(log.rows.size() == 1);
  CHECK(log.rows[0].out_of_place_us == 0);
  CHECK(log.rows[0].in_place_us == 50.50);
  REQUIRE(log.notes.size() == 1);
  CHECK(contains(log.notes[0], "1 broken result row skipped, the first in line 3"));
}

TEST_CASE("cut anywhere, a log is an error or a shorter log, never a crash") {
  for (const char* file :
       {"2.17.1-2x4xGH200-cscs-alps-socket-allreduce.log", "illustration-json-v1.json"}) {
    const std::string text = read_file(logs + file);
    for (std::size_t length = 0; length < text.size(); length += 13) {
      CHECK_FALSE(refusal(text.substr(0, length), file).empty());
    }
  }
}

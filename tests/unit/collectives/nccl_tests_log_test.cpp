// Every log of nccl-tests at hand is read, or refused with the true reason.

#include "sim/collectives/nccl_tests_log.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/toml.hpp"

using namespace stepcast;

namespace {

const std::string logs = STEPCAST_TEST_DATA "/logs/";

NcclTestsLog read(const std::string& file, const NcclTestsHints& hints = {}) {
  return read_nccl_tests_log(read_file(logs + file), logs + file, hints).at(0);
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
  // Its size is that of 16 ranks: all_gather or alltoall.
  CHECK(contains(refusal("  1048576  16384  float  none  -1  50.25  20.87  19.57  0\n"),
                 "does not say which operation"));
}

TEST_CASE("launcher prefixes, lost hashes, exponents and noise do no harm") {
  for (const std::string prefix :
       {"", "0: ", "[1,0]<stdout>:", "[1,0]<stdout>: ", "0:", "   ", " 0: ", "[default0]:",
        "[prterun-node1-77@1,0]<stdout>: ", "Mon Nov 30 20:00:00 2026[1,0]<stdout>:", "\x1b[32m",
        "[pod/nccl-launcher-x2/launcher] 2026-11-30T20:00:00.123Z stdout F ", "> ", "\xc2\xa0"}) {
    CAPTURE(prefix);
    const NcclTestsLog log = read_nccl_tests_log(
        prefix + "# Collective test starting: all_reduce_perf\n" + prefix + row +
            "host:1:1 [0] NCCL INFO Channel 00/24 : 0 1 2 3\n" + prefix +
            "  2097152  524288  float  sum  -1  1.2e+02  17.48  32.77  0  N/A  N/A  N/A  N/A\n",
        "x", {.nodes = 2})[0];
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
      "x", {.ranks = 16, .nodes = 2})[0];
  REQUIRE(log.rows.size() == 1);
  CHECK(log.rows[0].out_of_place_us == 0);
  CHECK(log.rows[0].in_place_us == 50.50);
  REQUIRE(log.notes.size() == 1);
  CHECK(contains(log.notes[0], "1 broken result row skipped, the first in line 3"));
}

TEST_CASE("in-place-only rows of a header with both halves are whole, rows cut in half are not") {
  const std::string head =
      "all_reduce_perf\n#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw "
      " "
      "busbw  #wrong\n";
  const std::string blank(33, ' ');
  const std::string start = "     1048576        262144     float     sum      -1";
  const std::string half = "    50.50   20.76   38.93      0";
  const NcclTestsHints hints = {.ranks = 16, .nodes = 2};
  const NcclTestsLog log = read_nccl_tests_log(head + start + blank + half + "\n", "x", hints)[0];
  REQUIRE(log.rows.size() == 1);
  CHECK(log.rows[0].out_of_place_us == 0);
  CHECK(log.rows[0].in_place_us == 50.50);
  CHECK(log.notes.empty());
  CHECK(contains(refusal(head + start + half + "\n", "x", hints), "is a broken result row"));
}

TEST_CASE("the first versions print ms: 33,554,432 B in 1.638 ms are 20.48 GB/s") {
  const std::string text =
      "nThread 1 nGpus 2 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20\n"
      "# NCCL Tests compiled with NCCL 2.0\n# Using devices\n"
      "#   Rank  0 on  node0 device  0 [0x06] Tesla P100-SXM2-16GB\n"
      "#   Rank  1 on  node0 device  1 [0x07] Tesla P100-SXM2-16GB\n"
      "#      bytes             N    type      op     time  algbw  busbw      res     time  algbw  "
      "busbw      res\n"
      "    33554432       8388608   float     sum    1.638   20.48  20.48    0e+00    1.640   "
      "20.46  "
      "20.46    0e+00\n";
  const NcclTestsLog log = read_nccl_tests_log(text, "all_reduce.log", {}).at(0);
  CHECK(log.op == CollectiveKind::all_reduce);
  CHECK(log.ranks == 2);
  CHECK(log.nodes == 1);
  REQUIRE(log.rows.size() == 1);
  CHECK(log.rows[0].out_of_place_us == doctest::Approx(1638));
  CHECK(log.rows[0].in_place_us == doctest::Approx(1640));
}

TEST_CASE("a scheduler's word about CPU time is not the header of CPU launch times") {
  const std::string text =
      "JobId=7 cputime=00:10:00\n# all_reduce_perf\n" + row + "used cputime 12 s\n";
  CHECK(read_nccl_tests_log(text, "x", {.nodes = 2}).at(0).rows.size() == 1);
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

TEST_CASE("a log that is cut within its last rows gives what its whole rows give, or is refused") {
  const std::pair<const char*, NcclTestsHints> files[] = {
      {"2.13-144xGB200-coreweave-2racks-allreduce.log", {0, 2, ""}},
      {"2.13-2x8xA100-azure-ndv4-ib-allreduce.log", {0, 2, ""}},
      {"2.13-2x8xA100-azure-ndv4-ipoib-allreduce.log", {16, 2, ""}},
      {"2.13-2x8xB200-gcp-a4-allreduce-nohash.log", {0, 2, ""}},
      {"2.13-2x8xH100-aws-p5-allreduce-mpiprefix.log", {0, 2, ""}},
      {"2.13-2x8xH100-gcp-a3high-allgather-nohash.log", {0, 2, ""}},
      {"2.13-2x8xH100-gcp-a3mega-allgather-nohash.log", {0, 2, ""}},
      {"2.13-2x8xH100-gcp-a3mega-allreduce.log", {}},
      {"2.13-2xRTX4090-crosssocket-allreduce.log", {}},
      {"2.13-4xRTX4090-1node-slow-allreduce.log", {}},
      {"2.13-4xRTX4090-k8s-allreduce.log", {}},
      {"2.13-72xGB200-coreweave-1rack-allreduce.log", {0, 1, ""}},
      {"2.13-8xH100-1node-mlperf-bert-allreduce.log", {}},
      {"2.17-2x8xB200-lambda-allreduce-nohash.log", {0, 2, ""}},
      {"2.17.1-2x4xGH200-cscs-alps-socket-allreduce.log", {}},
      {"illustration-v2.17-timestamps.txt", {}},
      {"illustration-v2.19.2-periter-21cols.txt", {}},
      {"old2.10-2x8xA100-dgxa100-8hdr-allreduce.log", {0, 2, ""}},
      {"old2.10-8xA100-40GB-1node-allgather.log", {}},
      {"old2.10-8xA100-40GB-1node-allreduce.log", {}},
      {"old2.10-8xA100-40GB-1node-reduce.log", {}},
      {"old2.10-8xA100-40GB-1node-reducescatter.log", {}}};
  for (const auto& each : files) {
    const std::string file = each.first;
    const NcclTestsHints& hints = each.second;
    CAPTURE(file);
    const std::string text = read_file(logs + file);
    const NcclTestsLog whole = read_nccl_tests_log(text, file, hints).at(0);
    const std::size_t first = text.size() > 900 ? text.size() - 900 : 0;
    std::size_t accepted = 0;
    for (std::size_t length = first; length < text.size(); ++length) {
      std::vector<NcclTestsLog> found;
      try {
        found = read_nccl_tests_log(text.substr(0, length), file, hints);
      } catch (const InputError&) {
        continue;
      }
      CAPTURE(length);
      ++accepted;
      CHECK(found.at(0).op == whole.op);
      CHECK(found[0].ranks == whole.ranks);
      for (const NcclTestsRow& kept : found[0].rows) {
        const auto same =
            std::find_if(whole.rows.begin(), whole.rows.end(),
                         [&](const auto& known) { return known.bytes == kept.bytes; });
        REQUIRE(same != whole.rows.end());
        CAPTURE(kept.bytes);
        CHECK(kept.out_of_place_us == same->out_of_place_us);
        CHECK(kept.in_place_us == same->in_place_us);
      }
    }
    CHECK(accepted > 0);
  }
}

TEST_CASE("a row that is cut where it reads as another is skipped and said") {
  // The in-place columns of the last row are cut off: its time would be read as the root of reduce.
  const std::string head = "reduce_scatter of 8\n";
  const std::string good =
      "  2147483648  67108864  float  sum  8356.9  256.97  224.85  N/A  8323.5  258.00  225.75  "
      "N/A\n";
  const std::string cut = "  4294967296  134217728  float  sum  16400  261.89  229.15  N/A  16402";
  const std::string half = "  4294967296  134217728  float  sum  16400  261.89  229.15  N/A";
  const std::string wrong =
      "  4294967296  134217728  float  sum  16400  161.89  229.15  N/A  16402  261.86  229.13  "
      "N/A\n";
  for (const std::string& last : {cut, half, wrong}) {
    const NcclTestsLog log = read_nccl_tests_log(head + good + last, "t.log", {.nodes = 1}).at(0);
    CHECK(log.op == CollectiveKind::reduce_scatter);
    CHECK(log.ranks == 8);
    REQUIRE(log.rows.size() == 1);
    CHECK(log.rows[0].time_us() == 8323.5);
    REQUIRE(log.notes.size() == 1);
    CHECK(log.notes[0] == "1 broken result row skipped, the first in line 3");
  }
}

TEST_CASE("a log whose rows are all broken is refused with the first of them") {
  const std::string header =
      "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n";
  for (const char* broken :
       {"  1048576  262144  float  sum  -1  50.25  20.87  39.13  0\n",
        "  1048576  262144  float  sum  -1  50.25  20.87  39.13  0  50.50\n",
        "  1048576  262144  float  sum  -1  1e-99999999999  1e-99999999999  1  0"
        "  1  1  1  1\n"}) {
    CHECK(
        contains(refusal(header + broken, "t.log", {.ranks = 16, .nodes = 2}),
                 "t.log:2: is a broken result row, and none is whole; accepted: as many columns"));
  }
}

namespace {

// What 2.13 to 2.18 print of one test, with devices on so many hosts.
std::string test_of(const std::string& start, int hosts, int ranks, const std::string& rows) {
  std::string text = start +
                     "# nThread 1 nGpus 1 minBytes 8 maxBytes 128 step: 2(factor) warmup "
                     "iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n#\n"
                     "# Using devices\n";
  for (int r = 0; r < ranks; ++r) {
    text += "#  Rank  " + std::to_string(r) + " Group  0 Pid   100 on host" +
            std::to_string(r * hosts / ranks) + " device  0 [0x1a] NVIDIA H100 80GB HBM3\n";
  }
  return text +
         "#\n#       size         count      type   redop    root     time   algbw   busbw #wrong  "
         " "
         "  time   algbw   busbw #wrong\n#        (B)    (elements)                               "
         "(us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n" +
         rows + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1\n#\n";
}

}  // namespace

TEST_CASE("several tests in one file are read one by one, each with its operation and ranks") {
  // A loop over operations and nodes; the shell echoes the first command, the second says its name.
  const std::string text =
      test_of("+ mpirun -np 4 ./build/all_reduce_perf -b 8 -e 128\nNCCL version 2.21.5+cuda12.4\n",
              2, 4, "  1024  256  float  sum  -1  50  0.02  0.03  0  51  0.02  0.03  0\n") +
      test_of("# Collective test starting: all_gather_perf\n", 1, 2,
              "  1024  128  float  none  -1  20  0.05  0.03  0  19  0.05  0.03  0\n") +
      "# Collective test concluded: all_gather_perf\n" +
      test_of("# Collective test starting: alltoall_perf\n", 1, 2,
              "  1024  128  float  none  -1  9  0.11  0.06  0  8  0.13  0.06  N/A\n") +
      test_of("", 1, 1, "  1024  256  float  sum  -1  3  0.34  0.00  0  2  0.51  0.00  0\n");
  const std::vector<NcclTestsLog> found = read_nccl_tests_log(text, "loop.log");
  REQUIRE(found.size() == 2);
  CHECK(found[0].op == CollectiveKind::all_reduce);
  CHECK(found[0].ranks == 4);
  CHECK(found[0].nodes == 2);
  CHECK(found[0].rows.at(0).time_us() == 50);
  CHECK(found[0].nccl_version == "2.21.5");
  CHECK(found[1].op == CollectiveKind::all_gather);
  CHECK(found[1].ranks == 2);
  CHECK(found[1].nodes == 1);
  CHECK(found[1].rows.at(0).time_us() == 19);
  REQUIRE(found[0].notes.size() == 2);
  CHECK(contains(found[0].notes[0], "measures alltoall"));
  CHECK(contains(found[0].notes[1], "measures one rank"));
}

TEST_CASE("tables that were copied without their heads are several tests, too") {
  const std::string header = "#  size  count  type  redop  root  time  algbw  busbw  #wrong\n";
  const std::string first =
      "  1048576  262144  float  sum  -1  50  20.97  39.32  0  51  20.56  38.55  0\n";
  const std::string second =
      "  1048576  16384  float  sum  -1  30  34.95  32.77  0  31  33.83  31.71  0\n";
  const std::vector<NcclTestsLog> found =
      read_nccl_tests_log(header + first + header + second, "x", {.nodes = 2});
  REQUIRE(found.size() == 2);
  CHECK(found[0].op == CollectiveKind::all_reduce);
  CHECK(found[1].op == CollectiveKind::reduce_scatter);
  CHECK(found[1].rows.at(0).time_us() == 30);
  // --log-op names those that the rows leave open, and no others.
  const std::string open =
      "  1048576  16384  float  none  -1  25  41.94  39.32  0  26  40.33  37.81  0\n";
  const std::vector<NcclTestsLog> three = read_nccl_tests_log(
      header + first + header + second + header + open, "x", {.nodes = 2, .op = "all_gather"});
  REQUIRE(three.size() == 3);
  CHECK(three[0].op == CollectiveKind::all_reduce);
  CHECK(three[1].op == CollectiveKind::reduce_scatter);
  CHECK(three[2].op == CollectiveKind::all_gather);
}

TEST_CASE("a file's name is a hint that the rows can refuse") {
  const std::string gather = "  1048576  16384  float  none  -1  50.25  20.87  19.57  0\n";
  const auto op_of = [&](const std::string& text, const std::string& file) {
    return read_nccl_tests_log(text, file, {.nodes = 2}).at(0).op;
  };
  CHECK(op_of(gather, "runs/All-Gather 16.log") == CollectiveKind::all_gather);
  CHECK(op_of(row, "all-reduce.log") == CollectiveKind::all_reduce);
  CHECK(op_of(row, "reduced.log") == CollectiveKind::all_reduce);  // no root: not reduce
  CHECK(contains(refusal(gather, "gathered.log", {.nodes = 2}), "does not say which operation"));
  CHECK(contains(refusal(gather, "AlltoAll.log", {.nodes = 2}), "measures alltoall"));
  CHECK(contains(refusal("all_gather_perf\n" + gather, "x", {.nodes = 2, .op = "all_reduce"}),
                 "--log-op: is all_reduce, but x says that it measures all_gather"));
}

TEST_CASE("of several types and reductions one is kept, and the rest is said") {
  // -d all -o all: the average runs as a ring where the sum may not.
  const std::string kept = "  64  16  float  sum  -1  9.50  0.01  0.01  0  9.60  0.01  0.01  0\n";
  const std::string text =
      "all_reduce_perf\n"
      "  64  64  int8  sum  -1  8.00  0.01  0.01  0  8.00  0.01  0.01  0\n" +
      kept + "  64  16  float  avg  -1  9.10  0.01  0.01  0  9.10  0.01  0.01  0\n";
  const NcclTestsLog log = read_nccl_tests_log(text, "x", {.ranks = 8, .nodes = 1}).at(0);
  CHECK(log.dtype == "float");
  CHECK(log.reduction == Reduction::sum);
  REQUIRE(log.rows.size() == 1);
  CHECK(log.rows[0].time_us() == 9.5);
  REQUIRE(log.notes.size() == 1);
  CHECK(contains(log.notes[0], "2 rows of other types or reductions than float sum"));
}

TEST_CASE("versions of NCCL are told from numbers of both ages") {
  const auto version = [&](const std::string& line) {
    return read_nccl_tests_log(line + "all_reduce_perf\n" + row, "x", {.nodes = 2})
        .at(0)
        .nccl_version;
  };
  CHECK(version("# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809\n") == "2.28.9");
  CHECK(version("# nccl-tests version 2.17.6 nccl-headers=2804 nccl-library=2804\n") == "2.8.4");
  CHECK(version("NCCL version 2.19.3+cuda12.2\n") == "2.19.3");
}

#pragma once
// Reads what nccl-tests prints: any of its text layouts, with launcher prefixes and noise between,
// and its JSON. A file may hold several tests one after the other.
//
//   for (const NcclTestsLog& log : read_nccl_tests_log(text, "ar.log", {.nodes = 2}))
//     log.rows.back().time_us()
//
// See nccl_tests_log.cpp, nccl_tests_text.cpp. Tested by
// tests/unit/collectives/nccl_tests_log_test.cpp on every real log that is at hand.

#include <string>
#include <vector>

#include "base/units.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast {

struct NcclTestsRow {
  Bytes bytes = 0;             // nccl-tests' size
  std::int64_t count = 0;      // elements
  double out_of_place_us = 0;  // 0: not measured
  double in_place_us = 0;

  // The faster of the two: what the collective takes when nothing else disturbs. The first rows of
  // a log often carry a start-up in one of them.
  double time_us() const;
};

struct NcclTestsLog {
  std::string file;
  CollectiveKind op = CollectiveKind::all_reduce;
  Reduction reduction = Reduction::none;
  std::string dtype;  // "float", "half", ... as nccl-tests names it
  int ranks = 0;
  int nodes = 0;
  std::string gpu;                 // as the driver names it, "" where the log does not say
  std::string nccl_version;        // "2.28.9", "" where not said
  std::vector<NcclTestsRow> rows;  // by size, each once
  std::vector<std::string> notes;
};

// What a log may not say. 0 and "" take it from the log. Ranks and nodes go before what a single
// test says of itself (hosts may all be called localhost); of several tests they fill gaps.
struct NcclTestsHints {
  int ranks = 0;
  int nodes = 0;
  std::string op = {};    // "all_reduce", ...
  int gpus_per_node = 0;  // of the machine; where nothing says the nodes: ranks over these
};

// One a test, in the file's order. Throws InputError with the true reason: no result rows, CPU
// times
// (-C 1), an operation that stepcast does not model (alltoall), ranks or nodes that the log does
// not say, with the option that gives them.
std::vector<NcclTestsLog> read_nccl_tests_log(const std::string& text, const std::string& file,
                                              const NcclTestsHints& hints = {});

}  // namespace stepcast

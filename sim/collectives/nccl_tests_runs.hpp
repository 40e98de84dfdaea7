#pragma once
// What the readers of nccl-tests' text and JSON find, before anybody asks what it means: for
// nccl_tests_log.cpp alone.

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace stepcast::nccl_tests {

inline constexpr std::size_t max_rows = 100000;

struct Operation {
  const char* name;      // of the test, without _perf
  const char* squashed;  // another way to write it
  bool modelled;
  CollectiveKind kind;
};
const std::vector<Operation>& operations();

// The operation that a text names: as a program ("all_reduce_perf"), or in any spelling
// ("All-Reduce"). nullptr: none.
const Operation* program_in(const std::string& text);
const Operation* operation_named(const std::string& text);

int element_bytes(const std::string& type);  // 0: no type of nccl-tests

// In place and out of place: 0 where there is no such half, NaN for what was printed as N/A.
struct Half {
  double time_us = 0, algbw = 0, busbw = 0;
};

struct Row {
  std::int64_t size = 0, count = 0, root = -1;
  std::string type, redop;
  Half out, in;

  bool reduces() const { return !redop.empty() && redop != "none"; }
  std::int64_t counted_bytes() const { return count * element_bytes(type); }
};

// One test: its lines from "nThread 1 nGpus 1 ..." to the last row.
struct Run {
  int line = 0;  // where it begins
  const Operation* operation = nullptr;
  std::string nccl_version, gpu;
  std::set<int> ranks;          // of the device lines
  std::set<std::string> hosts;  // of the same
  std::set<int> devices;        // of the same, by number: as many as ranks on one host
  std::vector<Row> rows;
  int broken_rows = 0, first_broken = 0;
};

// All tests of a file that have a row. Throws InputError for CPU launch times (-C 1).
std::vector<Run> read_text(const std::string& text, const std::string& file);
std::vector<Run> read_json(const std::string& text, const std::string& file);

// ---- What rows say (nccl_tests_rows.cpp)
// Whether they may be of this operation; the name of a file is no more than a hint.
bool fits(const Operation& op, const Row& row);
// The only operation that fits, or nullptr.
const Operation* operation_by(const Row& row);
// "has rows with redop sum, no root and ..., as all_reduce has"
std::string words_of(const Row& row);
// Ranks by the ratio of bus and algorithm bandwidth of the fastest row, or by size and count; 0:
// they do not tell.
int ranks_by_rows(CollectiveKind op, const std::vector<Row>& rows);
// Ranks that the digits of both bandwidths leave open in all rows at once; none where least > most:
// the rows contradict each other.
struct RankRange {
  double least = 2, most = std::numeric_limits<double>::infinity();
};
RankRange ranks_left_open(CollectiveKind op, const std::vector<Row>& rows);
std::string words_of(const RankRange& range);  // "16 ranks", "15 to 17 ranks", "9 ranks or more"
Reduction reduction_of(const std::string& redop);

std::string version_text(int number);  // 22809: "2.28.9", 2804: "2.8.4"; "": no version

}  // namespace stepcast::nccl_tests

// What the rows of a test say of its operation and its ranks.
//
// What a row says of its operation, by redop (of what reduces), root (0 and up of what has one) and
// whether size is count elements or that of all ranks:
//
//                redop          none
//   no root      all_reduce     sendrecv                          size is count elements
//                reduce_scatter all_gather, alltoall, hypercube   size is that of n ranks
//   root         reduce         broadcast                         size is count elements
//                               scatter, gather                   size is that of n ranks

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "sim/collectives/nccl_tests_runs.hpp"

namespace stepcast::nccl_tests {

// What the rows allow; the name of a file is no more than a hint.
bool fits(const Operation& op, const Row& row) {
  const std::string_view name = op.name;
  const bool rooted = row.root >= 0;
  const bool counted = row.size == row.counted_bytes();
  if (name == "all_reduce") return row.reduces() && !rooted && counted;
  if (name == "reduce_scatter") return row.reduces() && !rooted && !counted;
  if (name == "reduce") return row.reduces() && rooted;
  if (row.reduces()) return false;
  if (name == "broadcast") return rooted && counted;
  if (name == "scatter" || name == "gather") return rooted && !counted;
  return !rooted && counted == (name == "sendrecv");
}

// The only operation that fits, or nullptr.
const Operation* operation_by(const Row& row) {
  const Operation* only = nullptr;
  for (const Operation& op : operations()) {
    if (!fits(op, row)) continue;
    if (only != nullptr) return nullptr;
    only = &op;
  }
  return only;
}

// Ranks by the ratio of bus and algorithm bandwidth of the fastest row, or by size and count.
int ranks_by_rows(CollectiveKind op, const std::vector<Row>& rows) {
  const bool total = op == CollectiveKind::all_gather || op == CollectiveKind::reduce_scatter;
  for (const Row& row : rows) {
    const std::int64_t one = row.counted_bytes();
    if (total && one > 0 && row.size % one == 0 && row.size / one > 1) {
      return static_cast<int>(std::min<std::int64_t>(row.size / one, 1 << 20));
    }
  }
  const Half* best = nullptr;
  for (const Row& row : rows) {
    for (const Half* half : {&row.out, &row.in}) {
      if (half->algbw > 10 && (best == nullptr || half->algbw > best->algbw)) best = half;
    }
  }
  if (best == nullptr) return 0;
  const double ratio = best->busbw / best->algbw;
  const double part = op == CollectiveKind::all_reduce ? ratio / 2 : ratio;  // (n-1)/n
  if (op == CollectiveKind::broadcast || op == CollectiveKind::reduce) return 0;
  if (!(part >= 0.49 && part < 0.995)) return 0;  // beyond 200 ranks two digits do not tell
  const double ranks = 1 / (1 - part);
  // Two digits of 100 GB/s: 0.0001 of the ratio, ranks^2 times that of the ranks.
  const double tolerance = ranks * ranks * 0.01 / best->algbw;
  return std::abs(ranks - std::round(ranks)) <= std::min(0.3, tolerance + 0.02)
             ? static_cast<int>(std::round(ranks))
             : 0;
}

namespace {

bool tells_ranks(CollectiveKind op) {
  return op == CollectiveKind::all_reduce || op == CollectiveKind::all_gather ||
         op == CollectiveKind::reduce_scatter;
}

// Of a bandwidth as it is printed: two digits, from 1000 GB/s on one.
double half_digit(double gbps) { return gbps < 1000 ? 0.0051 : 0.051; }

// Ranks of which `part` is (n-1)/n.
double ranks_of(double part) {
  return part < 1 ? 1 / (1 - part) : std::numeric_limits<double>::infinity();
}

}  // namespace

// All rows narrow it down: of slow networks each row alone leaves many open.
RankRange ranks_left_open(CollectiveKind op, const std::vector<Row>& rows) {
  RankRange range;
  if (!tells_ranks(op)) return range;
  const double twice = op == CollectiveKind::all_reduce ? 2 : 1;
  for (const Row& row : rows) {
    const std::int64_t one = row.counted_bytes();
    if (twice == 1 && one > 0 && row.size % one == 0 && row.size / one > 1) {
      const std::int64_t whole = row.size / one;
      const auto ranks = static_cast<double>(whole);
      range.least = std::max(range.least, ranks);
      range.most = std::min(range.most, ranks);
    }
    for (const Half* half : {&row.out, &row.in}) {
      if (!(half->algbw > 0 && half->busbw >= 0)) continue;
      const double off = half_digit(half->algbw), bus_off = half_digit(half->busbw);
      const double low = (half->busbw - bus_off) / (half->algbw + off) / twice;
      range.least = std::max(range.least, std::ceil(ranks_of(low) - 1e-6));
      if (half->algbw <= off) continue;
      const double high = (half->busbw + bus_off) / (half->algbw - off) / twice;
      range.most = std::min(range.most, std::floor(ranks_of(high) + 1e-6));
    }
  }
  return range;
}

std::string words_of(const RankRange& range) {
  if (range.least > range.most || std::isinf(range.least)) return "no one number of ranks";
  if (range.least == range.most) return fmt::format("{:.0f} ranks", range.least);
  return std::isinf(range.most) ? fmt::format("{:.0f} ranks or more", range.least)
                                : fmt::format("{:.0f} to {:.0f} ranks", range.least, range.most);
}

Reduction reduction_of(const std::string& redop) {
  if (redop == "avg" || redop == "mulsum") return Reduction::avg;
  if (redop == "max" || redop == "min") return Reduction::max;
  return redop.empty() || redop == "none" ? Reduction::none : Reduction::sum;
}

std::string words_of(const Row& row) {
  const Operation* by_rows = operation_by(row);
  return fmt::format("has rows with {}, {} and {}{}",
                     row.reduces() ? "redop " + row.redop : "no redop",
                     row.root >= 0 ? "a root" : "no root",
                     row.size == row.counted_bytes() ? "a size of count elements"
                                                     : "a size of all ranks' elements",
                     by_rows == nullptr ? "" : fmt::format(", as {} has", by_rows->name));
}

}  // namespace stepcast::nccl_tests

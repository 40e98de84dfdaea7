#include "sim/interop/trace_compare.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

namespace stepcast {

namespace {

// Calls of one kind that are aligned at most: the table has a cell for each pair.
constexpr std::size_t most_aligned = 3000;

using Calls = std::vector<const TraceCall*>;

std::map<std::string, Calls> by_kind(const TraceStep& step) {
  std::map<std::string, Calls> out;
  for (const TraceCall& call : step.calls) out[call.kind].push_back(&call);
  return out;
}

bool all_sized(const TraceStep& step) {
  return std::all_of(step.calls.begin(), step.calls.end(),
                     [](const TraceCall& call) { return call.bytes > 0; });
}

class Aligner {
 public:
  Aligner(TraceComparison& out, std::string kind, const Calls& a, const Calls& b)
      : out_(out), kind_(std::move(kind)), a_(a), b_(b) {}

  void run() {
    std::size_t first = 0;
    while (first < a_.size() && first < b_.size() && same(first, first)) ++first;
    std::size_t end_a = a_.size(), end_b = b_.size();
    while (end_a > first && end_b > first && same(end_a - 1, end_b - 1)) {
      --end_a;
      --end_b;
    }
    if (end_a - first > most_aligned || end_b - first > most_aligned) {
      out_.uncompared.push_back(kind_);
      return;
    }
    align(first, end_a, end_b);
  }

 private:
  bool same(std::size_t i, std::size_t j) const {
    const TraceCall& a = *a_[i];
    const TraceCall& b = *b_[j];
    return !out_.sizes || (a.bytes == b.bytes && a.ranks == b.ranks);
  }

  // The longest common subsequence; what is not in it are the differences.
  void align(std::size_t first, std::size_t end_a, std::size_t end_b) {
    const std::size_t rows = end_a - first, columns = end_b - first;
    std::vector<std::uint16_t> longest((rows + 1) * (columns + 1), 0);
    const auto at = [&](std::size_t i, std::size_t j) -> std::uint16_t& {
      return longest[i * (columns + 1) + j];
    };
    for (std::size_t i = rows; i-- > 0;) {
      for (std::size_t j = columns; j-- > 0;) {
        at(i, j) = same(first + i, first + j) ? static_cast<std::uint16_t>(at(i + 1, j + 1) + 1)
                                              : std::max(at(i + 1, j), at(i, j + 1));
      }
    }
    auto common = static_cast<std::int64_t>(first);
    TraceComparison::Difference open{kind_, common, {}, {}};
    const auto close = [&] {
      if (!open.only_a.empty() || !open.only_b.empty()) out_.differences.push_back(open);
      open = {kind_, common, {}, {}};
    };
    std::size_t i = 0, j = 0;
    while (i < rows || j < columns) {
      if (i < rows && j < columns && same(first + i, first + j)) {
        close();
        open.after = ++common;
        ++i;
        ++j;
      } else if (j == columns || (i < rows && at(i + 1, j) >= at(i, j + 1))) {
        open.only_a.push_back(*a_[first + i++]);
      } else {
        open.only_b.push_back(*b_[first + j++]);
      }
    }
    close();
  }

  TraceComparison& out_;
  std::string kind_;
  const Calls& a_;
  const Calls& b_;
};

void add_parts(TraceComparison& out, const TraceStep& a, const TraceStep& b) {
  const auto add = [&](const std::string& name, double a_us, double b_us) {
    if (a_us > 0 || b_us > 0) out.parts.push_back({name, a_us, b_us});
  };
  for (int c = 0; c < kernel_classes; ++c) {
    const auto i = static_cast<std::size_t>(c);
    add(std::string(to_string(static_cast<KernelClass>(c))), a.class_us[i], b.class_us[i]);
  }
  std::map<std::string, std::pair<double, double>> exposed;
  for (const auto& [kind, us] : a.exposed_by_kind_us) exposed[kind].first = us;
  for (const auto& [kind, us] : b.exposed_by_kind_us) exposed[kind].second = us;
  for (const auto& [kind, us] : exposed) add("exposed " + kind, us.first, us.second);
  add("host", a.host_us, b.host_us);
  add("idle", a.idle_us, b.idle_us);
  std::stable_sort(out.parts.begin(), out.parts.end(), [](const auto& x, const auto& y) {
    return std::abs(x.b_us - x.a_us) > std::abs(y.b_us - y.a_us);
  });
}

void add_collectives(TraceComparison& out, const TraceStep& a, const TraceStep& b) {
  using Key = std::tuple<std::string, std::string, int, Bytes>;
  std::map<Key, TraceComparison::Collective> rows;
  const auto gather = [&](const TraceStep& step, int TraceComparison::Collective::*calls,
                          double TraceComparison::Collective::*sum) {
    for (const TraceCall& call : step.calls) {
      const Key key =
          out.sizes ? Key{call.kind, call.dtype, call.ranks, call.bytes} : Key{call.kind, "", 0, 0};
      TraceComparison::Collective& row = rows[key];
      std::tie(row.kind, row.dtype, row.ranks, row.bytes) = key;
      ++(row.*calls);
      row.*sum += call.us;
    }
  };
  gather(a, &TraceComparison::Collective::calls_a, &TraceComparison::Collective::mean_a_us);
  gather(b, &TraceComparison::Collective::calls_b, &TraceComparison::Collective::mean_b_us);
  for (const auto& [key, row] : rows) out.collectives.push_back(row);
  std::stable_sort(out.collectives.begin(), out.collectives.end(),
                   [](const auto& x, const auto& y) {
                     return x.mean_a_us + x.mean_b_us > y.mean_a_us + y.mean_b_us;
                   });
  for (TraceComparison::Collective& row : out.collectives) {  // sums until here
    if (row.calls_a > 0) row.mean_a_us /= row.calls_a;
    if (row.calls_b > 0) row.mean_b_us /= row.calls_b;
  }
}

}  // namespace

TraceComparison compare_traces(const TraceSummary& a, const TraceSummary& b) {
  const TraceStep& step_a = a.steps[a.typical];
  const TraceStep& step_b = b.steps[b.typical];
  TraceComparison out;
  out.step_a_us = step_a.length_us();
  out.step_b_us = step_b.length_us();
  out.sizes = all_sized(step_a) && all_sized(step_b);
  add_parts(out, step_a, step_b);
  add_collectives(out, step_a, step_b);
  const std::map<std::string, Calls> calls_a = by_kind(step_a), calls_b = by_kind(step_b);
  std::set<std::string> kinds;
  for (const auto& [kind, calls] : calls_a) kinds.insert(kind);
  for (const auto& [kind, calls] : calls_b) kinds.insert(kind);
  static const Calls none;
  for (const std::string& kind : kinds) {
    const auto in_a = calls_a.find(kind);
    const auto in_b = calls_b.find(kind);
    Aligner(out, kind, in_a == calls_a.end() ? none : in_a->second,
            in_b == calls_b.end() ? none : in_b->second)
        .run();
  }
  return out;
}

}  // namespace stepcast

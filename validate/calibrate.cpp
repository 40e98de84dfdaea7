#include "validate/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "sim/calibration/repetitions.hpp"

namespace stepcast {

namespace {

using runtime::CollectiveCase;
using runtime::collectives_bench;
using runtime::durations;
using runtime::extents;

constexpr Axis axes[] = {Axis::world, Axis::shard, Axis::replicate};
constexpr Bytes much = 2 * mib;  // from here on fewer repetitions do: a longer time is steadier

// Nodes that a group of the axis spans, and groups at work on one node, of ranks laid out node by
// node. The largest of all groups and nodes where they differ.
struct Layout {
  int nodes = 1;
  int siblings = 1;
};

Layout layout_of(const Bench& bench, Axis axis) {
  const int world = bench.mesh.world_size();
  const int per_node = bench.ranks_per_node > 0 ? bench.ranks_per_node : world;
  Layout most;
  std::vector<std::vector<int>> first_of(static_cast<std::size_t>(ceil_div(world, per_node)));
  for (int rank = 0; rank < world; ++rank) {
    const std::vector<int> group = ranks_of_group(bench.mesh, axis, rank);
    std::vector<int> nodes;
    for (const int member : group) nodes.push_back(member / per_node);
    std::sort(nodes.begin(), nodes.end());
    const auto spanned = std::unique(nodes.begin(), nodes.end()) - nodes.begin();
    most.nodes = std::max(most.nodes, static_cast<int>(spanned));
    std::vector<int>& groups = first_of[static_cast<std::size_t>(rank / per_node)];
    if (std::find(groups.begin(), groups.end(), group.front()) == groups.end()) {
      groups.push_back(group.front());
    }
    most.siblings = std::max(most.siblings, static_cast<int>(groups.size()));
  }
  return most;
}

struct SeriesUnit {
  Axis axis = Axis::world;
  CollectiveKind op = CollectiveKind::all_reduce;
  std::optional<Dtype> dtype;  // none: it only moves bytes
  Layout layout;
  int ranks = 0;

  std::string name() const {
    return fmt::format("{} of {} ranks, {}{}", to_string(op), ranks, to_string(axis),
                       dtype ? fmt::format(", {}", to_string(*dtype)) : "");
  }
  bool is_in(const Calibration& c) const {
    return std::any_of(c.collectives.series().begin(), c.collectives.series().end(),
                       [&](const MeasuredTable::Series& s) {
                         return s.op == op && s.ranks == ranks && s.nodes == layout.nodes &&
                                s.siblings == layout.siblings && s.dtype == dtype;
                       });
  }
};

std::vector<SeriesUnit> series_units(const Bench& bench) {
  std::vector<SeriesUnit> units;
  const auto add = [&](Axis axis, CollectiveKind op, std::optional<Dtype> dtype) {
    SeriesUnit unit{axis, op, dtype, layout_of(bench, axis), bench.mesh.size(axis)};
    // The axes of {1, n} and {n, 1} are the world's: once is enough.
    const bool known = std::any_of(units.begin(), units.end(), [&](const SeriesUnit& u) {
      return u.op == op && u.dtype == dtype && u.ranks == unit.ranks &&
             u.layout.nodes == unit.layout.nodes && u.layout.siblings == unit.layout.siblings;
    });
    if (!known) units.push_back(unit);
  };
  for (const Axis axis : axes) {
    if (bench.mesh.size(axis) < 2) continue;
    // Sums are of a dtype: 16-bit numbers are widened and rounded at every hop.
    for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
      add(axis, CollectiveKind::all_reduce, dtype);
      add(axis, CollectiveKind::reduce_scatter, dtype);
    }
    add(axis, CollectiveKind::all_gather, std::nullopt);
    add(axis, CollectiveKind::broadcast, std::nullopt);
  }
  return units;
}

std::vector<Bytes> sizes(const CalibrateOptions& options) {
  std::vector<Bytes> list;
  const Bytes first = options.quick ? 4 * kib : 256;
  for (Bytes size = first; size <= options.largest; size *= options.quick ? 8 : 2) {
    list.push_back(size);
  }
  if (list.empty() || list.back() < options.largest) list.push_back(options.largest);
  return list;
}

void measure_sizes(const Bench& bench, const SeriesUnit& unit, const std::vector<Bytes>& list,
                   int repetitions, MeasuredTable::Series& series) {
  if (list.empty()) return;
  std::vector<CollectiveCase> cases;
  for (const Bytes size : list) cases.push_back({unit.op, unit.dtype.value_or(Dtype::fp32), size});
  const Schedule schedule = collectives_bench(bench.mesh, unit.axis, cases);
  const Timeline timeline = bench.run(schedule, 1 + repetitions, 0);
  if (timeline.spans.empty()) return;
  const auto all = durations(schedule, timeline, OpKind::collective);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Repeated time = repeated(all[i]);
    const Bytes bytes = moved_bytes(cases[i], unit.ranks);
    if (!series.bytes.empty() && bytes <= series.bytes.back()) continue;  // rounded up to the same
    series.bytes.push_back(bytes);
    series.time_us.push_back(std::max(time.median * 1e6, 1e-3));
    series.spread.push_back(time.spread);
  }
}

void measure_series(Calibration& c, const Bench& bench, const SeriesUnit& unit,
                    const CalibrateOptions& options) {
  MeasuredTable::Series series;
  series.op = unit.op;
  series.ranks = unit.ranks;
  series.nodes = unit.layout.nodes;
  series.siblings = unit.layout.siblings;
  series.dtype = unit.dtype;
  series.source = bench.source;
  std::vector<Bytes> small, large;
  for (const Bytes size : sizes(options)) (size < much ? small : large).push_back(size);
  measure_sizes(bench, unit, small, options.quick ? 9 : 25, series);
  measure_sizes(bench, unit, large, options.quick ? 3 : 7, series);
  if (!series.bytes.empty()) c.collectives.add(std::move(series));
}

constexpr int timed_ops = 50;
constexpr Seconds timed_seconds = 1e-3;

// Seconds of an op that takes `timed_seconds`, on average, in the median repetition.
Seconds per_op(const Schedule& schedule, const Timeline& timeline) {
  return repeated(extents(schedule, timeline, OpKind::compute)).median / timed_ops;
}

void measure_overhead(Calibration& c, const Bench& bench, const CalibrateOptions& options) {
  const Schedule schedule = runtime::timed_bench(bench.mesh, timed_ops);
  const Timeline timeline = bench.run(schedule, options.quick ? 4 : 10, timed_seconds);
  if (timeline.spans.empty()) return;
  c.host.op_overhead_us = std::max(0.0, (per_op(schedule, timeline) - timed_seconds) * 1e6);
}

// Ops beside collectives of a quarter of a MiB that go on all the while, over the same ops alone.
void measure_overlap(Calibration& c, const Bench& bench, const CalibrateOptions& options) {
  const int steps = options.quick ? 4 : 10;
  const CollectiveCase what{CollectiveKind::all_reduce, Dtype::fp32, 256 * kib};
  const Axis axis = Axis::world;
  const Schedule alone = runtime::timed_bench(bench.mesh, timed_ops);
  const Schedule only = collectives_bench(bench.mesh, axis, {what});
  const Timeline alone_ran = bench.run(alone, steps, timed_seconds);
  const Timeline only_ran = bench.run(only, steps, 0);
  // As many collectives as outlast the ops; every process must issue as many, so the number is
  // decided without looking at a clock.
  const int collectives = 2 * timed_ops;
  const Schedule both = runtime::overlap_bench(bench.mesh, axis, timed_ops, what, collectives);
  const Timeline both_ran = bench.run(both, steps, timed_seconds);
  if (both_ran.spans.empty()) return;
  CalibratedOverlap overlap;
  overlap.channels = 1;
  overlap.compute_slowdown =
      std::max(1.0, per_op(both, both_ran) / std::max(per_op(alone, alone_ran), timed_seconds));
  overlap.memory_slowdown = overlap.compute_slowdown;
  std::vector<Seconds> beside;
  for (const std::vector<Seconds>& call : durations(both, both_ran, OpKind::collective)) {
    beside.insert(beside.end(), call.begin(), call.end());
  }
  const Seconds lonely = repeated(durations(only, only_ran, OpKind::collective).front()).median;
  overlap.collective_slowdown = std::max(0.01, repeated(beside).median / std::max(lonely, 1e-9));
  c.overlaps = {overlap};
}

struct Unit {
  std::string name;
  bool done = false;
  std::function<void(Calibration&)> measure;
};

std::vector<Unit> units_of(const Calibration& c, const Bench& bench,
                           const CalibrateOptions& options) {
  std::vector<Unit> units;
  for (const SeriesUnit& series : series_units(bench)) {
    units.push_back({series.name(), series.is_in(c), [&bench, &options, series](Calibration& out) {
                       measure_series(out, bench, series, options);
                     }});
  }
  units.push_back({"what an op costs the executor", c.host.op_overhead_us.has_value(),
                   [&](Calibration& out) { measure_overhead(out, bench, options); }});
  if (bench.mesh.world_size() > 1) {
    units.push_back({"ops beside collectives", !c.overlaps.empty(),
                     [&](Calibration& out) { measure_overlap(out, bench, options); }});
  }
  return units;
}

}  // namespace

std::vector<CalibrateUnit> calibrate_units(const Calibration& so_far, const Bench& bench,
                                           const CalibrateOptions& options) {
  std::vector<CalibrateUnit> out;
  for (const Unit& unit : units_of(so_far, bench, options)) out.push_back({unit.name, unit.done});
  return out;
}

void calibrate(Calibration& calibration, const Bench& bench, const CalibrateOptions& options,
               const std::function<void(std::size_t, const std::string&)>& before,
               const std::function<void(const Calibration&)>& keep) {
  const std::vector<Unit> units = units_of(calibration, bench, options);
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (units[i].done) continue;
    before(i, units[i].name);
    units[i].measure(calibration);
    keep(calibration);
  }
}

}  // namespace stepcast

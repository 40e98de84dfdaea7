#include "validate/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "sim/calibration/repetitions.hpp"
#include "validate/kernel_units.hpp"

namespace stepcast {

namespace {

using runtime::accompanied;
using runtime::CollectiveCase;
using runtime::collectives_bench;
using runtime::durations;
using runtime::equal_ops_bench;
using runtime::extents;
using runtime::overlap_bench;

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

std::vector<SeriesUnit> series_units(const Bench& bench, const CalibrateOptions& options) {
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
    for (const Dtype dtype : options.dtypes) {
      add(axis, CollectiveKind::all_reduce, dtype);
      add(axis, CollectiveKind::reduce_scatter, dtype);
    }
    add(axis, CollectiveKind::all_gather, std::nullopt);
    add(axis, CollectiveKind::broadcast, std::nullopt);
  }
  return units;
}

std::vector<Bytes> sizes(const CalibrateOptions& options) {
  if (!options.sizes.empty()) return options.sizes;
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

// ---- What an executor adds, and what ops lose beside collectives

constexpr int equal_ops = 50;
constexpr Seconds timed_seconds = 1e-3;  // of an op that does nothing

// What runs beside collectives: on CPUs ops that take a millisecond, on GPUs a product that fills
// the chip or a stream through the memory.
Kernel product_beside(const Bench& bench) {
  if (!bench.computes) return memory_bound("timed", Dtype::fp32, 4, 4);
  return gemm("beside", bench.dtypes.front(), 4096, 4096, 4096);
}
Kernel stream_beside(const Bench& bench) {
  if (!bench.computes) return memory_bound("timed", Dtype::fp32, 4, 4);
  return memory_bound("beside", Dtype::fp32, 128 * mib, 128 * mib);
}

// Seconds of one of equal ops, on average, in the median repetition.
Seconds per_op(const Schedule& schedule, const Timeline& timeline) {
  return repeated(extents(schedule, timeline, OpKind::compute)).median / equal_ops;
}

void measure_overhead(Calibration& c, const Bench& bench, const CalibrateOptions& options) {
  const Schedule schedule = equal_ops_bench(bench.mesh, product_beside(bench), equal_ops);
  const Timeline timeline = bench.run(schedule, options.quick ? 4 : 10, timed_seconds);
  if (timeline.spans.empty()) return;
  const double us = (per_op(schedule, timeline) - timed_seconds) * 1e6;
  c.host.op_overhead_us = us < 1e-3 ? 0 : us;  // less is rounding
}

struct Beside {
  bool here = false;  // this process has the timelines
  double op_slowdown = 1;
  double collective_slowdown = 1;
};

// `ctas` 0: as many channels as the executor takes by itself.
Beside beside_collectives(const Bench& bench, const Kernel& kernel, int steps, int ctas) {
  const CollectiveCase what{CollectiveKind::all_reduce, Dtype::fp32, bench.beside};
  // Every process must issue as many, so no clock decides the number.
  const int collectives = 2 * equal_ops;
  const Schedule alone = equal_ops_bench(bench.mesh, kernel, equal_ops);
  const Schedule only = collectives_bench(bench.mesh, Axis::world, {what});
  const Schedule both =
      overlap_bench(bench.mesh, Axis::world, kernel, equal_ops, what, collectives);
  const auto run = [&](const Schedule& schedule, Seconds op_seconds) {
    return ctas > 0 ? bench.run_with(schedule, steps, ctas)
                    : bench.run(schedule, steps, op_seconds);
  };
  const Timeline alone_ran = run(alone, timed_seconds);
  const Timeline only_ran = run(only, 0);
  const Timeline both_ran = run(both, timed_seconds);
  if (both_ran.spans.empty()) return {};
  const Seconds lonely = repeated(durations(only, only_ran, OpKind::collective).front()).median;
  const Seconds beside = repeated(accompanied(both, both_ran)).median;
  return {true, std::max(1.0, per_op(both, both_ran) / std::max(per_op(alone, alone_ran), 1e-9)),
          std::max(0.01, beside / std::max(lonely, 1e-9))};
}

bool has_overlap(const Calibration& c, int channels) {
  return std::any_of(c.overlaps.begin(), c.overlaps.end(), [&](const CalibratedOverlap& o) {
    return o.channels == static_cast<double>(channels);
  });
}

void measure_overlap(Calibration& c, const Bench& bench, const CalibrateOptions& options,
                     int ctas) {
  const int steps = options.quick ? 4 : 10;
  const Beside product = beside_collectives(bench, product_beside(bench), steps, ctas);
  const Beside stream =
      bench.computes ? beside_collectives(bench, stream_beside(bench), steps, ctas) : product;
  if (!product.here) return;
  CalibratedOverlap overlap;
  overlap.channels = ctas > 0 ? ctas : bench.channels;
  overlap.compute_slowdown = product.op_slowdown;
  overlap.memory_slowdown = stream.op_slowdown;
  overlap.collective_slowdown = product.collective_slowdown;
  c.overlaps.push_back(overlap);
  std::sort(c.overlaps.begin(), c.overlaps.end(),
            [](const auto& a, const auto& b) { return a.channels < b.channels; });
}

struct Unit {
  std::string name;
  bool done = false;
  std::function<void(Calibration&)> measure;
};

std::vector<Unit> units_of(const Calibration& c, const Bench& bench,
                           const CalibrateOptions& options) {
  std::vector<Unit> units;
  for (const SeriesUnit& series : series_units(bench, options)) {
    units.push_back({series.name(), series.is_in(c), [&bench, &options, series](Calibration& out) {
                       measure_series(out, bench, series, options);
                     }});
  }
  if (bench.computes) {
    for (KernelUnit& unit : kernel_units(bench, options.quick)) {
      const bool done = unit.is_in(c);
      units.push_back({unit.name, done, [&bench, unit = std::move(unit)](Calibration& out) {
                         measure_kernels(out, bench, unit);
                       }});
    }
  } else {
    units.push_back({"what an op costs the executor", c.host.op_overhead_us.has_value(),
                     [&](Calibration& out) { measure_overhead(out, bench, options); }});
  }
  if (bench.mesh.world_size() > 1) {
    if (bench.ctas.empty()) {
      units.push_back({"ops beside collectives", !c.overlaps.empty(),
                       [&](Calibration& out) { measure_overlap(out, bench, options, 0); }});
    }
    for (const int ctas : bench.ctas) {
      units.push_back({fmt::format("ops beside collectives that hold {} channels", ctas),
                       has_overlap(c, ctas), [&bench, &options, ctas](Calibration& out) {
                         measure_overlap(out, bench, options, ctas);
                       }});
    }
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

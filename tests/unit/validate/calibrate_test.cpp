// Which units a calibration has, and that an interrupted one goes on where it stood.
#include "validate/calibrate.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

#include "base/error.hpp"

using namespace stepcast;

namespace {

// An executor in which a collective takes 1 us a KiB and every op 10 us more than it should.
Timeline pretend(const Schedule& schedule, int steps, Seconds op_seconds) {
  Timeline t;
  Seconds now = 0;
  for (int step = 0; step < steps; ++step) {
    const std::vector<Op>& ops = schedule.roles[0].steps[0].ops;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (ops[i].kind != OpKind::collective && ops[i].kind != OpKind::compute) continue;
      Span span;
      span.step = step;
      span.op = static_cast<OpIndex>(i);
      span.start = now;
      now += ops[i].kind == OpKind::collective ? 1e-6 * static_cast<double>(bytes_of(ops[i])) / 1024
                                               : op_seconds + 10e-6;
      span.end = now;
      t.spans.push_back(span);
    }
  }
  return t;
}

Bench bench_of(Mesh mesh, int ranks_per_node = 0) {
  return {mesh, ranks_per_node, pretend, "test"};
}

std::vector<std::string> names(const Bench& bench) {
  std::vector<std::string> out;
  for (const CalibrateUnit& unit : calibrate_units({}, bench, {})) out.push_back(unit.name);
  return out;
}

const MeasuredTable::Series* find(const Calibration& c, CollectiveKind op, int ranks, int nodes) {
  for (const MeasuredTable::Series& s : c.collectives.series()) {
    if (s.op == op && s.ranks == ranks && s.nodes == nodes) return &s;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("each axis is measured once, with as many siblings as share a node") {
  // {1, 4}: shard and world are the same ranks, replicate has one.
  CHECK(names(bench_of({1, 4})).size() == 6 + 2);
  // {2, 2} on nodes of 2: world 4 ranks on 2 nodes; shard 2 on 1; replicate 2 on 2, two at work.
  const Bench bench = bench_of({2, 2}, 2);
  CHECK(names(bench).size() == 3 * 6 + 2);
  CHECK(names(bench)[0] == "all_reduce of 4 ranks, world, fp32");
  Calibration c;
  calibrate(
      c, bench, {.quick = true, .largest = 1 << 20}, [](auto, const auto&) {},
      [](const Calibration&) {});
  REQUIRE(find(c, CollectiveKind::all_gather, 4, 2) != nullptr);
  CHECK(find(c, CollectiveKind::all_gather, 4, 2)->siblings == 1);
  CHECK(find(c, CollectiveKind::all_gather, 2, 1)->siblings == 1);
  CHECK(find(c, CollectiveKind::all_gather, 2, 2)->siblings == 2);
  // 4 and 32 and 256 KiB, then what was asked for as the largest.
  const MeasuredTable::Series& series = *find(c, CollectiveKind::all_gather, 4, 2);
  CHECK(series.bytes == std::vector<Bytes>{4096, 32768, 262144, 1 << 20});
  CHECK(series.time_us[0] == doctest::Approx(4));
  CHECK(series.time_us[3] == doctest::Approx(1024));
  CHECK(*c.host.op_overhead_us == doctest::Approx(10));
  // A shard of the replicas' nodes shares nothing but its own: the simulator finds it.
  CHECK(parse_calibration(to_toml([&] {
                            c.origin = {"n", "d", "", "", "e", "s", "2026-11-30", {}};
                            return c;
                          }()),
                          "c.toml")
            .collectives.series()
            .size() == c.collectives.series().size());
}

TEST_CASE("what was kept before an interruption is not measured again") {
  const Bench bench = bench_of({1, 2});
  const CalibrateOptions how{.quick = true, .largest = 8192};
  Calibration kept;
  std::vector<std::string> measured;
  const auto measure = [&](int until) {
    Calibration c = kept;
    calibrate(
        c, bench, how, [&](std::size_t, const std::string& name) { measured.push_back(name); },
        [&](const Calibration& so_far) {
          kept = so_far;
          if (--until == 0) throw std::runtime_error("interrupted");
        });
  };
  CHECK_THROWS(measure(3));
  CHECK(measured.size() == 3);
  measure(100);
  const auto units = calibrate_units(kept, bench, how);
  CHECK(measured.size() == units.size());  // each once
  for (const CalibrateUnit& unit : units) CHECK(unit.done);
}

TEST_CASE("where kernels run, products, attention and streams are measured too") {
  Bench bench = bench_of({1, 1});
  bench.computes = true;
  Calibration c;
  calibrate(
      c, bench, {.quick = true}, [](auto, const auto&) {}, [](const Calibration&) {});
  // m of four sizes, n and k of three, in two dtypes; two heads, three lengths, two passes.
  CHECK(c.kernels.shapes.size() == 4 * 3 * 3 * 2 + 2 * 3 * 2);
  CHECK(c.collectives.series().empty());  // one rank has nobody to send to
  REQUIRE(c.kernels.memory.size() == 1);
  CHECK(c.kernels.memory[0].bytes.front() == 4 * kib);
  CHECK(c.kernels.memory[0].bytes.back() == gib);
  // Every op takes 10 us here.
  CHECK(c.kernels.shapes[0].seconds == doctest::Approx(10e-6));
  CHECK(c.kernels.memory_bytes_per_second == doctest::Approx(gib / 10e-6));
  for (const CalibrateUnit& unit : calibrate_units(c, bench, {.quick = true})) CHECK(unit.done);
}

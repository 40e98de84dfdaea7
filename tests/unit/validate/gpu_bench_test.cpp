// Calibrating GPUs that are not there: what is asked of them, and that a job of processes goes
// through all of it together.
#include "validate/gpu_bench.hpp"

#include <doctest/doctest.h>

#include <thread>

#include "runtime/cuda/frame.hpp"
#include "tests/unit/cuda/fake_gpu.hpp"

namespace stepcast {
namespace {

using runtime::GpuExecuteOptions;
using runtime::GpuTables;
using testing::FakeCluster;

const CalibrateOptions small{.quick = true, .largest = 4 * kib};

// The fake moves every byte: small tensors beside small kernels.
Bench bench_of(const GpuTables& tables, Mesh mesh, const GpuExecuteOptions& how = {},
               int per_node = 0) {
  Bench bench = gpu_bench(tables, mesh, how, per_node);
  bench.beside = 1024;
  bench.ctas = {4};
  bench.dtypes = {Dtype::fp32};
  return bench;
}

Calibration measured(const Bench& bench) {
  Calibration c;
  calibrate(
      c, bench, small, [](auto, const auto&) {}, [](const Calibration&) {});
  return c;
}

TEST_CASE("interference is measured at each number of channels, with communicators that hold it") {
  FakeCluster cluster({2});
  Bench bench = bench_of(cluster.process(0), {1, 2});
  bench.ctas = {4, 16};
  const Calibration c = measured(bench);
  REQUIRE(c.overlaps.size() == 2);
  CHECK(c.overlaps[0].channels == 4);
  CHECK(c.overlaps[1].channels == 16);
  CHECK(c.overlaps[0].memory_slowdown.has_value());
  // Two ranks, and for each number a product and a stream: alone, the collective alone, both.
  CHECK(cluster.max_ctas().count(4) == 2 * 2 * 3);
  CHECK(cluster.max_ctas().count(16) == 2 * 2 * 3);
  CHECK(!c.kernels.shapes.empty());
  CHECK(!c.collectives.series().empty());
  CHECK(!c.host.op_overhead_us.has_value());  // a GPU's ops are kernels
  CHECK(cluster.alive() == 0);
}

TEST_CASE("one GPU has kernels and nobody to send to") {
  FakeCluster cluster({1});
  const Calibration c = measured(bench_of(cluster.process(0), {1, 1}));
  CHECK(c.overlaps.empty());
  CHECK(c.collectives.series().empty());
  CHECK(!c.kernels.shapes.empty());
}

TEST_CASE("processes of a job measure the same units, meeting after meeting on one port") {
  FakeCluster cluster({1, 1});
  const int port = [] { return runtime::Listener(0).port(); }();
  Calibration of[2];
  std::string told[2];
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      GpuExecuteOptions how;
      how.job = runtime::Job{rank, 2, 0, "127.0.0.1", port, "torchrun"};
      told[rank] = runtime::from_rank_0(rank == 0 ? "what is done" : "not asked", how);
      how.meeting = 1;
      Bench bench = bench_of(cluster.process(rank), {1, 2}, how, 1);
      bench.ctas = {8};
      of[rank] = measured(bench);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  CHECK(told[0] == "what is done");
  CHECK(told[1] == "what is done");
  for (const Calibration& c : of) {
    REQUIRE(!c.collectives.series().empty());
    CHECK(c.collectives.series()[0].nodes == 2);
    CHECK(c.overlaps.size() == 1);
  }
}

TEST_CASE("an unknown device is nobody's in the catalog") {
  FakeCluster cluster({1});
  const CalibrationOrigin origin = gpu_origin(cluster.process(0), "");
  CHECK(origin.gpu == "fake-gpu");
  CHECK(gpu_origin(cluster.process(0), "h100-sxm").gpu == "h100-sxm");
  CHECK(origin.executor == "cuda");
}

}  // namespace
}  // namespace stepcast

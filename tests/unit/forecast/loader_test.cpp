// Data loading end to end: bound by storage, by the workers, or by nothing.

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "sim/forecast/bind.hpp"
#include "sim/forecast/forecast.hpp"

using namespace stepcast;

namespace {

Forecast run(const std::string& engine, const std::string& loader) {
  return forecast(parse_scenario(
      "model = \"gpt2\"\ncluster = \"dgx-h100\"\ngpus = 8\nseq_len = 256\nstrategy = \"ddp\"\n"
      "micro_batch = 4\naccumulation = 2\nengine = \"" +
          engine + "\"\n" + loader,
      "test"));
}

Seconds exposed_to_loader(const Forecast& f) {
  for (const ExposedPart& part : f.report.split.exposed) {
    if (part.cause == "loader") return part.seconds;
  }
  return 0;
}

std::string refusal(const std::string& loader) {
  try {
    run("formula", loader);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a batch takes what binds: the rank's share of the storage, or the workers") {
  // 4 workers; 10 samples of 1 MB at 1 GB/s are 10 ms, 6 ms of work a sample 60 ms.
  LoaderRates rates{
      .workers = 4, .sample_bytes = 1'000'000, .sample_seconds = 6e-3, .bytes_per_second = 1e9};
  CHECK(rates.batch_seconds(10'000'000) == doctest::Approx(0.0175));  // (10 + 60) / 4
  rates.sample_seconds = 2e-3;
  CHECK(rates.batch_seconds(10'000'000) == doctest::Approx(0.010));  // (10 + 20) / 4 < 10
  rates.workers = 0;
  CHECK(rates.batch_seconds(10'000'000) == doctest::Approx(0.030));  // one after the other
}

TEST_CASE("bound by storage, the step is its bytes over the rank's share, in both engines") {
  // 2 micro-batches x 4 samples x 0.5 GB = 4 GB a rank; 8 ranks share 2 GB/s: 16 s.
  for (const char* engine : {"formula", "fluid"}) {
    const Forecast f = run(engine,
                           "loader_workers = 4\nsample_bytes = 500000000\n"
                           "storage_gbps = 2\n");
    CHECK(f.report.step_time == doctest::Approx(16).epsilon(1e-6));
    CHECK(f.report.split.total() == doctest::Approx(16).epsilon(1e-6));
    // All but what the GPU does meanwhile is the loader's.
    const TimeSplit& split = f.report.split;
    CHECK(exposed_to_loader(f) > 15.5);
    CHECK(exposed_to_loader(f) + split.compute + split.optimizer <= 16.000001);
  }
}

TEST_CASE("bound by the GPU, nothing of the loader is exposed and the step is as without it") {
  for (const char* engine : {"formula", "fluid"}) {
    const Forecast without = run(engine, "");
    const Forecast with =
        run(engine, "loader_workers = 2\nloader_sample_ms = 0.1\nstorage_gbps = 10\n");
    CHECK(with.report.step_time == doctest::Approx(without.report.step_time).epsilon(1e-6));
    CHECK(exposed_to_loader(with) == 0);
  }
}

TEST_CASE("without workers the training process reads: its time adds where nothing was ahead") {
  // The host waits for the device after every step: 2 micro-batches x 4 samples x 10 ms; the second
  // batch is read while the GPU still has the first one's work.
  const std::string sync = "sync_every_step = true\n";
  const Forecast without = run("formula", sync);
  const Forecast with = run("formula", sync + "loader_sample_ms = 100\n");
  const Seconds added = with.report.step_time - without.report.step_time;
  CHECK(added > 0.4);
  CHECK(added <= 0.8 + 1e-9);
  CHECK(exposed_to_loader(with) == doctest::Approx(added).epsilon(0.02));
}

TEST_CASE("loader keys that would say nothing are refused") {
  CHECK(refusal("loader_workers = 4\n").find("loader_workers: loading takes no time without") !=
        std::string::npos);
  CHECK(refusal("loader_prefetch = 4\nloader_sample_ms = 1\n").find("needs loader_workers") !=
        std::string::npos);
  CHECK(refusal("sample_bytes = 4\nloader_sample_ms = 1\n").find("needs storage_gbps") !=
        std::string::npos);
  CHECK(refusal("nccl_timeout = 4\n").find("applies with perturb only") != std::string::npos);
}

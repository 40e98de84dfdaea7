// Whole forecasts: what must hold whatever the figures are.
#include "sim/forecast/forecast.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "sim/forecast/fit.hpp"

using namespace stepcast;

namespace {

Forecast run(const std::string& text) { return forecast(parse_scenario(text, "s.toml")); }

std::string small(const std::string& strategy, int gpus, const std::string& rest = "") {
  return "model = \"gpt2\"\ncluster = \"dgx-h100\"\nmicro_batch = 2\nstrategy = \"" + strategy +
         "\"\ngpus = " + std::to_string(gpus) + "\n" + rest;
}

double sent(const Report& report, CollectiveKind kind) {
  double bytes = 0;
  for (const CollectiveRow& row : report.collectives) {
    if (row.kind == kind) bytes += bytes_sent_intra(row) + bytes_sent_inter(row);
  }
  return bytes;
}

}  // namespace

TEST_CASE("odd numbers of GPUs run under every strategy, in both engines, and add up") {
  for (const StrategyKind kind :
       {StrategyKind::dp, StrategyKind::ddp, StrategyKind::zero1, StrategyKind::zero2,
        StrategyKind::zero3, StrategyKind::fsdp1, StrategyKind::fsdp2, StrategyKind::hsdp}) {
    const std::string strategy(to_string(kind));
    for (const int gpus : {1, 3, 6, 12, 20}) {
      if (kind == StrategyKind::dp && gpus > 8) continue;  // one machine
      CAPTURE(strategy);
      CAPTURE(gpus);
      const Forecast formula = run(small(strategy, gpus, "engine = \"formula\"\n"));
      const Forecast fluid = run(small(strategy, gpus));
      for (const Forecast* f : {&formula, &fluid}) {
        const Report& r = f->report;
        CHECK(r.step_time > 0);
        CHECK(r.split.total() == doctest::Approx(r.step_time).epsilon(1e-9));
        double by_provenance = 0;
        for (const Seconds s : r.split.by_provenance) by_provenance += s;
        CHECK(by_provenance == doctest::Approx(r.step_time).epsilon(1e-9));
        CHECK(r.mfu > 0);
        CHECK(r.mfu < 1);
        CHECK(r.hfu >= r.mfu);
        CHECK(r.fits);
        CHECK(r.tokens_per_step == doctest::Approx(2.0 * 1024 * gpus));
        CHECK((r.collectives.empty() == (gpus == 1)));
      }
      // Contention only ever slows down.
      CHECK(fluid.report.step_time >= formula.report.step_time * (1 - 1e-6));
    }
  }
}

TEST_CASE(
    "ZeRO-2's all-reduce after backward is exposed, whether compute or the host waits for it") {
  // One bucket of 5e8 holds all of GPT-2: one all-reduce, after backward. With overlap_comm it runs
  // on a stream of its own and the host waits for the device: hidden behind nothing all the same.
  const std::string rest = "nic_gbps = 6\noverlap_comm = ";
  const auto parts = [&](const char* overlap, const std::string& cause) {
    const Report report = run(small("zero2", 16, rest + overlap + "\n")).report;
    for (const ExposedPart& part : report.split.exposed) {
      if (part.cause == cause) return std::pair(part.seconds, report.split.host);
    }
    return std::pair(0.0, report.split.host);
  };
  const std::pair<Seconds, Seconds> without = parts("false", "unhidden_all_reduce");
  const std::pair<Seconds, Seconds> with = parts("true", "tail_all_reduce");
  CHECK(without.first > 5e-3);
  // The divide, flatten and keep around it are booked with it.
  CHECK(with.first >= without.first * (1 - 1e-6));
  CHECK(with.first == doctest::Approx(without.first).epsilon(0.15));
  CHECK(without.second < 0.1e-3);
  CHECK(with.second < with.first / 2);  // its own work at the step, 2 ms
}

TEST_CASE("ZeRO-3: the host's event limits hold without overlap_comm, which is then never faster") {
  // Where the host is what holds the step, the waits were missed most.
  const auto small_step = [&](const char* overlap) {
    return run(small("zero3", 16, std::string("nic_gbps = 6\noverlap_comm = ") + overlap + "\n"))
        .report.step_time;
  };
  CHECK(small_step("false") >= small_step("true") * (1 - 1e-9));
  for (const char* layout : {"gpus = 8\n", "nodes = 2\n"}) {
    for (const char* micro_batch : {"1", "4"}) {
      for (const char* engine : {"formula", "fluid"}) {
        const auto step = [&](const char* overlap) {
          return run(std::string("model = \"llama-2-7b\"\ncluster = \"dgx-a100\"\n") +
                     "strategy = \"zero3\"\ncheckpointing = \"full\"\nmicro_batch = " +
                     micro_batch + "\nengine = \"" + engine + "\"\noverlap_comm = " + overlap +
                     "\n" + layout)
              .report.step_time;
        };
        CAPTURE(layout);
        CAPTURE(micro_batch);
        CAPTURE(engine);
        CHECK(step("false") >= step("true") * (1 - 1e-9));
      }
    }
  }
}

TEST_CASE("DDP on 8 GPUs sends 2 (n-1)/n of the fp32 gradients around rings, (1 + 1/n) by NVLS") {
  // gpt2: 124,439,808 parameters, 497,759,232 bytes of fp32 gradients. DGX A100 has no NVLS.
  const std::string text = "model = \"gpt2\"\nstrategy = \"ddp\"\nengine = \"formula\"\n";
  const Report a100 = run(text + "cluster = \"dgx-a100\"\n").report;
  CHECK(sent(a100, CollectiveKind::all_reduce) == doctest::Approx(1.75 * 497'759'232));
  CHECK(sent(a100, CollectiveKind::all_gather) == 0);
  const Report h100 = run(text + "cluster = \"dgx-h100\"\n").report;
  for (const CollectiveRow& row : h100.collectives) {
    CHECK(row.cost.choice.algorithm == NcclAlgorithm::nvls);
  }
  CHECK(sent(h100, CollectiveKind::all_reduce) == doctest::Approx(1.125 * 497'759'232));
}

TEST_CASE("DDP's first step reduces the whole model at once, the steady one in 13 buckets") {
  // E-7: gpt2, fp32 gradients: one bucket of 497,759,232 B, then 13.
  const Report first = run(small("ddp", 8, "engine = \"formula\"\nstep = \"first\"\n")).report;
  REQUIRE(first.collectives.size() == 1);
  CHECK(first.collectives.front().calls == 1);
  CHECK(first.collectives.front().bytes == 497'759'232);
  CHECK(std::count_if(first.notes.begin(), first.notes.end(), [](const std::string& note) {
          return note.find("construction takes") != std::string::npos;
        }) == 1);
  int calls = 0;
  Bytes bytes = 0;
  for (const CollectiveRow& row : run(small("ddp", 8)).report.collectives) {
    calls += row.calls;
    bytes += row.calls * row.bytes;
  }
  CHECK(calls == 13);
  CHECK(bytes == 497'759'232);
  // Nothing of the single reduction overlaps backward.
  CHECK(first.split.exposed_total() > 0.9 * first.collectives.front().mean_seconds);
  // ZeRO-2 has no first step of its own, and says so.
  const Report zero2 = run(small("zero2", 8, "step = \"first\"\n")).report;
  REQUIRE(zero2.notes.size() >= 1);
  CHECK(zero2.notes.back().find("no first step of its own") != std::string::npos);
}

TEST_CASE("HSDP keeps gathers in the node and sends only the all-reduce between nodes") {
  const Report r = run(small("hsdp", 32, "engine = \"formula\"\n")).report;
  for (const CollectiveRow& row : r.collectives) {
    if (row.kind == CollectiveKind::all_reduce) {
      CHECK(bytes_sent_inter(row) > 0);
      CHECK(bytes_sent_intra(row) == 0);
    } else {
      CHECK(bytes_sent_inter(row) == 0);
      CHECK(bytes_sent_intra(row) > 0);
    }
  }
}

TEST_CASE("no collective's bus bandwidth exceeds the links it runs on") {
  for (const int gpus : {8, 64}) {
    const Report r = run(small("fsdp2", gpus)).report;
    for (const CollectiveRow& row : r.collectives) {
      CHECK(row.busbw_gbps > 0);
      CHECK(row.busbw_gbps < 450);  // 18 NVLinks of 25 GB/s
      CHECK(row.mean_seconds >= row.cost.seconds * (1 - 1e-9));
    }
  }
}

TEST_CASE("a step that does not fit says what would make it fit, and that does") {
  const std::string text =
      "model = \"llama-3-8b\"\ncluster = \"dgx-h100\"\nstrategy = \"ddp\"\nseq_len = 2048\n";
  const Forecast f = run(text);
  CHECK_FALSE(f.report.fits);
  CHECK(f.report.memory.front().peak > f.report.capacity);
  REQUIRE(f.report.smallest_change == "strategy zero1");
  const Forecast changed =
      run("model = \"llama-3-8b\"\ncluster = \"dgx-h100\"\nstrategy = \"zero1\"\nseq_len = 2048\n");
  CHECK(changed.report.fits);
  CHECK(changed.report.smallest_change.empty());
}

TEST_CASE("more GPUs are the fewest that fit, in whole nodes: one less than said does not fit") {
  const auto gpus = [](int n) {
    return run(
        "model = \"llama-3-70b\"\ncluster = \"dgx-h100\"\nstrategy = \"fsdp2\"\n"
        "checkpointing = \"full\"\ngpus = " +
        std::to_string(n) + "\n");
  };
  const Forecast f = gpus(16);
  CHECK_FALSE(f.report.fits);
  CHECK(f.report.smallest_change == "24 GPUs instead of 16 (20 would do)");
  CHECK_FALSE(gpus(19).report.fits);
  CHECK(gpus(20).report.fits);
  CHECK(gpus(24).report.fits);
}

TEST_CASE("every machine of the catalog runs by default, in fp16 where it has no bf16") {
  int in_fp16 = 0;
  for (const std::string& machine : catalog_machines()) {
    for (const char* strategy : {"ddp", "fsdp2"}) {
      CAPTURE(machine);
      const Forecast f = run("model = \"gpt2\"\ncluster = \"" + machine + "\"\nstrategy = \"" +
                             std::string(strategy) + "\"\nengine = \"formula\"\n");
      CHECK(f.report.step_time > 0);
      CHECK(f.report.mfu > 0);
      CHECK(f.report.mfu < 1);
      in_fp16 += f.report.precision.find("fp16") != std::string::npos;
    }
  }
  CHECK(in_fp16 >= 8);  // DGX-1V, DGX-2, two TITAN RTX machines
}

TEST_CASE("a recipe that the GPU cannot multiply in is refused with those that it can") {
  CHECK_THROWS_WITH_AS(
      run("model = \"gpt2\"\ncluster = \"dgx-2\"\nstrategy = \"ddp\"\n"
          "precision = \"amp-bf16\"\n"),
      "s.toml:4: precision: 'amp-bf16' needs matrix products in bf16, which NVIDIA "
      "Tesla V100 SXM2 32GB does not have; accepted: amp-fp16, fp16-master, fp32",
      InputError);
}

TEST_CASE("the world size is padded in, and the report says so") {
  // E-15 at scale: a block of llama-3-70b gathers 1,543,536,640 elements on 16,384 GPUs.
  const Forecast f =
      run("model = \"llama-3-70b\"\ncluster = \"dgx-h100\"\nnodes = 2048\nstrategy = \"fsdp2\"\n"
          "seq_len = 8192\ncheckpointing = \"full\"\nengine = \"formula\"\n");
  bool found = false;
  for (const CollectiveRow& row : f.report.collectives) {
    if (row.kind == CollectiveKind::all_gather && row.bytes == 2 * 1'543'536'640ll) found = true;
  }
  CHECK(found);
  bool said = false;
  for (const std::string& note : f.report.notes) {
    said |= note.find("gathers 1543536640 elements, not 855654400") != std::string::npos;
  }
  CHECK(said);
}

TEST_CASE("MFU counts N without the input embedding unless tied") {
  // Llama-3-8B at 8,192: 57.914 GFLOP a token (E-22); at 989.4 TFLOP/s.
  const Forecast f =
      run("model = \"llama-3-8b\"\ncluster = \"dgx-h100\"\nstrategy = \"fsdp2\"\nseq_len = 8192\n"
          "checkpointing = \"full\"\nengine = \"formula\"\n");
  const Report& r = f.report;
  CHECK(r.flops_per_token == doctest::Approx(57.914e9).epsilon(1e-4));
  CHECK(r.tflops_per_gpu == doctest::Approx(8192 / r.step_time * 57.914e9 / 1e12).epsilon(1e-4));
  CHECK(r.mfu == doctest::Approx(r.tflops_per_gpu / r.peak_tflops));
  CHECK_FALSE(r.tied_embeddings);
}

// Performance questions that people asked in public (examples/stories/README.md names the threads).
// The hardware was often not named, so a test checks the sign of the effect and its size within the
// stated tolerance, which is wide where a machine or a model stands in for an unknown one.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/forecast/forecast.hpp"

using namespace stepcast;

namespace {

Scenario story(const std::string& name) {
  return read_scenario(STEPCAST_SOURCE_DIR "/examples/stories/" + name + ".toml");
}

Report told(const Scenario& scenario) {
  Forecast f = forecast(scenario);
  CHECK(f.report.fits);
  return f.report;
}
Report told(const std::string& name) { return told(story(name)); }

int calls(const Report& report, CollectiveKind kind) {
  int sum = 0;
  for (const CollectiveRow& row : report.collectives) {
    if (row.kind == kind) sum += row.calls;
  }
  return sum;
}

// Of the reductions, largest first, each as often as it is called.
std::vector<Bytes> all_reduced(const Report& report) {
  std::vector<Bytes> sizes;
  for (const CollectiveRow& row : report.collectives) {
    if (row.kind != CollectiveKind::all_reduce) continue;
    sizes.insert(sizes.end(), static_cast<std::size_t>(row.calls), row.bytes);
  }
  std::sort(sizes.rbegin(), sizes.rend());
  return sizes;
}

}  // namespace

TEST_CASE(
    "V3: DDP that reduces once a step beats FSDP that gathers every micro-batch, 4 to 5 times") {
  // Measured 8,034 against 1,747 and 1,790 tokens/s/GPU: 4.60 and 4.49 times. GPUs and network are
  // not named, so the factors may be off by a quarter; the order of the three may not.
  const double ddp = told("sharded-accumulation-ddp").tokens_per_second_per_gpu;
  const double fsdp = told("sharded-accumulation-fsdp").tokens_per_second_per_gpu;
  const double grad_op = told("sharded-accumulation-shard-grad-op").tokens_per_second_per_gpu;
  CHECK(ddp / fsdp == doctest::Approx(4.60).epsilon(0.25));
  CHECK(ddp / grad_op == doctest::Approx(4.49).epsilon(0.25));
  CHECK(grad_op > fsdp);  // one all-gather less a micro-batch
}

TEST_CASE("V5: on 4 nodes HSDP beats FULL_SHARD, and loses little from 1 node to 4") {
  // Measured 74.4 against 55.3 samples/s: 1.345 times; 21.7 on one node, so 3.43 times on four.
  // Batch and sequence are not named: within 15 %.
  const Report hsdp = told("hsdp-or-fsdp-hsdp");
  const Report fsdp = told("hsdp-or-fsdp-fsdp");
  CHECK(fsdp.step_time / hsdp.step_time == doctest::Approx(1.345).epsilon(0.15));
  Scenario one = story("hsdp-or-fsdp-hsdp");
  one.nodes = 1;
  const Report alone = told(one);
  // How much of the all-reduce hides depends on the batch: between half of perfect and perfect.
  CHECK(hsdp.tokens_per_second / alone.tokens_per_second > 2.0);
  CHECK(hsdp.tokens_per_second / alone.tokens_per_second < 4.0);
}

TEST_CASE("V9: four micro-batches that all reduce across nodes take four steps' time") {
  // Measured 430.6 s against 110.2 s: 3.91 times. Everything waits for the Ethernet, so the ratio
  // hardly depends on what is not named: within 8 %. The cure defers only the all-reduce.
  const Report every = told("hsdp-accumulation-every");
  Scenario one = story("hsdp-accumulation-every");
  one.accumulation = 1;
  const Report once = told(one);
  CHECK(every.step_time / once.step_time == doctest::Approx(3.91).epsilon(0.08));
  const Report last = told("hsdp-accumulation-last");
  CHECK(last.step_time < 0.4 * every.step_time);
  CHECK(calls(last, CollectiveKind::reduce_scatter) ==
        calls(every, CollectiveKind::reduce_scatter));
  CHECK(4 * calls(last, CollectiveKind::all_reduce) == calls(every, CollectiveKind::all_reduce));
}

TEST_CASE("V11: without its limiter FSDP1 reserves far more memory and gains no time") {
  // Measured 38,555 MB without and 7,164 MB with, 5.4 times; 247.6 against 236.5 ms. The model is
  // not named. The host reads the loss here, so that the units of one step pile up, not those of
  // several: at least 1.5 times, and no gain beyond 2 %. Allocated bytes, counted as the host
  // frees, are the same: only the replay tells.
  const Report with = told("limiter-on");
  const Report without = told("limiter-off");
  REQUIRE(with.memory.front().reserved.has_value());
  REQUIRE(without.memory.front().reserved.has_value());
  const double more = static_cast<double>(without.memory.front().reserved->peak) /
                      static_cast<double>(with.memory.front().reserved->peak);
  CHECK(more > 1.5);
  CHECK(more < 8);
  CHECK(without.step_time > 0.98 * with.step_time);
  CHECK(without.memory.front().peak == with.memory.front().peak);
}

TEST_CASE("V18: what DeepSpeed's buckets take, by differences") {
  // 2 bytes an element, two buckets with overlap_comm:
  //   5e8 -> 1e8      2 * 2 * 4e8 B = 1,526 MiB   measured 21,152 - 19,625 = 1,527
  //   1e8 -> 1e7      2 * 2 * 9e7 B =   343 MiB            19,625 - 19,284 =   341
  //   overlap off     one bucket:       954 MiB            21,152 - 20,198 =   954
  //   non-contiguous  no bucket:      1,907 MiB            21,152 - 19,247 = 1,905
  const auto held = [](std::int64_t elements, bool overlap, bool contiguous) {
    Scenario s = story("zero2-buckets");
    s.reduce_bucket_size = elements;
    s.overlap_comm = overlap;
    s.contiguous_gradients = contiguous;
    const Schedule schedule = build_schedule(resolve(s).step);
    Bytes bytes = 0;
    for (const Buffer& buffer : schedule.buffers) {
      if (buffer.name.str().starts_with("ipg_bucket")) bytes += buffer.bytes;
    }
    return bytes;
  };
  const Bytes five = held(500'000'000, true, true);
  const auto mib_less = [&](Bytes now) { return static_cast<double>(five - now) / mib; };
  CHECK(mib_less(held(100'000'000, true, true)) == doctest::Approx(1526).epsilon(0.001));
  CHECK(mib_less(held(10'000'000, true, true)) == doctest::Approx(1526 + 343).epsilon(0.001));
  CHECK(mib_less(held(500'000'000, false, true)) == doctest::Approx(954).epsilon(0.001));
  CHECK(mib_less(held(500'000'000, true, false)) == doctest::Approx(1907).epsilon(0.001));
}

TEST_CASE(
    "V20: ZeRO-3 gathers for every linear layer and is slower than FSDP2, leaf modules cure it") {
  // A block of Llama has 7 linear layers and 2 norms (these stay gathered), and FSDP2 one gather a
  // block. The thread gives no times: the sign, and at least 10 %.
  const Report zero3 = told("zero3-gathers");
  const Report leaf = told("zero3-gathers-leaf");
  const Report fsdp2 = told("zero3-gathers-fsdp");
  const int many = calls(zero3, CollectiveKind::all_gather);
  const int few = calls(fsdp2, CollectiveKind::all_gather);
  CHECK(many > 2 * few);  // the prefetcher joins what 5e7 elements hold
  CHECK(calls(leaf, CollectiveKind::all_gather) < 2 * few);
  CHECK(zero3.step_time > 1.1 * fsdp2.step_time);
  CHECK(zero3.step_time > 1.1 * leaf.step_time);
  CHECK(leaf.step_time > fsdp2.step_time);
}

TEST_CASE("V34: ResNet-18's buckets by PyTorch 1.13's rule at 25 and 35 MiB, by today's at 35") {
  // 11,689,512 fp32 parameters, 46,758,048 B. The head alone, 513,000 x 4 B, is above the 1 MiB of
  // the older rule's first bucket. Bytes, so exact.
  const auto at = [](double cap, const char* rule) {
    Scenario s = story("ddp-buckets-resnet-18");
    s.bucket_cap_mb = cap;
    s.ddp_bucket_rule = rule;
    return all_reduced(told(s));
  };
  CHECK(all_reduced(told("ddp-buckets-resnet-18")) ==
        std::vector<Bytes>{28'852'224, 15'853'824, 2'052'000});
  CHECK(at(35, "pytorch-1.13") == std::vector<Bytes>{38'297'600, 6'408'448, 2'052'000});
  CHECK(at(35, "current") == std::vector<Bytes>{37'988'256, 8'769'792});
}

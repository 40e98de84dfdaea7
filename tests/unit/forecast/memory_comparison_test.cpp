// E-19: 7e9 parameters on 8 GPUs, 112 / 38.5 / 26.25 / 14 GB, beside what the frameworks keep; and
// the same table of a real model.

#include "sim/forecast/memory_comparison.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"

using namespace stepcast;

namespace {

Scenario of_params(double count, std::int64_t gpus) {
  Scenario s;
  s.params = count;
  s.gpus = gpus;
  return s;
}

const MemoryComparisonRow& find(const MemoryComparison& c, const std::string& strategy) {
  for (const MemoryComparisonRow& row : c.rows) {
    if (row.strategy == strategy) return row;
  }
  FAIL("no row " << strategy);
  return c.rows.front();
}

}  // namespace

TEST_CASE("E-19: the textbook column of 7e9 parameters on 8 GPUs") {
  const MemoryComparison c = memory_comparison(of_params(7e9, 8));
  CHECK(find(c, "ddp").textbook == 112'000'000'000);
  CHECK(find(c, "zero1").textbook == 38'500'000'000);
  CHECK(find(c, "zero2").textbook == 26'250'000'000);
  CHECK(find(c, "zero3").textbook == 14'000'000'000);
  CHECK(find(c, "fsdp1 FULL_SHARD").textbook == 14'000'000'000);
  CHECK(find(c, "fsdp1 SHARD_GRAD_OP").textbook == 26'250'000'000);
  CHECK(find(c, "fsdp2").textbook == 14'000'000'000);
  CHECK(find(c, "hsdp").textbook == 14'000'000'000);
}

TEST_CASE("as it runs: DDP's buckets, SHARD_GRAD_OP from 14 to 28 GB, DeepSpeed's buckets") {
  const MemoryComparison c = memory_comparison(of_params(7e9, 8));
  CHECK(find(c, "ddp").framework == 140'000'000'000);  // 16 and buckets of 4 bytes
  CHECK(find(c, "ddp").in_step == 154'000'000'000);    // and 2 of weight copies
  CHECK(find(c, "fsdp1 SHARD_GRAD_OP").framework == 14'000'000'000);
  CHECK(find(c, "fsdp1 SHARD_GRAD_OP").in_step == 28'000'000'000);
  // One bucket of 5e8 16-bit elements and its flat copy are 2 GB; the fp32 slice of the step is
  // 4 x 7e9 / 8 = 3.5 GB and the flat copy that it is made from 1.75 GB, at another moment.
  CHECK(find(c, "zero1").in_step == 38'500'000'000 + 3'500'000'000 + 1'750'000'000);
  CHECK(find(c, "zero2").in_step == 26'250'000'000 + 3'500'000'000 + 1'750'000'000);
  CHECK(find(c, "zero3").in_step == 14'000'000'000 + 2 * 1'000'000'000 + 2'000'000'000);
  for (const MemoryComparisonRow& row : c.rows) {
    CAPTURE(row.strategy);
    CHECK(row.in_step >= row.framework);
    CHECK(!row.reason.empty());
    CHECK(!row.peak);  // a parameter count has no layers
  }
}

TEST_CASE("hsdp keeps 16 bytes over its shard group, however many groups there are") {
  Scenario s = of_params(7e9, 64);
  s.shard_group = 8;
  CHECK(find(memory_comparison(s), "hsdp").textbook == 14'000'000'000);
  CHECK(find(memory_comparison(s), "fsdp2").textbook == 1'750'000'000);
}

TEST_CASE("a model with a machine has peaks, above its states, and units") {
  Scenario s;
  s.model = "llama-2-7b";
  s.cluster = "dgx-h100";
  s.checkpointing = "full";
  const MemoryComparison c = memory_comparison(s);
  CHECK(c.unit_parameters == 202'383'360);  // E-20
  CHECK(c.root_parameters == 262'148'096);
  // 10 bytes of the unit, 2 of the root: 2.0238 + 0.5243 GB.
  CHECK(find(c, "fsdp2").in_step - find(c, "fsdp2").framework ==
        10 * 202'383'360 + 2 * std::int64_t{262'148'096});
  for (const MemoryComparisonRow& row : c.rows) {
    CAPTURE(row.strategy);
    CHECK(row.not_built == "");
    REQUIRE(row.peak.has_value());
    // Gradients are freed between steps and optimizer moments stay: three quarters at the least.
    CHECK(*row.peak > row.framework / 4 * 3);
  }
  CHECK(*find(c, "fsdp2").peak < *find(c, "zero2").peak);
  CHECK(*find(c, "zero2").peak < *find(c, "ddp").peak);
  CHECK(c.host_capacity > 0);
}

TEST_CASE("keys that change nothing and contradictions are refused at their place") {
  Scenario s = of_params(7e9, 8);
  s.strategy = "ddp";
  s.said["strategy"] = {"--strategy", 0, ""};
  CHECK_THROWS_WITH_AS(memory_comparison(s), doctest::Contains("--strategy"), InputError);
  Scenario both = of_params(7e9, 8);
  both.model = "gpt2";
  CHECK_THROWS_AS(memory_comparison(both), InputError);
  Scenario sequence = of_params(7e9, 8);
  sequence.seq_len = 2048;
  CHECK_THROWS_WITH_AS(memory_comparison(sequence), doctest::Contains("needs a model"), InputError);
  Scenario no_gpus;
  no_gpus.params = 7e9;
  CHECK_THROWS_WITH_AS(memory_comparison(no_gpus), doctest::Contains("GPUs"), InputError);
  Scenario group = of_params(7e9, 8);
  group.shard_group = 3;
  CHECK_THROWS_WITH_AS(memory_comparison(group), doctest::Contains("divide"), InputError);
}

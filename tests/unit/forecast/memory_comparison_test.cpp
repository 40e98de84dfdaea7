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

TEST_CASE("four micro-batches: no_sync keeps whole gradients, 2 bytes under FSDP1, 4 under FSDP2") {
  // 7e9 parameters on 8 GPUs. FSDP1 keeps 16-bit gradients, 14 GB; FSDP2 fp32 ones, 28 GB.
  Scenario s = of_params(7e9, 8);
  const MemoryComparison one = memory_comparison(s);
  s.accumulation = 4;
  const MemoryComparison four = memory_comparison(s);
  struct Row {
    const char* strategy;
    Bytes one, four;
  };
  const Row rows[] = {{"fsdp1 FULL_SHARD", 14'000'000'000, 28'000'000'000},
                      {"fsdp1 SHARD_GRAD_OP", 28'000'000'000, 42'000'000'000},
                      {"fsdp2", 14'000'000'000, 42'000'000'000},
                      {"hsdp", 14'000'000'000, 42'000'000'000},
                      // Whole gradients are among the states already, or there is no no_sync.
                      {"fsdp1 NO_SHARD", 126'000'000'000, 126'000'000'000},
                      {"ddp", 154'000'000'000, 154'000'000'000},
                      {"zero2", 31'500'000'000, 31'500'000'000}};
  for (const Row& row : rows) {
    CAPTURE(row.strategy);
    CHECK(find(one, row.strategy).in_step == row.one);
    CHECK(find(four, row.strategy).in_step == row.four);
    CHECK(find(four, row.strategy).framework == find(one, row.strategy).framework);
  }
  CHECK(find(four, "fsdp1 FULL_SHARD").reason.find("kept whole, 2Ψ") != std::string::npos);
  CHECK(find(four, "fsdp2").reason.find("kept whole, 4Ψ") != std::string::npos);
  CHECK(find(one, "fsdp2").reason.find("kept whole") == std::string::npos);
}

TEST_CASE("nn.DataParallel: GPU 0 holds 16 bytes, 20 with its own gradients, 24 when it adds up") {
  Scenario s = of_params(7e9, 8);
  CHECK(find(memory_comparison(s), "dp").textbook == 112'000'000'000);
  CHECK(find(memory_comparison(s), "dp").framework == 112'000'000'000);
  CHECK(find(memory_comparison(s), "dp").in_step == 140'000'000'000);
  s.accumulation = 2;  // the first micro-batch's sum waits beside both
  CHECK(find(memory_comparison(s), "dp").in_step == 168'000'000'000);
  // One process does not reach another node.
  const MemoryComparison nodes = memory_comparison(of_params(7e9, 16));
  for (const MemoryComparisonRow& row : nodes.rows) CHECK(row.strategy != "dp");
  CHECK(to_text(nodes).find("no row: dp (one process, so one node)") != std::string::npos);
}

TEST_CASE("hpZ: a second shard of 2 bytes over the group, 8 of 64 GPUs") {
  const MemoryComparison c = memory_comparison(of_params(7e9, 64));
  // 16 x 7e9 / 64, and 2 x 7e9 / 8.
  CHECK(find(c, "zero3").textbook == 1'750'000'000);
  CHECK(find(c, "zero3 hpZ").textbook == 3'500'000'000);
  CHECK(find(c, "zero3 hpZ").framework == 1'750'000'000);  // it is dropped at the step
  CHECK(find(c, "zero3 hpZ").in_step == find(c, "zero3").in_step + 1'750'000'000);
  Scenario s = of_params(7e9, 64);
  s.shard_group = 4;
  CHECK(find(memory_comparison(s), "zero3 hpZ").in_step ==
        find(c, "zero3").in_step + 3'500'000'000);
  // A group of all GPUs is zero3's own sharding.
  const MemoryComparison node = memory_comparison(of_params(7e9, 8));
  for (const MemoryComparisonRow& row : node.rows) CHECK(row.strategy != "zero3 hpZ");
  CHECK(to_text(node).find("no row: zero3 hpZ") != std::string::npos);
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

TEST_CASE("peaks say the same of accumulation, of GPU 0 and of hpZ's shard") {
  Scenario s;
  s.model = "gpt2-xl";
  s.cluster = "dgx-h100";
  s.checkpointing = "full";
  const MemoryComparison one = memory_comparison(s);
  s.accumulation = 2;
  const MemoryComparison two = memory_comparison(s);
  const auto psi = static_cast<double>(one.question.parameters);
  const auto more = [&](const char* strategy) {
    REQUIRE(find(one, strategy).peak.has_value());
    REQUIRE(find(two, strategy).peak.has_value());
    return static_cast<double>(*find(two, strategy).peak - *find(one, strategy).peak) / psi;
  };
  // Less what the peak of one micro-batch has of gradients: a unit's, and shards.
  CHECK(more("fsdp2") == doctest::Approx(4).epsilon(0.15));
  CHECK(more("fsdp1 FULL_SHARD") == doctest::Approx(2).epsilon(0.15));
  CHECK(find(one, "dp").peak_role == "gpu0");
  s.accumulation = 1;
  s.nodes = 2;
  const MemoryComparison nodes = memory_comparison(s);
  REQUIRE(find(nodes, "zero3 hpZ").peak.has_value());
  const Bytes shard = *find(nodes, "zero3 hpZ").peak - *find(nodes, "zero3").peak;
  CHECK(static_cast<double>(shard) / psi == doctest::Approx(2.0 / 8).epsilon(0.05));
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

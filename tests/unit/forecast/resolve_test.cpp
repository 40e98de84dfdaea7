#include "sim/forecast/resolve.hpp"

#include <doctest/doctest.h>

using namespace stepcast;

namespace {

Scenario base(const std::string& rest) {
  return parse_scenario("model = \"gpt2\"\ncluster = \"dgx-h100\"\n" + rest, "s.toml");
}

std::string refusal(const std::string& rest) {
  try {
    resolve(base(rest));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("each strategy gets its mesh") {
  CHECK(resolve(base("strategy = \"ddp\"\nnodes = 2\n")).step.mesh.replicate == 16);
  CHECK(resolve(base("strategy = \"fsdp2\"\nnodes = 2\n")).step.mesh.shard == 16);
  const Mesh hsdp = resolve(base("strategy = \"hsdp\"\nnodes = 2\n")).step.mesh;
  CHECK(hsdp.replicate == 2);
  CHECK(hsdp.shard == 8);
  const Mesh four = resolve(base("strategy = \"hsdp\"\nnodes = 2\nshard_group = 4\n")).step.mesh;
  CHECK(four.replicate == 4);
  CHECK(four.shard == 4);
}

TEST_CASE("a shard group that nobody chose divides the world and stays in a node") {
  CHECK(default_shard_group(1, 8) == 1);
  CHECK(default_shard_group(3, 8) == 3);
  CHECK(default_shard_group(6, 8) == 6);
  CHECK(default_shard_group(12, 8) == 4);
  CHECK(default_shard_group(20, 8) == 4);
  CHECK(default_shard_group(128, 8) == 8);
  const Resolved r = resolve(base("strategy = \"hsdp\"\ngpus = 12\n"));
  REQUIRE(r.notes.size() == 1);
  CHECK(r.notes.front().find("shard group 4") != std::string::npos);
}

TEST_CASE("a shard group that does not divide the world is refused with those that do") {
  const std::string message = refusal("strategy = \"hsdp\"\ngpus = 12\nshard_group = 8\n");
  CHECK(message.find("s.toml:5") != std::string::npos);
  CHECK(message.find("accepted: 1, 2, 3, 4, 6, 12") != std::string::npos);
}

TEST_CASE(
    "FSDP1's sharding strategies get their meshes, and mean fsdp1 where nothing else is said") {
  struct Row {
    const char* name;
    ShardingStrategy sharding;
    Mesh mesh;
  };
  const Row rows[] = {{"FULL_SHARD", ShardingStrategy::full_shard, {1, 16}},
                      {"SHARD_GRAD_OP", ShardingStrategy::shard_grad_op, {1, 16}},
                      {"NO_SHARD", ShardingStrategy::no_shard, {16, 1}},
                      {"HYBRID_SHARD", ShardingStrategy::hybrid_shard, {2, 8}},
                      {"_HYBRID_SHARD_ZERO2", ShardingStrategy::hybrid_shard_zero2, {2, 8}}};
  for (const Row& row : rows) {
    const std::string said = std::string("nodes = 2\nsharding_strategy = \"") + row.name + "\"\n";
    for (const std::string& strategy : {std::string(), std::string("strategy = \"fsdp1\"\n")}) {
      const Resolved r = resolve(base(said + strategy));
      CHECK(r.step.strategy.kind == StrategyKind::fsdp1);
      CHECK(r.step.strategy.sharding == row.sharding);
      CHECK(r.step.mesh.replicate == row.mesh.replicate);
      CHECK(r.step.mesh.shard == row.mesh.shard);
    }
    CHECK(refusal(said + "strategy = \"ddp\"\n").find("applies to fsdp1 only") !=
          std::string::npos);
  }
}

TEST_CASE("what is missing or unknown is named where it was said") {
  CHECK(refusal("nodes = 1\n").find("no strategy given") != std::string::npos);
  Scenario s = base("strategy = \"ddp\"\n");
  s.model = "gpt3";
  CHECK_THROWS_WITH_AS(resolve(s), doctest::Contains("s.toml:1"), InputError);
  s = base("strategy = \"ddp\"\n");
  s.cluster = "dgx-h10";
  CHECK_THROWS_WITH_AS(resolve(s), doctest::Contains("did you mean 'dgx-h100'"), InputError);
  s.cluster.reset();
  CHECK_THROWS_WITH_AS(resolve(s), doctest::Contains("no machine given"), InputError);
}

TEST_CASE("variables of NCCL that change nothing are among the report's notes") {
  const Resolved r =
      resolve(base("strategy = \"ddp\"\nnccl = \"NCCL_DEBUG=INFO NCCL_ALGO=Ring\"\n"));
  REQUIRE(r.notes.size() == 1);
  CHECK(r.notes.front() == "nccl: nothing here depends on NCCL_DEBUG (what is logged)");
  CHECK(resolve(base("strategy = \"ddp\"\nnccl = \"NCCL_ALGO=Ring\"\n")).notes.empty());
}

TEST_CASE("an option of another strategy is refused, not ignored") {
  CHECK(refusal("strategy = \"fsdp2\"\nbucket_cap_mb = 25\n").find("applies to ddp only") !=
        std::string::npos);
  CHECK(refusal("strategy = \"ddp\"\nreshard_after_forward = true\n").find("s.toml:4") !=
        std::string::npos);
  CHECK(refusal("strategy = \"fsdp2\"\nshard_group = 8\n").find("hsdp") != std::string::npos);
}

TEST_CASE("the profile decides what is fused and the precision what is autocast") {
  const Resolved eager = resolve(base("strategy = \"ddp\"\n"));
  CHECK_FALSE(eager.step.workload.fused_elementwise);
  CHECK(eager.step.precision.name == default_precision(StrategyKind::ddp));
  CHECK(eager.step.workload.autocast_weights == eager.step.precision.autocast);
  const Resolved compiled = resolve(base("strategy = \"ddp\"\nprofile = \"pytorch-compile\"\n"));
  CHECK(compiled.step.workload.fused_elementwise);
  CHECK(eager.step.workload.seq_len == 1024);  // gpt2's own
}

TEST_CASE("gathers within groups make them the mesh's inner axis, 1 is off and all is everything") {
  const auto step = [](const std::string& rest) {
    return resolve(base(rest + "nodes = 2\n")).step;
  };
  const TrainingStep pairs = step("strategy = \"fsdp2\"\nreshard_after_forward = 8\n");
  CHECK(pairs.mesh.replicate == 2);
  CHECK(pairs.mesh.shard == 8);
  CHECK(pairs.strategy.reshard_group == 8);
  const TrainingStep one = step("strategy = \"fsdp2\"\nreshard_after_forward = 1\n");
  CHECK_FALSE(one.strategy.reshard_after_forward);
  CHECK(one.strategy.reshard_group == 0);
  const TrainingStep all = step("strategy = \"fsdp2\"\nreshard_after_forward = 16\n");
  CHECK(all.strategy.reshard_after_forward);
  CHECK(all.strategy.reshard_group == 0);
  CHECK(all.mesh.shard == 16);
  CHECK_FALSE(
      step("strategy = \"fsdp2\"\nreshard_after_forward = false\n").strategy.reshard_after_forward);
  const TrainingStep hpz = step("strategy = \"zero3\"\nzero_hpz_partition_size = 8\n");
  CHECK(hpz.strategy.hpz_group == 8);
  CHECK(hpz.mesh.replicate == 2);
  CHECK(step("strategy = \"zero3\"\nzero_hpz_partition_size = 1\n").mesh.replicate == 1);
}

TEST_CASE("the optimizer is the scenario's or else the profile's") {
  CHECK(resolve(base("strategy = \"ddp\"\n")).step.optimizer == OptimizerKind::adamw_fused);
  CHECK(resolve(base("strategy = \"ddp\"\noptimizer = \"sgd\"\n")).step.optimizer ==
        OptimizerKind::sgd);
  CHECK(refusal("strategy = \"ddp\"\nkeep_last_block = true\n").find("fsdp2, hsdp") !=
        std::string::npos);
  CHECK(refusal("strategy = \"fsdp2\"\nwrap = \"size\"\n").find("fsdp1") != std::string::npos);
  CHECK(refusal("strategy = \"fsdp1\"\nwrap = \"torchtitan\"\n").find("fsdp2") !=
        std::string::npos);
  CHECK(refusal("strategy = \"fsdp1\"\nwrap_min_params = 5\n").find("needs wrap size") !=
        std::string::npos);
}

TEST_CASE("when ZeRO reduces is DeepSpeed's to say, by stage") {
  const auto text = [](const char* strategy, const char* sync) {
    return std::string("model = \"gpt2\"\ncluster = \"dgx-h100\"\nstrategy = \"") + strategy +
           "\"\naccumulation = 2\naccumulation_sync = \"" + sync + "\"\n";
  };
  CHECK_NOTHROW(resolve(parse_scenario(text("zero1", "last"), "s.toml")));
  CHECK_NOTHROW(resolve(parse_scenario(text("zero2", "every"), "s.toml")));
  CHECK_THROWS_WITH_AS(resolve(parse_scenario(text("zero1", "every"), "s.toml")),
                       "s.toml:5: accumulation_sync: 'every' is not accepted under zero1, which "
                       "reduces at the accumulation boundary; accepted: last",
                       InputError);
  for (const char* strategy : {"zero2", "zero3"}) {
    CHECK_THROWS_AS(resolve(parse_scenario(text(strategy, "last"), "s.toml")), InputError);
  }
}

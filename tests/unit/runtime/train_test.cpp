// After five AdamW steps every strategy holds the parameters of one rank on the whole batch.

#include "sim/memory/ledger.hpp"
#include "tests/unit/runtime/training.hpp"

namespace stepcast {
namespace {

using testing::Case;
using testing::train;

constexpr double proof = 1e-12;  // of the tensor's norm, float64

std::string name(const Case& c) {
  return std::string(to_string(c.strategy.kind)) + " " + std::to_string(c.mesh.replicate) + "x" +
         std::to_string(c.mesh.shard) + " accumulation " + std::to_string(c.accumulation) +
         (c.checkpointing == Checkpointing::full ? " checkpointed" : "");
}

void expect_equal(Case c) {
  for (const int accumulation : {1, 3}) {
    for (const Checkpointing checkpointing : {Checkpointing::none, Checkpointing::full}) {
      c.accumulation = accumulation;
      c.checkpointing = checkpointing;
      CAPTURE(name(c));
      CHECK(train(c) <= proof);
    }
  }
}

constexpr int worlds[] = {1, 2, 3, 4, 8};

TEST_CASE("DDP trains as one rank does") {
  for (const int world : worlds) {
    Case c;
    c.mesh = {world, 1};
    c.strategy.bucket_cap_mib = 0.0005;  // 524 bytes: several buckets
    expect_equal(c);
  }
}

TEST_CASE("FSDP2 trains as one rank does") {
  for (const int world : worlds) {
    Case c;
    c.strategy.kind = StrategyKind::fsdp2;
    c.mesh = {1, world};
    expect_equal(c);
  }
}

TEST_CASE("HSDP trains as one rank does") {
  for (const Mesh mesh : {Mesh{2, 1}, Mesh{1, 3}, Mesh{2, 2}, Mesh{4, 2}, Mesh{2, 4}}) {
    Case c;
    c.strategy.kind = StrategyKind::hsdp;
    c.mesh = mesh;
    expect_equal(c);
  }
}

TEST_CASE("FSDP1 trains as one rank does under each sharding strategy") {
  for (const ShardingStrategy sharding :
       {ShardingStrategy::full_shard, ShardingStrategy::shard_grad_op,
        ShardingStrategy::no_shard}) {
    for (const int world : worlds) {
      Case c;
      c.strategy.kind = StrategyKind::fsdp1;
      c.strategy.sharding = sharding;
      c.mesh = sharding == ShardingStrategy::no_shard ? Mesh{world, 1} : Mesh{1, world};
      CAPTURE(std::string(to_string(sharding)));
      expect_equal(c);
    }
  }
}

TEST_CASE("FSDP1's hybrid strategies train as one rank does") {
  for (const ShardingStrategy sharding :
       {ShardingStrategy::hybrid_shard, ShardingStrategy::hybrid_shard_zero2}) {
    for (const Mesh mesh : {Mesh{2, 2}, Mesh{2, 4}, Mesh{3, 1}}) {
      Case c;
      c.strategy.kind = StrategyKind::fsdp1;
      c.strategy.sharding = sharding;
      c.mesh = mesh;
      CAPTURE(std::string(to_string(sharding)));
      expect_equal(c);
    }
  }
}

TEST_CASE("ZeRO-1 and ZeRO-2 train as one rank does") {
  for (const StrategyKind kind : {StrategyKind::zero1, StrategyKind::zero2}) {
    for (const int world : worlds) {
      Case c;
      c.strategy.kind = kind;
      c.strategy.reduce_bucket_elements = 150;
      c.mesh = {world, 1};
      expect_equal(c);
    }
  }
}

TEST_CASE("ZeRO-3 trains as one rank does") {
  for (const int world : worlds) {
    Case c;
    c.strategy.kind = StrategyKind::zero3;
    c.strategy.reduce_bucket_elements = 150;
    c.strategy.persistence_threshold = 10;  // the biases stay gathered
    c.strategy.prefetch_bucket_elements = 100;
    c.strategy.max_reuse_distance = 100;
    c.mesh = {1, world};
    expect_equal(c);
  }
}

// ---- Options that change the program ------------------------------------------------------------

Case of(StrategyKind kind, Mesh mesh, int accumulation = 2) {
  Case c;
  c.strategy.kind = kind;
  c.mesh = mesh;
  c.accumulation = accumulation;
  c.strategy.reduce_bucket_elements = 150;
  c.strategy.persistence_threshold = 10;
  c.strategy.bucket_cap_mib = 0.0005;
  return c;
}

TEST_CASE("DDP: buckets as views, a reduction in every micro-batch, the first steps, a tied head") {
  for (const bool view : {false, true}) {
    for (const bool first : {false, true}) {
      for (const AccumulationSync sync : {AccumulationSync::last, AccumulationSync::every}) {
        for (const bool tied : {false, true}) {
          Case c = of(StrategyKind::ddp, {4, 1}, view && sync == AccumulationSync::every ? 1 : 2);
          c.strategy.gradient_as_bucket_view = view;
          c.strategy.accumulation_sync = sync;
          c.first_step = first;
          c.tied = tied;
          CAPTURE(view);
          CAPTURE(first);
          CAPTURE(tied);
          CAPTURE(std::string(to_string(sync)));
          if (view || sync == AccumulationSync::last) CHECK(train(c) <= proof);
        }
      }
    }
  }
}

TEST_CASE("FSDP2 and HSDP: what is kept, what is reduced when, and a tied head") {
  for (const AccumulationSync sync :
       {AccumulationSync::last, AccumulationSync::every, AccumulationSync::reduce_scatter_every}) {
    for (const bool keep : {false, true}) {
      for (const bool tied : {false, true}) {
        Case c = of(StrategyKind::hsdp, {2, 2}, 3);
        c.strategy.accumulation_sync = sync;
        c.strategy.reshard_after_forward = !keep;
        c.strategy.reshard_after_backward = !keep;
        c.strategy.separate_reduce_scatter_group = keep;
        c.tied = tied;
        CAPTURE(std::string(to_string(sync)));
        CAPTURE(keep);
        CHECK(train(c) <= proof);
      }
    }
  }
  Case c = of(StrategyKind::fsdp2, {1, 4});
  c.strategy.wrap = WrapPolicy::torchtitan;
  CHECK(train(c) <= proof);
}

TEST_CASE("FSDP1: prefetch modes, without limiter and alignment, the first steps, every sync") {
  for (const BackwardPrefetchMode mode :
       {BackwardPrefetchMode::pre, BackwardPrefetchMode::post, BackwardPrefetchMode::none}) {
    for (const bool other : {false, true}) {
      Case c = of(StrategyKind::fsdp1, {1, 4});
      c.strategy.backward_prefetch = mode;
      c.strategy.forward_prefetch = other;
      c.strategy.limit_all_gathers = !other;
      c.strategy.use_orig_params = !other;
      c.strategy.accumulation_sync = other ? AccumulationSync::every : AccumulationSync::last;
      c.first_step = other;
      CAPTURE(std::string(to_string(mode)));
      CHECK(train(c) <= proof);
    }
  }
}

TEST_CASE("ZeRO-1 and ZeRO-2: overlap, gradients left in place, one reduce to each owner") {
  for (const StrategyKind kind : {StrategyKind::zero1, StrategyKind::zero2}) {
    for (const bool overlap : {false, true}) {
      for (const bool contiguous : {false, true}) {
        for (const bool multi : {false, true}) {
          Case c = of(kind, {4, 1});
          c.strategy.overlap_comm = overlap;
          c.strategy.contiguous_gradients = contiguous;
          c.strategy.multi_rank_all_reduce = multi;
          CAPTURE(name(c));
          CAPTURE(overlap);
          CAPTURE(contiguous);
          CAPTURE(multi);
          CHECK(train(c) <= proof);
        }
      }
    }
  }
}

TEST_CASE("ZeRO-3: without overlap, everything persistent, nothing, layers as one module") {
  for (const std::int64_t threshold : {0, 10, 100'000}) {
    for (const bool overlap : {false, true}) {
      for (const bool leaf : {false, true}) {
        Case c = of(StrategyKind::zero3, {1, 4});
        c.strategy.persistence_threshold = threshold;
        c.strategy.overlap_comm = overlap;
        c.strategy.leaf_layers = leaf;
        c.first_step = leaf;
        CAPTURE(threshold);
        CAPTURE(overlap);
        CAPTURE(leaf);
        CHECK(train(c) <= proof);
      }
    }
  }
}

// ---- Order and precision ------------------------------------------------------------------------

std::vector<Case> one_of_each() {
  std::vector<Case> list{of(StrategyKind::ddp, {3, 1}),   of(StrategyKind::zero1, {3, 1}),
                         of(StrategyKind::zero2, {3, 1}), of(StrategyKind::zero3, {1, 3}),
                         of(StrategyKind::fsdp1, {1, 3}), of(StrategyKind::fsdp2, {1, 3}),
                         of(StrategyKind::hsdp, {2, 2})};
  Case hybrid = of(StrategyKind::fsdp1, {2, 2});
  hybrid.strategy.sharding = ShardingStrategy::hybrid_shard;
  list.push_back(hybrid);
  return list;
}

TEST_CASE("no interleaving that a schedule leaves open changes what it computes") {
  for (const Case& c : one_of_each()) {
    CAPTURE(name(c));
    for (std::uint64_t seed = 0; seed < 10; ++seed) CHECK(train(c, false, seed) <= proof);
  }
}

TEST_CASE("a run allocates what the ledger counts") {
  for (const Case& c : one_of_each()) {
    CAPTURE(name(c));
    const Schedule schedule = build_schedule(testing::training_step(c));
    runtime::Trainer trainer(schedule, testing::small_shape(), testing::training_data(c));
    runtime::ExecuteOptions options;
    options.steps = trainer.executed_steps();
    const runtime::Execution run = runtime::execute(schedule, trainer, options);
    const Bytes peak = memory_ledger(schedule).at(0).peak.total;
    for (const Bytes bytes : run.peak) CHECK(bytes == peak);
  }
}

TEST_CASE("in float32 parameters stay within 1e-6 of one rank's") {
  for (const Case& c : one_of_each()) {
    CAPTURE(name(c));
    CHECK(train(c, true, 1, false) <= 1e-6);
  }
}

TEST_CASE("16-bit recipes: with fp32 parameters or masters within 1 %, all 16 bits within 5 %") {
  for (Case c : one_of_each()) {
    for (const std::string& recipe : precision_recipes_of(c.strategy.kind)) {
      if (recipe == "fp32" || recipe == "tf32") continue;
      c.precision = recipe;
      CAPTURE(name(c));
      CAPTURE(recipe);
      const double difference = train(c, true, 1, false);
      CHECK(difference <= (recipe == "bf16-pure" ? 0.05 : 0.01));
      CHECK(difference > 1e-6);  // it does round
    }
  }
}

}  // namespace
}  // namespace stepcast

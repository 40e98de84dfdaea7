// The options of each strategy change its program, not what it computes: after five steps, the
// parameters of one rank.

#include "tests/unit/runtime/training.hpp"

namespace stepcast {
namespace {

using testing::Case;
using testing::name;
using testing::of;
using testing::one_of_each;
using testing::proof;
using testing::train;

TEST_CASE("every optimizer, with and without clipping, from the first step on or not") {
  for (Case c : one_of_each()) {
    for (const OptimizerKind optimizer :
         {OptimizerKind::adamw_fused, OptimizerKind::adamw_foreach, OptimizerKind::adamw_unfused,
          OptimizerKind::sgd_momentum, OptimizerKind::sgd}) {
      for (const bool clip : {false, true}) {
        for (const bool first : {false, true}) {
          c.optimizer = optimizer;
          c.clip = clip;
          c.first_step = first;
          CAPTURE(name(c));
          CHECK(train(c) <= proof);
        }
      }
    }
  }
}

TEST_CASE("clipping scales every update: it is not the run without it") {
  Case c = of(StrategyKind::ddp, {2, 1});
  c.clip = true;
  const runtime::Tensors clipped = testing::one_rank(c).parameters;
  for (const double norm : testing::one_rank(c).norms) CHECK(std::sqrt(norm) > testing::max_norm);
  c.clip = false;
  c.optimizer = OptimizerKind::sgd;  // Adam does not see the scale of its gradients
  const runtime::Tensors free = testing::one_rank(c).parameters;
  CHECK(runtime::relative_difference(clipped[1], free[1]) > 1e-3);
}

TEST_CASE("checkpoints outside the unit, and of attention alone") {
  for (Case c : one_of_each()) {
    for (const Checkpointing checkpointing : {Checkpointing::full, Checkpointing::selective}) {
      for (const bool first : {false, true}) {
        c.checkpointing = checkpointing;
        c.strategy.checkpoint_outside_unit = checkpointing == Checkpointing::full;
        c.first_step = first;
        CAPTURE(name(c));
        CHECK(train(c) <= proof);
      }
    }
  }
}

TEST_CASE("the host reads the loss, or waits for the device after each step, a data loader") {
  for (const Case& c : one_of_each()) {
    TrainingStep step = testing::training_step(c);
    step.sync_after_forward = step.sync_every_step = true;
    step.loader = {true, 2, 2, 100};
    const Schedule schedule = runtime::widened(build_schedule(step));
    runtime::Trainer trainer(schedule, testing::small_shape(), testing::training_data(c));
    runtime::ExecuteOptions options;
    options.steps = trainer.executed_steps();
    runtime::execute(schedule, trainer, options);
    CAPTURE(name(c));
    CHECK(testing::worst_difference(trainer, c) <= proof);
  }
}

TEST_CASE("DDP: static graph, unused parameters looked for, bucket rules, kept gradients") {
  const auto check = [](auto&& change) {
    for (const bool first : {false, true}) {
      for (const bool view : {false, true}) {
        Case c = of(StrategyKind::ddp, {3, 1});
        c.strategy.gradient_as_bucket_view = view;
        c.first_step = first;
        change(c.strategy);
        CAPTURE(name(c));
        CAPTURE(view);
        CHECK(train(c) <= proof);
      }
    }
  };
  SUBCASE("static graph") {
    check([](StrategyOptions& o) { o.static_graph = true; });
  }
  SUBCASE("unused") {
    check([](StrategyOptions& o) { o.find_unused_parameters = true; });
  }
  SUBCASE("batched") {
    check([](StrategyOptions& o) { o.batched_grad_copy = true; });
  }
  SUBCASE("small last bucket") {
    check([](StrategyOptions& o) { o.small_last_bucket = true; });
  }
  SUBCASE("1.13") {
    check([](StrategyOptions& o) { o.bucket_rule = BucketRule::pytorch_1_13; });
  }
  SUBCASE("1.4") {
    check([](StrategyOptions& o) {
      o.bucket_rule = BucketRule::pytorch_1_4;
      o.gradient_as_bucket_view = false;  // it has none
    });
  }
  SUBCASE("kept") {
    check([](StrategyOptions& o) { o.zero_grad_set_to_none = false; });
  }
  SUBCASE("hook") {
    check([](StrategyOptions& o) { o.comm_hook = CommHook::allreduce; });
  }
  SUBCASE("a list of caps") {
    check([](StrategyOptions& o) {
      o.bucket_cap_mib.reset();
      o.bucket_caps_mib = {0.0003, 0.001};
    });
  }
}

TEST_CASE("DDP's 16-bit hooks round what is reduced, and nothing else") {
  for (const CommHook hook : {CommHook::fp16_compress, CommHook::bf16_compress}) {
    for (const bool first : {false, true}) {
      Case c = of(StrategyKind::ddp, {3, 1});
      c.strategy.comm_hook = hook;
      c.first_step = first;
      const double difference = train(c, true, 1, true, 1e-3);
      CHECK(difference <= 1e-3);
      CHECK(difference > 1e-6);
    }
  }
}

TEST_CASE("PowerSGD is refused with the reason") {
  Case c = of(StrategyKind::ddp, {3, 1});
  c.strategy.comm_hook = CommHook::power_sgd;
  CHECK_THROWS_WITH(train(c), doctest::Contains("approximation of the gradients"));
}

TEST_CASE("FSDP2: prefetch lists, torchtitan's wrap, slices kept in smaller groups") {
  Case c = of(StrategyKind::fsdp2, {1, 4});
  c.strategy.forward_prefetch_units = c.strategy.backward_prefetch_units = 2;
  CHECK(train(c) <= proof);
  c.strategy.wrap = WrapPolicy::torchtitan;
  c.strategy.unshard_embedding_in_backward = false;
  c.strategy.keep_last_block = true;
  CHECK(train(c) <= proof);
  for (const Mesh mesh : {Mesh{2, 2}, Mesh{4, 2}, Mesh{2, 4}, Mesh{3, 2}}) {
    for (const bool first : {false, true}) {
      Case slices = of(StrategyKind::fsdp2, mesh, 3);
      slices.strategy.reshard_group = mesh.shard;
      slices.first_step = first;
      CAPTURE(name(slices));
      CHECK(train(slices) <= proof);
    }
  }
}

TEST_CASE("FSDP1: every sharding strategy from the first step, checkpoints outside, size policy") {
  for (const ShardingStrategy sharding :
       {ShardingStrategy::full_shard, ShardingStrategy::shard_grad_op, ShardingStrategy::no_shard,
        ShardingStrategy::hybrid_shard, ShardingStrategy::hybrid_shard_zero2}) {
    for (const bool outside : {false, true}) {
      const bool none = sharding == ShardingStrategy::no_shard;
      const bool hybrid = !none && sharding != ShardingStrategy::full_shard &&
                          sharding != ShardingStrategy::shard_grad_op;
      Case c = of(StrategyKind::fsdp1, none ? Mesh{4, 1} : hybrid ? Mesh{2, 2} : Mesh{1, 4});
      c.strategy.sharding = sharding;
      c.strategy.checkpoint_outside_unit = outside;
      c.strategy.accumulation_sync = outside ? AccumulationSync::every : AccumulationSync::last;
      c.checkpointing = Checkpointing::full;
      c.first_step = true;
      c.clip = true;
      CAPTURE(std::string(to_string(sharding)));
      CAPTURE(outside);
      CHECK(train(c) <= proof);
    }
  }
  for (const std::int64_t least : {100, 1000}) {
    Case c = of(StrategyKind::fsdp1, {1, 4});
    c.strategy.wrap_min_params = least;
    CHECK(train(c) <= proof);
  }
}

TEST_CASE("ZeRO-1 and ZeRO-2 without reduce_scatter, ZeRO-3 in sub-groups and with hpZ") {
  for (const StrategyKind kind : {StrategyKind::zero1, StrategyKind::zero2}) {
    for (const bool contiguous : {false, true}) {
      for (const bool overlap : {false, true}) {
        Case c = of(kind, {4, 1});
        c.strategy.reduce_scatter = false;
        c.strategy.contiguous_gradients = contiguous;
        c.strategy.overlap_comm = overlap;
        CAPTURE(name(c));
        CHECK(train(c) <= proof);
      }
    }
  }
  for (const std::int64_t group : {1, 7, 100}) {
    for (const char* precision : {"fp32", "bf16-master"}) {
      Case c = of(StrategyKind::zero3, {1, 4});
      c.strategy.sub_group_elements = group;
      c.precision = precision;
      c.clip = true;
      const bool exact = c.precision == "fp32";
      CHECK(train(c, true, 1, exact) <= (exact ? proof : 1e-2));
    }
  }
  for (const Mesh mesh : {Mesh{2, 2}, Mesh{4, 2}, Mesh{2, 4}, Mesh{3, 2}}) {
    for (const Checkpointing checkpointing : {Checkpointing::none, Checkpointing::full}) {
      Case c = of(StrategyKind::zero3, mesh, 3);
      c.strategy.hpz_group = mesh.shard;
      c.checkpointing = checkpointing;
      c.first_step = mesh.replicate == 2;
      CAPTURE(name(c));
      CHECK(train(c) <= proof);
    }
  }
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

TEST_CASE("ZeRO-1 whose gradients are zeroed and stay from step to step") {
  for (const int accumulation : {1, 3}) {
    for (const bool overlap : {false, true}) {
      for (const bool contiguous : {false, true}) {
        Case c = of(StrategyKind::zero1, {4, 1});
        c.accumulation = accumulation;
        c.strategy.zero_grad_set_to_none = false;
        c.strategy.overlap_comm = overlap;
        c.strategy.contiguous_gradients = contiguous;
        CAPTURE(name(c));
        CHECK(train(c) <= proof);
      }
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

}  // namespace
}  // namespace stepcast

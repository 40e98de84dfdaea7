#pragma once
// Would a wrong schedule be noticed? A schedule is broken in every way of mutate.hpp, and each
// mutant is run once, all ranks in one thread, with one seed. Caught is what problems() names, what
// cannot be planned, hangs, reads poison, or ends with other parameters than one rank. A mutant
// that orders every conflicting pair as before (happens_before.hpp) is no mistake and not counted.

#include <map>
#include <string>
#include <vector>

#include "tests/unit/runtime/happens_before.hpp"
#include "tests/unit/runtime/mutate.hpp"
#include "tests/unit/runtime/training.hpp"

namespace stepcast::testing {

inline constexpr std::uint64_t mutant_seed = 11;

// Empty: not caught.
inline std::string how_it_is_caught(const Schedule& mutant, const Case& c, double loss_scale) {
  if (!problems(mutant).empty()) return "problems";
  try {
    const Schedule wide = runtime::widened(mutant);
    runtime::TrainingData data = training_data(c);
    data.loss_scale = loss_scale;
    runtime::Trainer trainer(wide, small_shape(c.tied), data);
    runtime::ExecuteOptions options;
    options.steps = trainer.executed_steps();
    options.threads = false;
    options.seed = mutant_seed;
    runtime::execute(wide, trainer, options);
    return worst_difference(trainer, c) <= proof ? "" : "numbers";
  } catch (const runtime::Hang&) {
    return "hang";
  } catch (const runtime::PoisonRead&) {
    return "poison";
  } catch (const std::exception&) {
    return "plan";
  }
}

struct MutantCount {
  int all = 0;
  int equivalent = 0;
  std::vector<std::string> missed;
  std::map<std::string, int> caught;

  int mistakes() const { return all - equivalent; }
  double missed_share() const { return static_cast<double>(missed.size()) / mistakes(); }
};

// `one_in`: only every one_in-th mutant, beginning with the `first`-th.
struct MutantSample {
  int partners = 1;
  int one_in = 1;
  int first = 0;
};

inline MutantCount count_mutants(const Case& c, const MutantSample& sample = {}) {
  const Schedule right = build_schedule(training_step(c));
  const double loss_scale = runtime::loss_scale_of(right);
  REQUIRE(how_it_is_caught(right, c, loss_scale) == "");
  std::vector<HappensBefore::Pairs> order;
  for (std::size_t r = 0; r < right.roles.size(); ++r) {
    order.push_back(HappensBefore(right, static_cast<int>(r)).ordered());
  }
  MutantCount count;
  int number = -1;
  Mutations(right, sample.partners, [&](const Mutant& mutant) {
    if (++number % sample.one_in != sample.first % sample.one_in) return;
    ++count.all;
    const std::string how = how_it_is_caught(mutant.schedule, c, loss_scale);
    if (!how.empty()) {
      ++count.caught[how];
    } else if (mutant.may_be_equivalent && HappensBefore(mutant.schedule, mutant.role).ordered() ==
                                               order[static_cast<std::size_t>(mutant.role)]) {
      ++count.equivalent;
    } else {
      count.missed.push_back(mutant.what);
    }
  }).all();
  return count;
}

// A schedule to break: what it is called in the table, and how to build it.
struct Subject {
  std::string name;
  Case c;
};

// Every strategy as it is by default, in small buckets.
inline std::vector<Subject> plain_subjects() {
  const auto make = [](StrategyKind kind, Mesh mesh) {
    Case c = of(kind, mesh, 1);
    c.strategy.bucket_cap_mib = 0.001;
    return c;
  };
  std::vector<Subject> list{{"dp", make(StrategyKind::dp, {2, 1})},
                            {"ddp", make(StrategyKind::ddp, {2, 1})},
                            {"zero1", make(StrategyKind::zero1, {2, 1})},
                            {"zero2", make(StrategyKind::zero2, {2, 1})},
                            {"zero3", make(StrategyKind::zero3, {1, 2})}};
  const auto fsdp1 = [&](ShardingStrategy sharding, Mesh mesh) {
    Case c = make(StrategyKind::fsdp1, mesh);
    c.strategy.sharding = sharding;
    list.push_back({"fsdp1 " + std::string(to_string(sharding)), c});
  };
  fsdp1(ShardingStrategy::full_shard, {1, 2});
  fsdp1(ShardingStrategy::shard_grad_op, {1, 2});
  fsdp1(ShardingStrategy::no_shard, {2, 1});
  fsdp1(ShardingStrategy::hybrid_shard, {2, 2});
  fsdp1(ShardingStrategy::hybrid_shard_zero2, {2, 2});
  list.push_back({"fsdp2", make(StrategyKind::fsdp2, {1, 2})});
  list.push_back({"hsdp", make(StrategyKind::hsdp, {2, 2})});
  return list;
}

// With three micro-batches, checkpointing and clipping; and with the options that add ops.
inline std::vector<Subject> other_subjects() {
  std::vector<Subject> list;
  for (Subject subject : plain_subjects()) {
    subject.name += ", 3 micro-batches, checkpointed, clipped";
    subject.c.accumulation = 3;
    subject.c.checkpointing = Checkpointing::full;
    subject.c.clip = true;
    list.push_back(subject);
  }
  const auto add = [&](const char* name, StrategyKind kind, Mesh mesh, auto&& change) {
    Case c = of(kind, mesh, 2);
    c.strategy.bucket_cap_mib = 0.001;
    change(c);
    list.push_back({name, c});
  };
  add("dp, loss in forward", StrategyKind::dp, {2, 1},
      [](Case& c) { c.strategy.loss_in_forward = true; });
  add("ddp, from construction on", StrategyKind::ddp, {2, 1}, [](Case& c) { c.first_step = true; });
  add("ddp, gradients as bucket views", StrategyKind::ddp, {2, 1},
      [](Case& c) { c.strategy.gradient_as_bucket_view = true; });
  add("ddp, allreduce hook, batched copies", StrategyKind::ddp, {2, 1}, [](Case& c) {
    c.strategy.comm_hook = CommHook::allreduce;
    c.strategy.batched_grad_copy = true;
  });
  add("ddp, gradients kept, SGD", StrategyKind::ddp, {2, 1}, [](Case& c) {
    c.strategy.zero_grad_set_to_none = false;
    c.optimizer = OptimizerKind::sgd_momentum;
  });
  add("zero2, overlap_comm, no reduce_scatter", StrategyKind::zero2, {2, 1}, [](Case& c) {
    c.strategy.overlap_comm = true;
    c.strategy.reduce_scatter = false;
  });
  add("zero2, reduce to each owner", StrategyKind::zero2, {2, 1},
      [](Case& c) { c.strategy.multi_rank_all_reduce = false; });
  add("zero3, hpZ, sub-groups", StrategyKind::zero3, {2, 2}, [](Case& c) {
    c.strategy.hpz_group = 2;
    c.strategy.sub_group_elements = 100;
  });
  add("fsdp2, slices kept", StrategyKind::fsdp2, {2, 2},
      [](Case& c) { c.strategy.reshard_group = 2; });
  add("fsdp1, from the first step on", StrategyKind::fsdp1, {1, 2},
      [](Case& c) { c.first_step = true; });
  return list;
}

}  // namespace stepcast::testing

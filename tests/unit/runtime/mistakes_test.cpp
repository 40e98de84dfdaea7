// Mistakes that people make with data-parallel training, and what the mathematics says of them.

#include "tests/unit/runtime/mutate.hpp"
#include "tests/unit/runtime/training.hpp"

namespace stepcast {
namespace {

using testing::Case;

Case small(StrategyKind kind) {
  Case c;
  c.strategy.kind = kind;
  c.strategy.reduce_bucket_elements = 150;
  c.strategy.bucket_cap_mib = 0.001;
  c.mesh = {2, 1};
  return c;
}

Schedule without(const Schedule& s, const std::function<bool(const Op&)>& left_out) {
  std::vector<OpIndex> order;
  const std::vector<Op>& ops = s.roles[0].steps[0].ops;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (!left_out(ops[i])) order.push_back(static_cast<OpIndex>(i));
  }
  return testing::reordered(s, order);
}

TEST_CASE("gradients that are summed, not averaged, are W times as large") {
  const Case c = small(StrategyKind::zero1);
  const Schedule right = build_schedule(testing::training_step(c));
  const Schedule summed = without(right, [](const Op& op) { return op.verb == Name("divide"); });
  const auto first_norm = [&](const Schedule& schedule) {
    const Schedule wide = runtime::widened(schedule);
    runtime::Trainer trainer(wide, testing::small_shape(), testing::training_data(c));
    runtime::ExecuteOptions options;
    options.steps = trainer.executed_steps();
    runtime::execute(wide, trainer, options);
    return trainer.norms(0).at(0);
  };
  // Squared norms: 2 ranks, 4 times.
  CHECK(first_norm(right) == doctest::Approx(testing::one_rank(c).norms[0]).epsilon(1e-12));
  CHECK(first_norm(summed) == doctest::Approx(4 * testing::one_rank(c).norms[0]).epsilon(1e-12));
}

TEST_CASE("a rank that skips a parameter never completes its bucket: the others hang and say so") {
  const Case c = small(StrategyKind::ddp);
  Schedule s = build_schedule(testing::training_step(c));
  // Rank 1 never launches bucket 1, nor waits for it.
  Schedule skips = without(s, [&](const Op& op) {
    return op.unit >= 0 && s.units[static_cast<std::size_t>(op.unit)] == Name("bucket1") &&
           op.kind != OpKind::host_work;
  });
  Role rank0 = s.roles[0];
  rank0.rank_count = 1;
  Role rank1 = skips.roles[0];
  rank1.first_rank = 1;
  rank1.rank_count = 1;
  skips.roles = {rank0, rank1};
  for (const bool threads : {true, false}) {
    const Schedule wide = runtime::widened(skips);
    runtime::Trainer trainer(wide, testing::small_shape(), testing::training_data(c));
    runtime::ExecuteOptions options;
    options.threads = threads;
    options.watchdog = 0.1;
    std::string said;
    try {
      runtime::execute(wide, trainer, options);
    } catch (const std::exception& error) {
      said = error.what();
    }
    CAPTURE(said);
    CHECK(said.find("all_reduce.bucket") != std::string::npos);
    CHECK(said.find("communicator world") != std::string::npos);
    CHECK(said.find("rank 1") != std::string::npos);
  }
}

TEST_CASE("the mean of the ranks' means is not the mean where the last batch is uneven") {
  // Rank 0 has samples 0, 1, 2, rank 1 sample 3: DDP weighs sample 3 with 1/2, not 1/4.
  const runtime::MlpShape shape = testing::small_shape();
  const runtime::Tensors p = runtime::initial_parameters(shape, 7);
  const auto gradient = [&](const std::vector<std::int64_t>& samples) {
    return runtime::loss_and_gradient(shape, p, samples, 2).gradient;
  };
  const runtime::Tensors all = gradient({0, 1, 2, 3});
  const runtime::Tensors three = gradient({0, 1, 2});
  const runtime::Tensors one = gradient({3});
  double weighted = 0;
  double averaged = 0;
  for (std::size_t t = 0; t < all.size(); ++t) {
    for (std::size_t i = 0; i < all[t].size(); ++i) {
      weighted = std::max(weighted, std::abs(0.75 * three[t][i] + 0.25 * one[t][i] - all[t][i]));
      averaged = std::max(averaged, std::abs(0.5 * three[t][i] + 0.5 * one[t][i] - all[t][i]));
    }
  }
  CHECK(weighted < 1e-15);
  CHECK(averaged > 1e-3);
}

}  // namespace
}  // namespace stepcast

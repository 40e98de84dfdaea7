// Where ranks do not count alike, the parameters differ from one rank's by what the mathematics
// says: unused parameters, join(), uneven batches, an epoch that the ranks do not divide.

#include "tests/unit/runtime/training.hpp"

namespace stepcast {
namespace {

using runtime::RankShare;
using testing::Case;
using testing::of;
using testing::proof;

// The largest difference of the ranks that train from what is expected.
double difference(const Case& c, const runtime::TrainingData& data,
                  const std::vector<RankShare>& shares) {
  const Schedule schedule = runtime::widened(build_schedule(testing::training_step(c)));
  runtime::Trainer trainer(schedule, testing::small_shape(), data);
  runtime::ExecuteOptions options;
  options.steps = trainer.executed_steps();
  runtime::execute(schedule, trainer, options);
  const runtime::Trained wanted =
      runtime::train_on_one_rank(testing::small_shape(), data, runtime::UpdateRule::adamw, shares);
  double worst = 0;
  for (std::size_t t = 0; t < wanted.parameters.size(); ++t) {
    for (std::size_t r = 0; r < shares.size(); ++r) {
      if (shares[r].weight == 0) continue;  // has run out of data
      const double now = runtime::relative_difference(trainer.parameters(static_cast<int>(r))[t],
                                                      wanted.parameters[t]);
      worst = std::isfinite(now) ? std::max(worst, now) : 1e300;
    }
  }
  return worst;
}

// Block 0's biases, tensors 2 and 4.
std::vector<bool> both_biases(int tensors) {
  std::vector<bool> skips(static_cast<std::size_t>(tensors), false);
  skips[2] = skips[4] = true;
  return skips;
}

TEST_CASE("a parameter that one of three ranks does not use gets two thirds of the others' mean") {
  const int tensors = testing::small_shape().tensors();
  for (const bool static_graph : {false, true}) {
    for (const bool first : {false, true}) {
      for (const bool view : {false, true}) {
        Case c = of(StrategyKind::ddp, {3, 1});
        c.strategy.unused_parameters = {"*.0.*.bias"};
        c.strategy.unused_on_ranks = {1};
        c.strategy.find_unused_parameters = !static_graph;
        c.strategy.static_graph = static_graph;
        c.strategy.gradient_as_bucket_view = view;
        c.first_step = first;
        std::vector<RankShare> shares = runtime::equal_shares(3);
        CHECK(difference(c, testing::training_data(c), shares) > 1e-3);
        shares[1].skips = both_biases(tensors);
        CHECK(difference(c, testing::training_data(c), shares) <= proof);
      }
    }
  }
}

TEST_CASE("a parameter that nobody uses is not updated: AdamW does not even decay it") {
  const int tensors = testing::small_shape().tensors();
  Case c = of(StrategyKind::ddp, {3, 1});
  c.strategy.unused_parameters = {"*.0.*.bias"};
  c.strategy.find_unused_parameters = true;
  std::vector<RankShare> shares = runtime::equal_shares(3);
  for (RankShare& share : shares) share.skips = both_biases(tensors);
  CHECK(difference(c, testing::training_data(c), shares) <= proof);
}

TEST_CASE("join(): gradients are divided by all ranks, or by those at work") {
  for (const CommHook hook : {CommHook::none, CommHook::allreduce}) {
    for (const bool initial : {true, false}) {
      for (const int early : {0, 1, 2}) {
        // A hook divides by the group's size, whatever join() is told.
        if (hook != CommHook::none && !initial) continue;
        Case c = of(StrategyKind::ddp, {4, 1});
        c.strategy.comm_hook = hook;
        c.strategy.join_early_ranks = early;
        c.strategy.join_divides_by_initial_world_size = initial;
        std::vector<RankShare> shares(4);
        const int at_work = 4 - early;
        for (int r = 0; r < at_work; ++r) {
          shares[static_cast<std::size_t>(r)].weight = 1.0 / (initial ? 4 : at_work);
        }
        CAPTURE(initial);
        CAPTURE(early);
        CHECK(difference(c, testing::training_data(c), shares) <= proof);
      }
    }
  }
}

// Ranks 0 and 1 take 3 samples a step, but rank 1 has only one in every batch: the rest of it is
// filled up with samples that do not count.
runtime::TrainingData uneven(const Case& c) {
  runtime::TrainingData data = testing::training_data(c);
  std::vector<std::int64_t>& second = data.of_rank[1];
  for (std::size_t i = 0; i < second.size(); ++i) {
    if (i % 36 >= 12) second[i] = runtime::no_sample;
  }
  return data;
}

TEST_CASE("an uneven batch: the mean of the ranks' means gives each sample of the short one more") {
  // 36 samples on rank 0, 12 on rank 1. Each rank counts 1/2: a sample of rank 0 1/72, of rank 1
  // 1/24, three times as much. The mean over all 48 would have 36/48 and 12/48.
  for (const StrategyKind kind :
       {StrategyKind::ddp, StrategyKind::fsdp2, StrategyKind::zero2, StrategyKind::zero3}) {
    const bool sharded = kind == StrategyKind::fsdp2 || kind == StrategyKind::zero3;
    const Case c = of(kind, sharded ? Mesh{1, 2} : Mesh{2, 1}, 1);
    std::vector<RankShare> shares{{0.5, {}}, {0.5, {}}};
    CHECK(difference(c, uneven(c), shares) <= proof);
    shares = {{0.75, {}}, {0.25, {}}};
    CHECK(difference(c, uneven(c), shares) > 1e-3);
  }
}

TEST_CASE("nn.DataParallel weighs an uneven batch by samples: its loss is one mean over all") {
  Case c = of(StrategyKind::dp, {2, 1}, 1);
  // Only GPU 0 holds parameters, so rank 1 has no say in the comparison.
  CHECK(difference(c, uneven(c), {{0.75, {}}, {0.25, {}}}) <= proof);
  c.strategy.loss_in_forward = true;  // a mean on each, and their mean
  CHECK(difference(c, uneven(c), {{0.5, {}}, {0.5, {}}}) <= proof);
}

TEST_CASE("an epoch that the ranks do not divide: repeated samples count twice, all ranks alike") {
  // 190 samples on 4 ranks are padded to 192 by the first two of the epoch's order; a rank takes 48
  // an epoch, so its batches of 18 reach over the ends of epochs. One rank that is given the same
  // batches, repetitions included, ends with the same parameters.
  Case c = of(StrategyKind::fsdp2, {1, 4}, 1);
  runtime::DataSize size;
  size.steps = testing::steps;
  size.micro_batch = 18;
  size.seq_len = testing::seq_len;
  size.samples = 190;
  const runtime::TrainingData data = runtime::make_data(4, size);
  std::vector<int> seen(190, 0);
  for (const std::vector<std::int64_t>& mine : data.of_rank) {
    REQUIRE(mine.size() == 90);
    for (std::size_t i = 0; i < 48; ++i) ++seen[static_cast<std::size_t>(mine[i])];
  }
  CHECK(std::count(seen.begin(), seen.end(), 1) == 188);
  CHECK(std::count(seen.begin(), seen.end(), 2) == 2);
  CHECK(data.of_rank[0][0] != data.of_rank[0][48]);  // another epoch, another order
  CHECK(difference(c, data, runtime::equal_shares(4)) <= proof);
}

}  // namespace
}  // namespace stepcast

#pragma once
// A small residual MLP for every strategy, and its training compared with one rank.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>

#include "runtime/cpu/executor.hpp"
#include "runtime/train/reference.hpp"
#include "runtime/train/trainer.hpp"
#include "runtime/train/verbs.hpp"
#include "runtime/train/widened.hpp"
#include "sim/schedule/problems.hpp"
#include "sim/strategies/strategy.hpp"

namespace stepcast::testing {

// Odd sizes, so that every partition pads: 13 x 7 tables, blocks of 7 -> 10 -> 7.
inline runtime::MlpShape small_shape(bool tied = false) { return {13, 7, 10, 2, tied}; }

inline Model mlp_model(const runtime::MlpShape& shape) {
  Architecture a;
  a.family = Family::mlp;
  a.hidden = shape.width;
  a.layers = shape.blocks;
  a.ffn_hidden = shape.inner;
  a.vocabulary = shape.vocabulary;
  a.tied_embeddings = shape.tied;
  return build_model("mlp", a);
}

inline constexpr int steps = 5;
inline constexpr std::int64_t seq_len = 2;
inline constexpr int global_batch = 72;  // samples a step, whatever the world size

struct Case {
  StrategyOptions strategy;
  Mesh mesh;
  int accumulation = 1;
  Checkpointing checkpointing = Checkpointing::none;
  std::string precision = "fp32";
  bool tied = false;
  bool first_step = false;
  OptimizerKind optimizer = OptimizerKind::adamw_fused;
  bool clip = false;
};

// Small buckets and thresholds, so that a small model has several of each.
inline Case of(StrategyKind kind, Mesh mesh, int accumulation = 2) {
  Case c;
  c.strategy.kind = kind;
  c.mesh = mesh;
  c.accumulation = accumulation;
  c.strategy.reduce_bucket_elements = 150;
  c.strategy.persistence_threshold = 10;
  c.strategy.bucket_cap_mib = 0.0005;
  return c;
}

// A case of each strategy, on 3 or 4 ranks.
inline std::vector<Case> one_of_each() {
  std::vector<Case> list{of(StrategyKind::dp, {3, 1}),    of(StrategyKind::ddp, {3, 1}),
                         of(StrategyKind::zero1, {3, 1}), of(StrategyKind::zero2, {3, 1}),
                         of(StrategyKind::zero3, {1, 3}), of(StrategyKind::fsdp1, {1, 3}),
                         of(StrategyKind::fsdp2, {1, 3}), of(StrategyKind::hsdp, {2, 2})};
  Case hybrid = of(StrategyKind::fsdp1, {2, 2});
  hybrid.strategy.sharding = ShardingStrategy::hybrid_shard;
  list.push_back(hybrid);
  return list;
}

inline constexpr double max_norm = 0.05;  // of the clipped cases: below every step's norm

inline runtime::UpdateRule rule_of(OptimizerKind kind) {
  if (kind == OptimizerKind::sgd) return runtime::UpdateRule::sgd;
  if (kind == OptimizerKind::sgd_momentum) return runtime::UpdateRule::sgd_momentum;
  return runtime::UpdateRule::adamw;
}

inline TrainingStep training_step(const Case& c) {
  REQUIRE(global_batch % (c.mesh.world_size() * c.accumulation) == 0);
  TrainingStep step;
  step.model = mlp_model(small_shape(c.tied));
  step.strategy = c.strategy;
  step.mesh = c.mesh;
  step.accumulation = c.accumulation;
  step.precision = precision_recipe(c.precision);
  step.workload.micro_batch = global_batch / c.mesh.world_size() / c.accumulation;
  step.workload.seq_len = seq_len;
  step.workload.compute_dtype = step.precision.compute;
  step.workload.checkpointing = c.checkpointing;
  step.workload.autocast_weights = step.precision.autocast;
  step.first_step = c.first_step;
  step.optimizer = c.optimizer;
  step.clip_grad_norm = c.clip;
  return step;
}

inline runtime::TrainingData training_data(const Case& c) {
  runtime::TrainingData data =
      runtime::make_data(c.mesh.world_size(), steps, c.accumulation,
                         global_batch / c.mesh.world_size() / c.accumulation, seq_len);
  if (c.clip) data.max_norm = max_norm;
  return data;
}

// What one rank reaches on the whole batch; the same for all cases of one shape and optimizer.
inline const runtime::Trained& one_rank(const Case& c) {
  using Key = std::tuple<bool, bool, runtime::UpdateRule>;
  static std::map<Key, runtime::Trained> known;
  const Key key{c.tied, c.clip, rule_of(c.optimizer)};
  auto found = known.find(key);
  if (found == known.end()) {
    runtime::TrainingData data = training_data(c);
    const std::vector<std::vector<std::int64_t>> batches = data.batches();
    data.micro_batches = 1;
    data.micro_batch = global_batch;
    data.of_rank.assign(1, {});
    for (const auto& batch : batches) {
      data.of_rank[0].insert(data.of_rank[0].end(), batch.begin(), batch.end());
    }
    found = known
                .emplace(key,
                         runtime::train_on_one_rank(small_shape(c.tied), data, rule_of(c.optimizer),
                                                    runtime::equal_shares(1)))
                .first;
  }
  return found->second;
}

// The largest ‖difference‖ / ‖tensor‖ of any tensor on any rank, against one rank; 1 where the
// ranks together do not hold every element.
inline double worst_difference(const runtime::Trainer& trainer, const Case& c) {
  const runtime::Tensors& wanted = one_rank(c).parameters;
  double worst = 0;
  for (std::size_t t = 0; t < wanted.size(); ++t) {
    std::vector<bool> held(wanted[t].size(), false);
    for (int rank = 0; rank < c.mesh.world_size(); ++rank) {
      const std::vector<double>& mine = trainer.parameters(rank)[t];
      for (std::size_t i = 0; i < mine.size(); ++i) held[i] = held[i] || !std::isnan(mine[i]);
      const double difference = runtime::relative_difference(mine, wanted[t]);
      worst = std::isfinite(difference) ? std::max(worst, difference) : 1e300;
    }
    if (!std::all_of(held.begin(), held.end(), [](bool b) { return b; })) worst = 1;
  }
  // ZeRO reads the norm of the whole gradient before Adam, and clipping uses it.
  const bool zero = c.strategy.kind == StrategyKind::zero1 ||
                    c.strategy.kind == StrategyKind::zero2 ||
                    c.strategy.kind == StrategyKind::zero3;
  for (int rank = 0; (zero || c.clip) && rank < c.mesh.world_size(); ++rank) {
    if (c.strategy.kind == StrategyKind::dp && rank > 0) break;  // GPU 0 has the optimizer
    if (trainer.norms(rank).size() != steps) return 1;
    for (std::size_t s = 0; s < steps; ++s) {
      const double wanted_norm = one_rank(c).norms[s];
      worst = std::max(worst, std::abs(trainer.norms(rank)[s] - wanted_norm) / wanted_norm / 100);
    }
  }
  return worst;
}

inline std::string name(const Case& c) {
  return std::string(to_string(c.strategy.kind)) + " " + std::to_string(c.mesh.replicate) + "x" +
         std::to_string(c.mesh.shard) + " accumulation " + std::to_string(c.accumulation) +
         (c.checkpointing == Checkpointing::full ? " checkpointed" : "") + " " + c.precision + " " +
         std::string(to_string(c.optimizer)) + (c.clip ? " clipped" : "") +
         (c.first_step ? " from the first step" : "");
}

inline constexpr double proof = 1e-12;  // of a tensor's norm, in float64

inline double train(const Case& c, bool threads = true, std::uint64_t seed = 1,
                    bool in_double = true, double loss_tolerance = 1e-11) {
  Schedule schedule = build_schedule(training_step(c));
  if (in_double) schedule = runtime::widened(std::move(schedule));
  runtime::Trainer trainer(schedule, small_shape(c.tied), training_data(c));
  runtime::ExecuteOptions options;
  options.steps = trainer.executed_steps();
  options.threads = threads;
  options.seed = seed;
  runtime::execute(schedule, trainer, options);
  const std::vector<double> losses = trainer.losses();
  const double last = one_rank(c).losses.back();
  if (in_double) CHECK(losses.back() == doctest::Approx(last).epsilon(loss_tolerance));
  return worst_difference(trainer, c);
}

}  // namespace stepcast::testing

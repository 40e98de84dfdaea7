#pragma once
// A small residual MLP for every strategy, and its training compared with one rank.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "runtime/cpu/executor.hpp"
#include "runtime/train/reference.hpp"
#include "runtime/train/trainer.hpp"
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
};

inline TrainingStep training_step(const Case& c) {
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
  return step;
}

inline runtime::TrainingData training_data(const Case& c) {
  return runtime::make_data(c.mesh.world_size(), steps, c.accumulation,
                            global_batch / c.mesh.world_size() / c.accumulation, seq_len);
}

// What one rank reaches on the whole batch; the same for all cases of one shape.
inline const runtime::Trained& one_rank(const Case& c) {
  static std::map<bool, runtime::Trained> known;
  auto found = known.find(c.tied);
  if (found == known.end()) {
    const runtime::TrainingData data = training_data(c);
    found = known
                .emplace(c.tied, runtime::train_on_one_rank(small_shape(c.tied), data.adam,
                                                            data.seed, data.batches(), seq_len))
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
  // ZeRO reads the norm of the whole gradient before Adam.
  const bool zero = c.strategy.kind == StrategyKind::zero1 ||
                    c.strategy.kind == StrategyKind::zero2 ||
                    c.strategy.kind == StrategyKind::zero3;
  for (int rank = 0; zero && rank < c.mesh.world_size(); ++rank) {
    if (trainer.norms(rank).size() != steps) return 1;
    for (std::size_t s = 0; s < steps; ++s) {
      const double wanted_norm = one_rank(c).norms[s];
      worst = std::max(worst, std::abs(trainer.norms(rank)[s] - wanted_norm) / wanted_norm / 100);
    }
  }
  return worst;
}

inline double train(const Case& c, bool threads = true, std::uint64_t seed = 1,
                    bool in_double = true) {
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
  if (in_double) CHECK(losses.back() == doctest::Approx(last).epsilon(1e-11));
  return worst_difference(trainer, c);
}

}  // namespace stepcast::testing

// stepcast run --compute train: real numbers, compared with one rank on the whole batch.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/error.hpp"
#include "cli/command.hpp"
#include "cli/processes.hpp"
#include "cli/run.hpp"
#include "runtime/cpu/executor.hpp"
#include "runtime/train/reference.hpp"
#include "runtime/train/trainer.hpp"
#include "runtime/train/widened.hpp"
#include "sim/strategies/ddp/unused.hpp"

namespace stepcast::cli {

namespace {

// ‖difference‖ / ‖tensor‖ that the order of additions may make in float64. What float32 and 16 bits
// round is printed, not judged: it grows with the model and the steps.
constexpr double accepted = 1e-12;

// torch.nn.utils.clip_grad_norm_(parameters, 1.0), the usual one.
constexpr double clip_to = 1;

runtime::UpdateRule rule_of(OptimizerKind kind) {
  if (kind == OptimizerKind::sgd) return runtime::UpdateRule::sgd;
  if (kind == OptimizerKind::sgd_momentum) return runtime::UpdateRule::sgd_momentum;
  return runtime::UpdateRule::adamw;
}

// How much each rank's gradient counts: alike, but for DDP's ranks that have run out of data or do
// not use all parameters.
std::vector<runtime::RankShare> shares_of(const TrainingStep& step) {
  const int ranks = step.mesh.world_size();
  std::vector<runtime::RankShare> shares = runtime::equal_shares(ranks);
  if (step.strategy.kind != StrategyKind::ddp) return shares;
  const int at_work = ranks - step.strategy.join_early_ranks.value_or(0);
  for (int rank = 0; rank < ranks; ++rank) {
    double& weight = shares[static_cast<std::size_t>(rank)].weight;
    if (!step.strategy.join_divides_by_initial_world_size) weight = 1.0 / at_work;
    if (rank >= at_work) weight = 0;
  }
  const ddp::Unused unused = ddp::unused_parameters(step);
  for (const int rank : unused.ranks) {
    shares[static_cast<std::size_t>(rank)].skips = unused.parameter;
  }
  return shares;
}

// 16-bit hooks round what is reduced, whatever the numbers are.
bool rounds_what_is_reduced(const TrainingStep& step) {
  return step.strategy.kind == StrategyKind::ddp &&
         (step.strategy.comm_hook == CommHook::fp16_compress ||
          step.strategy.comm_hook == CommHook::bf16_compress);
}

// Of the ranks that train to the end.
double largest_difference(const runtime::Trainer& trainer, const runtime::Tensors& wanted,
                          const std::vector<runtime::RankShare>& shares) {
  double largest = 0;
  for (int rank = 0; rank < static_cast<int>(shares.size()); ++rank) {
    if (shares[static_cast<std::size_t>(rank)].weight == 0) continue;
    for (std::size_t t = 0; t < wanted.size(); ++t) {
      largest =
          std::max(largest, runtime::relative_difference(trainer.parameters(rank)[t], wanted[t]));
    }
  }
  return largest;
}

}  // namespace

TrainSetup train_setup(const RunCommandOptions& options, const Scenario& scenario,
                       const Forecast& f) {
  const TrainingStep& step = f.resolved.step;
  const Architecture& a = step.model.architecture;
  if (a.family != Family::mlp) {
    throw InputError(scenario.where("model"),
                     fmt::format("{} has attention; accepted with --compute train: residual-mlp, "
                                 "or another model of family mlp",
                                 step.model.name));
  }
  if (options.float64 && step.precision.name != "fp32") {
    throw InputError({.file = "--float64", .line = 0, .key = ""},
                     fmt::format("needs --precision fp32, not {}", step.precision.name));
  }
  if (step.workload.fp8 != Fp8Recipe::none) {
    throw InputError(
        scenario.where("fp8"),
        fmt::format("'{}' is not among the numbers that --compute train has; accepted: "
                    "none, or --compute replay",
                    to_string(step.workload.fp8)));
  }
  TrainSetup setup;
  setup.shape = {a.vocabulary, a.hidden, a.ffn_hidden, static_cast<int>(a.layers),
                 a.tied_embeddings};
  const int ranks = step.mesh.world_size();
  const int steps = options.steps.value_or(5);
  setup.data = runtime::make_data(ranks, steps, step.accumulation, step.workload.micro_batch,
                                  step.workload.seq_len);
  if (step.clip_grad_norm) setup.data.max_norm = clip_to;
  setup.shares = shares_of(step);
  setup.rule = rule_of(step.optimizer);
  setup.schedule = options.float64 ? runtime::widened(f.schedule) : f.schedule;
  return setup;
}

runtime::Trained TrainSetup::one_rank() const {
  return runtime::train_on_one_rank(shape, data, rule, shares);
}

InputError cannot_train(const std::runtime_error& unknown) {
  return {{.file = "--compute", .line = 0, .key = ""},
          fmt::format("train cannot do this step ({}); accepted: replay, or train without the "
                      "option that makes that op",
                      unknown.what())};
}

int print_trained(const RunCommandOptions& options, const Forecast& f,
                  const std::vector<double>& losses, const std::vector<double>& one_rank_losses,
                  double difference) {
  const TrainingStep& step = f.resolved.step;
  const int ranks = step.mesh.world_size();
  const bool judged = options.float64 && !rounds_what_is_reduced(step);
  const std::string numbers = step.precision.name + (options.float64 ? " recipe in float64" : "");
  if (options.json) {
    nlohmann::ordered_json json;
    json["schema"] = "stepcast.train/1";
    json["model"] = step.model.name;
    json["parameters"] = step.model.parameter_elements();
    json["strategy"] = f.report.strategy;
    json["ranks"] = ranks;
    json["precision"] = step.precision.name;
    json["float64"] = options.float64;
    json["losses"] = losses;
    json["one_rank_losses"] = one_rank_losses;
    json["largest_relative_difference"] = difference;
    json["accepted_relative_difference"] =
        judged ? nlohmann::ordered_json(accepted) : nlohmann::ordered_json(nullptr);
    print(json.dump(2) + "\n");
  } else {
    std::string text = fmt::format(
        "{}, {} parameters, {} on {} ranks, {}\n\nstep        loss    one rank\n", step.model.name,
        step.model.parameter_elements(), f.report.strategy, ranks, numbers);
    for (std::size_t s = 0; s < losses.size(); ++s) {
      text += fmt::format("{:>4}  {:>10.6f}  {:>10.6f}\n", s + 1, losses[s], one_rank_losses[s]);
    }
    text += fmt::format(
        "\nlargest difference of a tensor from one rank on the whole batch: {:.1e} "
        "of its norm{}\n",
        difference,
        judged            ? fmt::format(" (accepted: {:.0e})", accepted)
        : options.float64 ? " (the hook rounds what is reduced to 16 bits)"
                          : " (--float64 leaves rounding out)");
    print(text);
  }
  if (judged && !(difference <= accepted)) {
    throw std::runtime_error(
        fmt::format("the parameters are not those of one rank: {:.1e} of a "
                    "tensor's norm, accepted {:.0e}",
                    difference, accepted));
  }
  return 0;
}

int run_train(const RunCommandOptions& options, const Scenario& scenario, const Forecast& f) {
  const TrainSetup setup = train_setup(options, scenario, f);
  // Not every op has a meaning in numbers yet; the trainer plans the whole run first.
  std::unique_ptr<runtime::Trainer> planned;
  try {
    planned = std::make_unique<runtime::Trainer>(setup.schedule, setup.shape, setup.data);
  } catch (const std::runtime_error& unknown) {
    throw cannot_train(unknown);
  }
  runtime::Trainer& trainer = *planned;
  runtime::ExecuteOptions how;
  how.steps = trainer.executed_steps();
  how.seed = options.seed;
  how.watchdog = options.watchdog;
  const runtime::Execution execution = execute_here(options.wire, setup.schedule, trainer, how);
  if (!prints(options)) return 0;
  for (std::size_t r = 0; r < execution.results.size(); ++r) {
    trainer.adopt(static_cast<int>(r), execution.results[r]);
  }
  write_timeline(options, f, execution.timeline);

  const runtime::Trained one_rank = setup.one_rank();
  return print_trained(options, f, trainer.losses(), one_rank.losses,
                       largest_difference(trainer, one_rank.parameters, setup.shares));
}

}  // namespace stepcast::cli

#include "sim/plan/question.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.hpp"
#include "base/number_text.hpp"
#include "sim/forecast/placed.hpp"
#include "sim/forecast/resolve.hpp"

namespace stepcast {
namespace {

// Keys that a plan chooses itself, or that make no sense for a whole training.
void refuse_keys(const Scenario& s) {
  const auto refuse = [&](const char* key, bool said, const char* why) {
    if (said) throw InputError(s.where(key), std::string("does not apply to a plan: ") + why);
  };
  refuse("params", s.params.has_value(), "it needs a model, its layers and activations");
  refuse("gpus", s.gpus.has_value(), "it counts nodes; accepted: nodes, or --max-nodes");
  refuse("gpu", s.gpu.has_value(), "machines have the GPUs; accepted: --machines");
  refuse("engine", s.engine.has_value(), "formula screens and fluid confirms");
  refuse("step", s.step.has_value(), "a training is made of steady steps");
  refuse("perturb", s.perturb.has_value(), "all nodes are well, or have failed");
  refuse("nccl_timeout", s.nccl_timeout.has_value(), "nothing is perturbed");
  if (!s.model) {
    throw InputError(s.where("model"), "no model given; `stepcast list models` names them");
  }
  if (s.strategy || s.sharding_strategy) return;
  visit_scenario(s, [&](const KeyInfo& key, const auto& field) {
    if (!field || std::string_view(key.group) != "Strategy") return;
    throw InputError(s.where(key.name),
                     "is of one strategy, and a plan tries several; accepted: with strategy");
  });
}

void check_numbers(const PlanQuestion& q) {
  const auto positive = [](const char* flag, const std::optional<double>& value, double most) {
    if (!value || (*value > 0 && *value <= most)) return;
    throw at_flag(flag, fmt::format("{} is not accepted; accepted: above 0, up to {}",
                                    number_text(*value), number_text(most)));
  };
  positive("--tokens", q.amount, 1e20);
  positive("--deadline", q.deadline_days, 1e6);
  positive("--budget", q.budget_usd, 1e15);
  positive("--global-batch-tokens", q.global_batch_tokens, 1e15);
  positive("--global-batch-samples", q.global_batch_samples, 1e12);
  positive("--tuned-batch-tokens", q.tuned_batch_tokens, 1e15);
  if (q.tuned_batch_tokens && *q.tuned_batch_tokens < 1) {
    throw at_flag("--tuned-batch-tokens",
                  number_text(*q.tuned_batch_tokens) + " is not accepted; accepted: from 1");
  }
  if (!q.amount && !q.deadline_days && !q.budget_usd) {
    throw at_flag("--tokens",
                  "nothing says how much to train; accepted: --tokens (--images), --deadline or "
                  "--budget, or several of them");
  }
  if (q.global_batch_tokens && q.global_batch_samples) {
    throw at_flag("--global-batch-samples", "--global-batch-tokens says it already; accepted: one");
  }
  if (q.rank == Rank::amount && q.amount) {
    throw at_flag("--rank", "the amount is the same for all; accepted: days, cost");
  }
}

}  // namespace

InputError at_flag(const char* flag, const std::string& message) {
  return {{.file = flag, .line = 0, .key = ""}, message};
}

void check_question(const PlanQuestion& q) {
  check_numbers(q);
  check_ranges(q.scenario);
  refuse_keys(q.scenario);
}

std::vector<std::string> machines_of(const PlanQuestion& q) {
  if (q.scenario.cluster && !q.machines.empty()) {
    throw at_flag("--machines", "--cluster names the machine already; accepted: one of the two");
  }
  if (q.scenario.cluster) return {scenario_path(q.scenario, "cluster", *q.scenario.cluster)};
  if (q.machines.empty()) return catalog_machines();
  std::set<std::string> seen;
  for (const std::string& name : q.machines) {
    if (!seen.insert(name).second) {
      throw at_flag("--machines", "'" + name + "' is there twice; accepted: once");
    }
  }
  return q.machines;
}

std::vector<std::int32_t> sizes_of(const PlanQuestion& q) {
  if (q.scenario.nodes) return {static_cast<std::int32_t>(*q.scenario.nodes)};
  std::vector<std::int32_t> sizes;
  for (std::int32_t n = 1; n < q.most_nodes; n *= 2) sizes.push_back(n);
  sizes.push_back(q.most_nodes);
  return sizes;
}

Space space_of(const PlanQuestion& q, const Plan& plan) {
  Space space;
  space.asked = q.scenario;
  space.asked.cluster.reset();
  space.asked.nodes.reset();
  space.nodes = sizes_of(q);
  if (q.scenario.strategy || q.scenario.sharding_strategy) {
    space.strategies = {asked_strategy};
  } else {
    for (std::size_t i = 0; i < plan_strategies().size(); ++i) {
      space.strategies.push_back(static_cast<std::int32_t>(i));
    }
  }
  for (std::int32_t level = 0; level < asked_levels; ++level) {
    const std::string name(checkpointing_name(level));
    const bool tried = q.scenario.checkpointing
                           ? *q.scenario.checkpointing == name
                           : level < tried_levels && !levels_of_model(q.scenario, {name}).empty();
    if (tried) space.levels.push_back(level);
  }
  space.headroom = q.headroom;
  space.most_gpus = q.most_gpus;
  if (q.global_batch_samples) space.global_batch = *q.global_batch_samples;
  if (q.global_batch_tokens) {
    space.global_batch = *q.global_batch_tokens / static_cast<double>(plan.seq_len);
  }
  return space;
}

void check_scenario(const Space& space, const std::vector<std::string>& machines) {
  std::optional<InputError> first;
  for (const std::string& machine : machines) {
    for (const std::int32_t nodes : space.nodes) {
      Choice c;
      c.nodes = nodes;
      c.strategy = space.strategies.front();
      c.checkpointing = space.levels.front();
      c.micro_batch = space.asked.micro_batch.value_or(1);
      // What a strategy refuses of many micro-batches it refuses of two.
      c.accumulation = std::min<std::int64_t>(space.asked.accumulation.value_or(1), 2);
      try {
        const Scenario s = scenario_of(space.asked, c, machine);
        (void)placed(s, [&] { return build_schedule(resolve(s).step); });
        return;
      } catch (const InputError& error) {
        if (!first) first = error;
      }
    }
  }
  throw *first;
}

void check_global_batch(const Plan& plan, const Space& space) {
  if (space.global_batch <= 0) return;
  const bool tokens = plan.asked.global_batch_tokens.has_value();
  const char* flag = tokens ? "--global-batch-tokens" : "--global-batch-samples";
  const double said = tokens ? *plan.asked.global_batch_tokens : *plan.asked.global_batch_samples;
  const double a_sample = plan.images ? 1.0 : static_cast<double>(plan.seq_len);
  if (plan.asked.amount && space.global_batch * a_sample > *plan.asked.amount) {
    const double most = *plan.asked.amount / (tokens ? 1.0 : a_sample);
    throw at_flag(flag, fmt::format("{} is more than all that is trained on, {} {}; accepted: up "
                                    "to {}",
                                    number_text(said), number_text(*plan.asked.amount), plan.unit(),
                                    number_text(std::floor(most))));
  }
  std::int64_t gpus = std::numeric_limits<std::int64_t>::max();
  for (const PlannedMachine& m : plan.machines) {
    gpus = std::min(gpus, std::int64_t{space.nodes.front()} * m.gpus_per_node);
  }
  const std::int64_t samples =
      gpus * space.asked.micro_batch.value_or(1) * space.asked.accumulation.value_or(1);
  if (accumulation_for(space.global_batch, samples, 1) >= 1) return;
  const double least = static_cast<double>(samples) * (tokens ? a_sample : 1.0);
  throw at_flag(
      flag,
      fmt::format("{} is less than one step of the smallest cluster: {} GPUs take {} "
                  "samples{}; accepted: from {}",
                  number_text(said), gpus, samples,
                  tokens ? fmt::format(" of {} tokens", plan.seq_len) : "", number_text(least)));
}

}  // namespace stepcast

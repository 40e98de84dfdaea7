#include "sim/advise/advise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "sim/advise/unit_bytes.hpp"
#include "sim/forecast/command_line.hpp"
#include "sim/forecast/fit.hpp"
#include "sim/forecast/placed.hpp"
#include "sim/forecast/resolve.hpp"
#include "sim/memory/closed_form.hpp"
#include "sim/report/format.hpp"

namespace stepcast {
namespace {

constexpr int many_gpus = 512;        // from here on the limit of scaling is asked for
constexpr int most_gpus = 32768;      // and looked for up to here
constexpr Bytes textbook_bytes = 16;  // a parameter: 2 + 2 + 12 (docs/sources.md 4.1)
constexpr double clearly_faster = 0.95;
constexpr Bytes impossible = std::numeric_limits<Bytes>::max();

// The questions at one level of checkpointing.
class Round {
 public:
  Round(const Scenario& scenario, const Resolved& asked) : scenario_(scenario), asked_(asked) {
    ddp_ = candidate(scenario, "ddp");
    facts_.capacity = ddp_.capacity;
    facts_.gpus = asked.cluster.world_size;
    facts_.nodes = asked.cluster.nodes;
    facts_.ddp_peak = ddp_.peak;
    facts_.gradients_and_optimizer = ddp_.sharded_state;
    facts_.shard_grad_op_peak = facts_.hybrid_shard_peak = facts_.full_shard_peak = impossible;
    full_ = candidate(scenario, "full_shard");
    unit_ = largest_unit(resolve(full_.scenario).step);
    facts_.unit = unit_.total();
    if (facts_.gpus > 1) {
      facts_.full_shard_peak = full_.peak;
      grad_op_ = candidate(scenario, "shard_grad_op");
      facts_.shard_grad_op_peak = grad_op_.peak;
    }
    if (facts_.nodes > 1) {
      hybrid_ = candidate(scenario, "hybrid_shard");
      facts_.hybrid_shard_peak = hybrid_.peak;
    }
    // Times only where they can decide or be compared.
    for (Candidate* c : all()) {
      if (c->fits()) time(*c);
    }
    facts_.shard_group = default_shard_group(facts_.gpus, asked.cluster.gpus_per_node);
    facts_.exposed_all_gather = full_.exposed_all_gather;
    // Where full_shard does not fit, hybrid_shard does not either; nothing is divided by this then.
    facts_.full_shard_step = full_.step_time;
    leaf_ = decide(facts_);
  }

  Leaf leaf() const { return leaf_; }
  const Scenario& scenario() const { return scenario_; }
  const UnitBytes& unit() const { return unit_; }
  const Candidate& ddp() const { return ddp_; }
  const Candidate& full() const { return full_; }
  const Facts& facts() const { return facts_; }

  std::vector<Candidate> candidates() const {
    std::vector<Candidate> list{ddp_};
    if (facts_.gpus > 1) list.insert(list.end(), {grad_op_, full_});
    if (facts_.nodes > 1) list.push_back(hybrid_);
    return list;
  }

  const Candidate* chosen() const {
    switch (leaf_) {
      case Leaf::ddp: return &ddp_;
      case Leaf::shard_grad_op: return &grad_op_;
      case Leaf::full_shard: return &full_;
      case Leaf::hybrid_shard: return &hybrid_;
      case Leaf::exhausted:
      case Leaf::none: return nullptr;
    }
    return nullptr;
  }

  std::vector<std::string> reasons() const;

 private:
  std::vector<Candidate*> all() {
    std::vector<Candidate*> list{&ddp_};
    if (facts_.gpus > 1) list.insert(list.end(), {&grad_op_, &full_});
    if (facts_.nodes > 1) list.push_back(&hybrid_);
    return list;
  }

  std::string one_node() const;
  std::string several_nodes() const;

  Scenario scenario_;
  const Resolved& asked_;
  Candidate ddp_, grad_op_, full_, hybrid_;
  UnitBytes unit_;
  Facts facts_;
  Leaf leaf_ = Leaf::none;
};

std::string Round::one_node() const {
  const Bytes lacking = short_by(facts_), freed = freed_by_zero2(facts_);
  std::string text =
      fmt::format("Sharding gradients and optimizer over {} GPUs frees {}; {} are missing",
                  facts_.gpus, human_gib(freed), human_gib(lacking));
  const bool fits = facts_.shard_grad_op_peak <= facts_.capacity;
  if (lacking >= freed && !fits) return text + ": not enough, parameters must be sharded too.";
  if (lacking >= freed) {
    return text + fmt::format(
                      ": not enough by that count, but in {} as FSDP computes the replay "
                      "needs {}, which fits.",
                      grad_op_.precision, human_gib(facts_.shard_grad_op_peak));
  }
  if (fits) return text + ": enough.";
  return text + fmt::format(
                    ": enough by that count, but with its transient buffers the replay "
                    "needs {}.",
                    human_gib(facts_.shard_grad_op_peak));
}

std::string Round::several_nodes() const {
  if (facts_.hybrid_shard_peak > facts_.capacity) {
    return fmt::format(
        "Sharded over {} GPUs only, a GPU would need {}: more than it has, so the "
        "states go over all {}.",
        facts_.shard_group, human_gib(facts_.hybrid_shard_peak), facts_.gpus);
  }
  const double part = facts_.exposed_all_gather / facts_.full_shard_step;
  const std::string text = fmt::format(
      "Sharded over {} GPUs a GPU needs {}, which fits; all-gathers over all {} GPUs would be "
      "exposed for {} of a {} step ({})",
      facts_.shard_group, human_gib(facts_.hybrid_shard_peak), facts_.gpus,
      human_seconds(facts_.exposed_all_gather), human_seconds(facts_.full_shard_step),
      percent(part));
  return text + (part > exposed_enough ? ": keep them inside the groups and all-reduce across."
                                       : fmt::format(": not more than {}, no reason to replicate.",
                                                     percent(exposed_enough)));
}

std::vector<std::string> Round::reasons() const {
  std::vector<std::string> list;
  const Bytes over = short_by(facts_);
  list.push_back(fmt::format(
      "DDP needs {} on a GPU ({} of states, {} of activations, {} of overheads); it has {}: {}.",
      human_gib(ddp_.peak), human_gib(ddp_.state), human_gib(ddp_.activations),
      human_gib(ddp_.overhead + ddp_.communication), human_gib(ddp_.capacity),
      over == 0 ? "it fits, nothing has to be sharded"
                : fmt::format("short by {}", human_gib(over))));
  if (leaf_ == Leaf::ddp) return list;
  if (leaf_ == Leaf::exhausted) {
    list.push_back(fmt::format(
        "One unit, {}, takes {} on a GPU however many share the states: {} for its {} parameters "
        "gathered with their gradients, {} for the activations of one sequence, {} of overheads.",
        unit_.unit, human_gib(unit_.total()), human_gib(unit_.states),
        human_count(static_cast<double>(unit_.parameters)), human_gib(unit_.activations),
        human_gib(unit_.overhead)));
    return list;
  }
  if (facts_.gpus == 1) {
    list.push_back("There is one GPU: nothing to shard over.");
    return list;
  }
  list.push_back(facts_.nodes == 1 ? one_node() : several_nodes());
  if (leaf_ == Leaf::full_shard) {
    list.push_back(fmt::format("Sharded over all {} GPUs, a GPU needs {}: it fits.", facts_.gpus,
                               human_gib(full_.peak)));
  } else if (leaf_ == Leaf::none) {
    list.push_back(fmt::format(
        "Sharded over all {} GPUs, a GPU still needs {}, of which {} are activations that no "
        "sharding makes smaller.",
        facts_.gpus, human_gib(full_.peak), human_gib(full_.activations)));
  }
  return list;
}

std::string answer_of(const Round& round, const Candidate& chosen, const std::string& asked) {
  const std::string now = round.scenario().checkpointing.value_or("none");
  std::string text = fmt::format("{} ({})", chosen.name, chosen.also);
  if (now != asked) text += fmt::format(" with {} checkpointing", now);
  return text + fmt::format(": {} of {} a GPU, {} a step.", human_gib(chosen.peak),
                            human_gib(chosen.capacity), human_seconds(chosen.step_time));
}

std::string answer_exhausted(const Round& round) {
  const int degree = model_parallel_degree(round.unit(), round.facts().capacity);
  if (degree == 0) {
    return "The overheads of a process alone do not fit this GPU.";
  }
  return fmt::format(
      "Data parallelism is exhausted: cut each unit over {} GPUs by tensor parallelism (or make "
      "the "
      "units smaller), which stepcast does not simulate, and shard what is left.",
      degree);
}

void say_answer(Advice& advice, const Round& round) {
  advice.leaf = round.leaf();
  advice.with_checkpointing = round.scenario().checkpointing.value_or("none");
  if (const Candidate* chosen = round.chosen()) {
    advice.answer = answer_of(round, *chosen, advice.checkpointing);
    advice.command = command_of(chosen->scenario);
    return;
  }
  advice.feasible = false;
  if (round.leaf() == Leaf::exhausted) {
    advice.answer = answer_exhausted(round);
    return;
  }
  const std::string change = smallest_change(round.full().scenario);
  if (!change.empty()) {
    advice.answer = "Nothing fits as it is; under full sharding what does: " + change + ".";
    return;
  }
  advice.answer = "Nothing that was tried fits";
  const Bytes room = round.facts().capacity - round.full().overhead;
  const auto fewest = fewest_shards(advice.parameters, Partition::everything, fp32_shard(),
                                    std::max<Bytes>(room, 0));
  const bool states_are_why = fewest && *fewest > round.facts().gpus;
  advice.answer +=
      states_are_why ? fmt::format("; its states alone need {} of these GPUs.", *fewest) : ".";
}

// Another candidate that the forecast says is clearly faster than the advice.
std::string faster_than(const Round& round, const Candidate& chosen) {
  for (const Candidate& c : round.candidates()) {
    if (!c.fits() || c.step_time >= clearly_faster * chosen.step_time) continue;
    const bool other_precision =
        resolve(c.scenario).step.precision.name != resolve(chosen.scenario).step.precision.name;
    return fmt::format(
        "The rule asks for the least traffic; the forecast has {} faster here, {} against {}{}.",
        c.name, human_seconds(c.step_time), human_seconds(chosen.step_time),
        other_precision ? ", each in its usual precision (AMP works on whole fp32 parameters)"
                        : "");
  }
  return "";
}

// The asked level of checkpointing and those above it that the model has.
std::vector<std::string> levels_from(const std::string& asked, const Scenario& scenario) {
  std::vector<std::string> above{"full"};
  if (asked == "none") above.insert(above.begin(), "selective");
  if (asked == "full") above.clear();
  std::vector<std::string> levels = levels_of_model(scenario, above);
  levels.insert(levels.begin(), asked);
  return levels;
}

// From the asked level of checkpointing upwards, the first at which something fits.
void decide_by_level(Advice& advice, const Scenario& scenario, const Resolved& asked) {
  const std::vector<std::string> levels = levels_from(advice.checkpointing, scenario);
  for (auto level = levels.begin(); level != levels.end(); ++level) {
    Scenario s = scenario;
    s.checkpointing = *level;
    const Round round(s, asked);
    for (const std::string& reason : round.reasons()) {
      advice.reasons.push_back(*level == advice.checkpointing
                                   ? reason
                                   : fmt::format("({} checkpointing) {}", *level, reason));
    }
    advice.candidates = round.candidates();
    const bool last = level + 1 == levels.end();
    // Checkpointing is of use only where it is activations that do not fit.
    const Candidate& sharded = round.facts().gpus > 1 ? round.full() : round.ddp();
    const bool would_help = sharded.peak - sharded.activations <= sharded.capacity;
    if (round.leaf() == Leaf::none && !last && would_help) {
      advice.reasons.push_back(fmt::format(
          "Without its activations it would need {}: checkpointing, which sharding cannot replace, "
          "is what helps.",
          human_gib(sharded.peak - sharded.activations)));
      continue;
    }
    const Candidate& ddp = round.ddp();
    advice.capacity = ddp.capacity;
    const Bytes states = textbook_bytes * advice.parameters;
    advice.rule_low = states + states / 5;
    advice.rule_high = states + states / 2;
    advice.real_factor = static_cast<double>(ddp.peak) / static_cast<double>(states);
    say_answer(advice, round);
    if (const Candidate* chosen = round.chosen()) advice.remark = faster_than(round, *chosen);
    advice.largest = largest_models(s, asked.cluster.world_size, asked.cluster.nodes);
    if (const Candidate* chosen = round.chosen(); chosen && asked.cluster.world_size >= many_gpus) {
      const int node = asked.cluster.gpus_per_node;
      advice.scaling = scaling_limit(chosen->scenario, std::max(2, most_gpus / node));
    }
    return;
  }
}

Advice advice_for(const Scenario& scenario) {
  if (scenario.params) {
    throw InputError(scenario.where("params"),
                     "advice needs a model: its layers, activations and units; `stepcast memory` "
                     "takes a parameter count");
  }
  // The strategy asked for matters to nobody here; what else is wrong shall be said first.
  const Resolved asked = resolve(with_strategy(scenario, "ddp"));
  refuse_replicas(asked, "advice");
  Advice advice;
  advice.model = asked.step.model.name;
  advice.parameters = asked.step.model.parameter_elements();
  advice.machine = asked.cluster.machine.full_name;
  advice.gpu = asked.cluster.machine.gpu.full_name;
  advice.nodes = asked.cluster.nodes;
  advice.gpus = asked.cluster.world_size;
  advice.micro_batch = asked.step.workload.micro_batch;
  advice.checkpointing = scenario.checkpointing.value_or("none");
  decide_by_level(advice, scenario, asked);
  return advice;
}

}  // namespace

Advice advise(const Scenario& scenario) {
  return placed(scenario, [&] { return advice_for(scenario); });
}

}  // namespace stepcast

// stepcast plan: which machines, how many, and how, for a training.

#include "sim/plan/plan.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <memory>

#include "base/error.hpp"
#include "base/number_text.hpp"
#include "cli/command.hpp"
#include "cli/document_output.hpp"
#include "cli/scenario_flags.hpp"

namespace stepcast::cli {

namespace {

struct Options {
  std::string file;
  std::optional<double> amount, images, deadline, budget;
  std::optional<double> batch_tokens, batch_samples, tuned_batch;
  std::vector<std::string> machines;
  std::int64_t most_nodes = 64;
  std::optional<std::int64_t> most_gpus;
  double headroom = 0.1;
  std::string rank, prices, writer = "sharded";
  FailureOptions failures;
  std::int64_t runs = 0, seed = 1;
  std::optional<double> mtbf, checkpoint_gb;
  bool blocking = false;
  int workers = 0;
  DocumentOutput output{.kind = "plan"};
};

Where flag(const char* name) { return {.file = name, .line = 0, .key = ""}; }

template <typename Number>
void in_range(const char* name, Number value, double least, double most) {
  const auto v = static_cast<double>(value);
  if (v >= least && v <= most) return;
  throw InputError(flag(name), fmt::format("{} is not accepted; accepted: {} to {}", number_text(v),
                                           number_text(least), number_text(most)));
}

void check(const Options& o) {
  in_range("--max-nodes", o.most_nodes, 1, 4096);
  if (o.most_gpus) in_range("--max-gpus", *o.most_gpus, 1, 65536);
  in_range("--headroom", o.headroom, 0, 0.95);
  if (o.mtbf) in_range("--mtbf-hours", *o.mtbf, 1e-3, 1e9);
  in_range("--restart-minutes", o.failures.restart_minutes, 0, 1e5);
  if (o.checkpoint_gb) in_range("--checkpoint-gb", *o.checkpoint_gb, 1e-6, 1e9);
  in_range("--checkpoint-begin", o.failures.begin_seconds, 0, 1e5);
  in_range("--checkpoint-gbps", o.failures.node_gbps, 1e-6, 1e6);
  in_range("--checkpoint-total-gbps", o.failures.storage_gbps, 1e-6, 1e9);
  in_range("--simulate-failures", o.runs, 0, 100000);
  in_range("--seed", o.seed, 0, 9e15);
  in_range("--workers", o.workers, 0, 1024);
  if (o.amount && o.images) {
    throw InputError(flag("--images"), "--tokens says it already; accepted: one of the two");
  }
  if (!o.failures.none) return;
  if (o.mtbf) throw InputError(flag("--mtbf-hours"), "contradicts --no-failures");
  if (o.runs > 0) throw InputError(flag("--simulate-failures"), "contradicts --no-failures");
}

Rank rank_of(const std::string& word) {
  for (const Rank rank : {Rank::days, Rank::cost, Rank::amount}) {
    if (word == to_string(rank)) return rank;
  }
  throw not_accepted(flag("--rank"), word, {"days", "cost", "amount"});
}

PlanQuestion question_of(const Options& o, const ScenarioFlags& flags) {
  check(o);
  PlanQuestion q;
  q.scenario = flags.read(o.file);
  q.amount = o.amount ? o.amount : o.images;
  q.of_images = o.images.has_value();
  q.deadline_days = o.deadline;
  q.budget_usd = o.budget;
  q.machines = o.machines;
  q.most_nodes = static_cast<std::int32_t>(o.most_nodes);
  q.most_gpus = o.most_gpus.value_or(0);
  q.headroom = o.headroom;
  q.global_batch_tokens = o.batch_tokens;
  q.global_batch_samples = o.batch_samples;
  q.tuned_batch_tokens = o.tuned_batch;
  if (!o.rank.empty()) q.rank = rank_of(o.rank);
  q.prices_file = o.prices;
  q.failures = o.failures;
  q.failures.node_mtbf_hours = o.mtbf.value_or(0);
  q.failures.checkpoint_bytes = o.checkpoint_gb.value_or(0) * 1e9;
  q.failures.background = !o.blocking;
  if (o.writer == "gathered") {
    q.failures.writer = CheckpointWriter::gathered;
  } else if (o.writer != "sharded") {
    throw not_accepted(flag("--checkpoint"), o.writer, {"sharded", "gathered"});
  }
  q.failures.runs = static_cast<int>(o.runs);
  q.failures.seed = static_cast<std::uint64_t>(o.seed);
  q.workers = o.workers;
  return q;
}

int run(const Options& options, const ScenarioFlags& flags) {
  options.output.check();
  PlanQuestion question = question_of(options, flags);
  const bool terminal = isatty(STDERR_FILENO) == 1;
  if (terminal) {
    question.progress = [](int done, int all) {
      std::fprintf(stderr, "\rstepcast: %d of %d machines", done, all);
      if (done == all) std::fprintf(stderr, "\r\033[K");
      std::fflush(stderr);
    };
  }
  const Plan result = plan(question);
  options.output.show(result);
  if (result.points.empty()) {
    for (const PlannedMachine& m : result.machines) {
      if (!m.why_not.starts_with("no price")) continue;
      throw InfeasibleError(m.name + " has no price, and no machine with one holds the model");
    }
    throw InfeasibleError(
        "no machine holds the model within " +
        fmt::format("{} nodes", question.scenario.nodes.value_or(question.most_nodes)));
  }
  return 0;
}

Run add(CLI::App& command) {
  auto o = std::make_shared<Options>();
  auto flags = std::make_shared<ScenarioFlags>(command);
  command
      .add_option("scenario", o->file,
                  "scenario file in TOML; what it fixes is not searched; flags override it")
      ->option_text("FILE");
  const auto number = [&](const char* name, auto& field, const char* help, const char* group) {
    command.add_option(name, field, help)->option_text("N")->group(group);
  };
  const char* goal = "Goal";
  number("--tokens", o->amount, "tokens to train on", goal);
  number("--images", o->images, "images to train on", goal);
  number("--deadline", o->deadline, "days that it may take; alone: how much they train", goal);
  number("--budget", o->budget, "US dollars that it may cost; alone: how much they train", goal);
  command
      .add_option("--rank", o->rank,
                  "days, cost or amount (default days; cost with a deadline; amount without "
                  "--tokens)")
      ->option_text("NAME")
      ->group(goal);
  const char* search = "Search";
  command.add_option("--machines", o->machines, "machines to choose from (default: the catalog)")
      ->delimiter(',')
      ->option_text("NAME,...")
      ->group(search);
  number("--max-nodes", o->most_nodes, "nodes at most: 1, 2, 4, ... and this (default 64)", search);
  number("--max-gpus", o->most_gpus, "GPUs at most, in all (default: no limit)", search);
  number("--headroom", o->headroom, "part of a GPU's memory that stays free (default 0.1)", search);
  number("--global-batch-tokens", o->batch_tokens,
         "tokens a step at most; accumulation fills it up", search);
  number("--global-batch-samples", o->batch_samples, "the same in sequences or images", search);
  number("--tuned-batch-tokens", o->tuned_batch, "the batch that the learning rate was found for",
         search);
  number("--workers", o->workers, "processes (default: all cores)", search);
  command
      .add_option("--prices", o->prices,
                  "prices and power over those of the catalog, TOML (docs/planning.md)")
      ->option_text("FILE")
      ->group("Prices");
  const char* failing = "Failures";
  number("--mtbf-hours", o->mtbf, "hours between failures of a node (default: Llama 3's GPUs)",
         failing);
  number("--restart-minutes", o->failures.restart_minutes,
         "from a failure to training again, without the reading (default 15)", failing);
  command.add_flag("--no-failures", o->failures.none, "nothing ever fails")->group(failing);
  command
      .add_option("--checkpoint", o->writer,
                  "sharded: every rank writes its shard; gathered: rank 0 all (default sharded)")
      ->option_text("NAME")
      ->group(failing);
  command.add_flag("--blocking", o->blocking, "training waits until a checkpoint is written")
      ->group(failing);
  number("--checkpoint-gb", o->checkpoint_gb, "size of one (default: weights and moments, fp32)",
         failing);
  number("--checkpoint-begin", o->failures.begin_seconds,
         "seconds that every checkpoint stops training before it copies (default 1)", failing);
  number("--checkpoint-gbps", o->failures.node_gbps, "GB/s from a node to storage (default 2)",
         failing);
  number("--checkpoint-total-gbps", o->failures.storage_gbps,
         "GB/s that the storage takes in all (default 100)", failing);
  number("--simulate-failures", o->runs, "runs of the best plan, event by event", failing);
  number("--seed", o->seed, "of those runs (default 1)", failing);
  o->output.add_to(command);
  return [o, flags] { return run(*o, *flags); };
}

}  // namespace

const Command plan_command{
    "plan", "which machines, how many, and how, for a training: days, cost, energy",
    "  stepcast plan --model llama-3-8b --seq-len 8192 --tokens 1e12 --max-nodes 64\n"
    "  stepcast plan --model llama-3-70b --tokens 2e11 --deadline 30 --machines aws-p5,hgx-b200\n"
    "  stepcast plan --model llama-3.2-1b --budget 20000 --prices mine.toml",
    add};

}  // namespace stepcast::cli

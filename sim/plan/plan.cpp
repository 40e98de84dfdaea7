#include "sim/plan/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "sim/forecast/resolve.hpp"
#include "sim/plan/question.hpp"
#include "sim/plan/workers.hpp"
#include "sim/report/format.hpp"

namespace stepcast {
namespace {

double optimizer_bytes(const Scenario& s) {
  const std::string optimizer = s.optimizer.value_or("adamw-fused");
  return optimizer == "sgd" ? 0 : optimizer == "sgd-momentum" ? 4 : 8;
}

Plan begun(const PlanQuestion& q) {
  Plan plan;
  plan.asked = q;
  const Scenario& s = q.scenario;
  const Model model = load_model(scenario_path(s, "model", *s.model), s.seq_len.value_or(0),
                                 s.image_size.value_or(0));
  plan.model = model.name;
  plan.parameters = model.parameter_elements();
  plan.images = takes_images(model.architecture.family);
  if (q.amount && q.of_images != plan.images) {
    throw at_flag(q.of_images ? "--images" : "--tokens",
                  plan.images ? "the model takes images; accepted: --images"
                              : "the model takes tokens; accepted: --tokens");
  }
  if (!plan.images) {
    plan.seq_len = s.seq_len.value_or(model.architecture.max_positions);
  } else if (q.global_batch_tokens || q.tuned_batch_tokens) {
    throw at_flag(q.global_batch_tokens ? "--global-batch-tokens" : "--tuned-batch-tokens",
                  "the model takes images; accepted: --global-batch-samples");
  }
  plan.rank = q.rank.value_or(!q.amount ? Rank::amount : q.deadline_days ? Rank::cost : Rank::days);
  const double bytes = q.failures.checkpoint_bytes > 0
                           ? q.failures.checkpoint_bytes
                           : static_cast<double>(plan.parameters) * (4 + optimizer_bytes(s));
  plan.checkpoint_bytes = static_cast<Bytes>(bytes);
  return plan;
}

// Smaller is better; what has no cost comes last.
double key_of(const PlanPoint& p, Rank rank) {
  switch (rank) {
    case Rank::days: return p.days;
    case Rank::cost: return p.cost.value_or(std::numeric_limits<double>::infinity());
    case Rank::amount: return -p.amount;
  }
  return 0;
}

// Days against cost, or where the amount is what differs, amount against cost.
void find_front(Plan& plan) {
  std::vector<int> order;
  for (std::size_t i = 0; i < plan.points.size(); ++i) {
    if (plan.points[i].cost && plan.points[i].amount > 0) order.push_back(static_cast<int>(i));
  }
  const auto first_key = [&](int i) {
    const PlanPoint& p = plan.points[static_cast<std::size_t>(i)];
    return plan.asked.amount ? p.days : -p.amount;
  };
  const auto cost = [&](int i) { return *plan.points[static_cast<std::size_t>(i)].cost; };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return first_key(a) != first_key(b) ? first_key(a) < first_key(b) : cost(a) < cost(b);
  });
  double least = std::numeric_limits<double>::infinity();
  for (const int i : order) {
    if (cost(i) >= least) continue;
    least = cost(i);
    plan.points[static_cast<std::size_t>(i)].on_front = true;
    plan.front.push_back(i);
  }
}

// ---- a further node, for the points that are shown
void add_next(Plan& plan, const Space& space, Evaluator& evaluator,
              const std::vector<Machine>& nodes, double pue) {
  std::vector<int> shown = plan.front;
  for (const PlannedMachine& m : plan.machines) {
    if (m.best >= 0) shown.push_back(m.best);
  }
  std::sort(shown.begin(), shown.end());
  shown.erase(std::unique(shown.begin(), shown.end()), shown.end());
  const auto at = [&](int i) -> PlanPoint& { return plan.points[static_cast<std::size_t>(i)]; };
  const auto one_more = [&](int piece) {
    const PlanPoint& p = at(shown[static_cast<std::size_t>(piece)]);
    Choice c = p.trial.choice;
    ++c.nodes;
    const PlannedMachine& m = plan.machines[static_cast<std::size_t>(c.machine)];
    if (space.global_batch > 0) {
      const std::int64_t fills = accumulation_for(space.global_batch, c.micro_batch,
                                                  std::int64_t{c.nodes} * m.gpus_per_node);
      if (fills < space.asked.accumulation.value_or(1))
        throw InputError("the global batch is full");
      if (!space.asked.accumulation) c.accumulation = fills;
    }
    return packed(std::vector<Trial>{timed(evaluator, space.asked, c, m.name, "fluid")});
  };
  const auto answer = [&](int piece) -> std::string {
    try {
      return one_more(piece);
    } catch (const InputError& error) {
      return packed(std::vector<Trial>{}) + error.what();
    } catch (const InfeasibleError& error) {
      return packed(std::vector<Trial>{}) + error.what();
    }
  };
  const int workers = plan.asked.workers > 0 ? plan.asked.workers : cores();
  const std::vector<std::string> answers =
      in_workers(static_cast<int>(shown.size()), workers, answer);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    PlanPoint& p = at(shown[i]);
    const PlannedMachine& m = plan.machines[static_cast<std::size_t>(p.trial.choice.machine)];
    if (nodes[static_cast<std::size_t>(p.trial.choice.machine)].nics.empty()) {
      p.next.why_not = "the machine has no NIC";
      continue;
    }
    const std::vector<Trial> trials = unpacked_trials(answers[i]);
    if (trials.empty()) {
      p.next.why_not = answers[i].substr(sizeof(std::size_t));
      continue;
    }
    if (!trials.front().fits) {
      p.next.why_not = "it does not fit";
      continue;
    }
    const Machine& node = nodes[static_cast<std::size_t>(p.trial.choice.machine)];
    const PlanPoint with = point_of(plan, m, trials.front(), node, pue);
    p.next.nodes = with.trial.choice.nodes;
    p.next.rate_gain = with.rate - p.rate;
    p.next.share = p.next.rate_gain / (p.rate / p.trial.choice.nodes);
    p.next.days_saved = p.days - with.days;
    p.next.amount_added = with.amount - p.amount;
    if (p.cost && with.cost) p.next.cost_added = *with.cost - *p.cost;
  }
}

// ---- the best plan's checkpoints, all four ways, and its failures played out
void add_ways(Plan& plan, const std::vector<Machine>& nodes, double pue) {
  if (plan.points.empty() || plan.asked.failures.none) return;
  const PlanPoint& best = plan.points.front();
  const auto m = static_cast<std::size_t>(best.trial.choice.machine);
  for (const CheckpointWriter writer : {CheckpointWriter::sharded, CheckpointWriter::gathered}) {
    for (const bool background : {true, false}) {
      Plan other;
      other.asked = plan.asked;
      other.seq_len = plan.seq_len;
      other.images = plan.images;
      other.checkpoint_bytes = plan.checkpoint_bytes;
      other.asked.failures.writer = writer;
      other.asked.failures.background = background;
      const PlanPoint p = point_of(other, plan.machines[m], best.trial, nodes[m], pue);
      plan.ways.push_back({writer, background, p.checkpoint, p.interval});
    }
  }
  const FailureOptions& f = plan.asked.failures;
  if (f.runs > 0) {
    plan.simulated = run_jobs(f.runs, best.days_without_failures * 86400, best.interval.interval,
                              best.checkpoint, best.rates, f.seed);
  }
}

void add_assumptions(Plan& plan, const Prices& prices) {
  const FailureOptions& f = plan.asked.failures;
  auto& list = plan.assumptions;
  list.emplace_back(
      "prices are list prices of whole nodes by the GPU-hour, each with its source and date in "
      "--json; --prices FILE brings your own");
  list.push_back(
      fmt::format("energy is an upper limit: GPUs at their board limit, the node's overhead, PUE "
                  "{:g} ({})",
                  prices.pue(), prices.pue_source()));
  if (f.none) {
    list.emplace_back("nothing fails (--no-failures)");
    return;
  }
  list.push_back(
      f.node_mtbf_hours > 0
          ? fmt::format("a node fails every {:g} hours", f.node_mtbf_hours)
          : fmt::format(
                "a GPU's share of failures is one in {} hours: 419 interruptions in 54 days "
                "on 16,384 H100 (The Llama 3 Herd of Models, 2024); --mtbf-hours says a "
                "node's",
                grouped(gpu_mtbf_hours)));
  list.push_back(fmt::format(
      "a checkpoint is {} ({}), {} and written {}; {:g} s to begin, {:g} GB/s a node, {:g} GB/s in "
      "all; a restart takes {:g} minutes and the reading; all assumed where no flag says otherwise",
      human_bytes(static_cast<double>(plan.checkpoint_bytes)),
      f.checkpoint_bytes > 0 ? "as said" : "fp32 weights and the optimizer's moments",
      to_string(f.writer), f.background ? "in the background" : "while training waits",
      f.begin_seconds, f.node_gbps, f.storage_gbps, f.restart_minutes));
}

}  // namespace

std::string_view to_string(Rank rank) {
  return rank == Rank::days ? "days" : rank == Rank::cost ? "cost" : "amount";
}

Plan plan(const PlanQuestion& question) {
  check_question(question);
  Plan plan = begun(question);
  const std::vector<std::string> names = machines_of(question);
  Prices prices = Prices::shipped();
  if (!question.prices_file.empty()) {
    std::vector<std::string> known = catalog_machines();
    for (const std::string& name : names) {
      if (std::find(known.begin(), known.end(), name) == known.end()) known.push_back(name);
    }
    prices.lay_over(read_file(question.prices_file, 1 << 20), question.prices_file, known);
  }
  std::vector<Machine> nodes;
  for (const std::string& name : names) {
    nodes.push_back(load_machine(name));
    const Machine& node = nodes.back();
    PlannedMachine& m = plan.machines.emplace_back();
    m.name = name;
    m.full_name = node.full_name;
    m.gpu = node.gpu.full_name;
    m.gpus_per_node = static_cast<int>(
        question.scenario.gpus_per_node.value_or(static_cast<std::int64_t>(node.gpus.size())));
    m.price = prices.of(name);
    if (m.price.overhead_watts) {
      m.node_watts =
          static_cast<double>(node.gpus.size()) * node.gpu.power_watts + *m.price.overhead_watts;
    }
  }
  const Space space = space_of(question, plan);
  check_scenario(space, names);
  check_global_batch(plan, space);

  // In a worker both live on: what they remember serves the next machine.
  Evaluator evaluator;
  Searcher searcher(space, evaluator);
  const int workers = question.workers > 0 ? question.workers : cores();
  const int count = static_cast<int>(names.size());
  const std::vector<std::string> answers = in_workers(
      count, workers,
      [&](int i) { return packed(searcher.search(names[static_cast<std::size_t>(i)], i)); },
      [&](int done) {
        if (question.progress) question.progress(done, count);
      });
  for (std::size_t i = 0; i < names.size(); ++i) {
    const MachineSearch search = unpacked_search(answers[i]);
    plan.machines[i].why_not = search.why_not;
    plan.counts.configurations += search.counts.configurations;
    plan.counts.replays += search.counts.replays;
    plan.counts.screened += search.counts.screened;
    plan.counts.confirmed += search.counts.confirmed;
    if (question.budget_usd && !plan.machines[i].price.usd_per_gpu_hour && !search.best.empty()) {
      plan.machines[i].why_not = "no price, so nothing keeps to a budget; --prices FILE brings one";
      continue;
    }
    for (const Trial& trial : search.best) {
      PlanPoint p = point_of(plan, plan.machines[i], trial, nodes[i], prices.pue());
      if (p.interval.goodput > 1e-6 && std::isfinite(p.days)) plan.points.push_back(std::move(p));
    }
  }
  const auto late = [&](const PlanPoint& p) {
    return !p.meets && question.deadline_days && p.days > *question.deadline_days;
  };
  std::stable_sort(plan.points.begin(), plan.points.end(),
                   [&](const PlanPoint& a, const PlanPoint& b) {
                     if (a.meets != b.meets) return a.meets;
                     // What misses a deadline is shown where it misses it by least.
                     const bool late_a = late(a), late_b = late(b);
                     if (late_a != late_b) return late_b;
                     const Rank rank = late_a ? Rank::days : plan.rank;
                     const double x = key_of(a, rank), y = key_of(b, rank);
                     return x != y ? x < y : a.days < b.days;
                   });
  for (std::size_t i = plan.points.size(); i-- > 0;) {
    const auto m = static_cast<std::size_t>(plan.points[i].trial.choice.machine);
    plan.machines[m].best = static_cast<int>(i);
  }
  find_front(plan);
  add_next(plan, space, evaluator, nodes, prices.pue());
  add_ways(plan, nodes, prices.pue());
  add_assumptions(plan, prices);
  return plan;
}

}  // namespace stepcast

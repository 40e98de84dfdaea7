#include "sim/plan/trial.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "sim/forecast/interval.hpp"
#include "sim/report/fullest_link.hpp"

namespace stepcast {
namespace {

constexpr std::array<std::string_view, limits> limit_names{"compute", "memory", "nvlink", "pcie",
                                                           "nic",     "fabric", "host",   "loader"};
constexpr std::array<std::string_view, asked_levels> levels{"none", "selective", "full",
                                                            "selective-op"};

// "tail_all_reduce" ends in the kind.
Limit link_of(const Report& report, const std::string& cause) {
  const std::string link = fullest_link(report.collectives, [&](const CollectiveRow& row) {
    return cause.ends_with("_" + std::string(to_string(row.kind)));
  });
  const auto found = std::find(limit_names.begin(), limit_names.end(), link);
  return found == limit_names.end() ? Limit::nvlink
                                    : static_cast<Limit>(found - limit_names.begin());
}

}  // namespace

std::string_view to_string(Limit limit) { return limit_names[static_cast<std::size_t>(limit)]; }
std::string_view checkpointing_name(int level) { return levels[static_cast<std::size_t>(level)]; }

Limit largest(const Shares& shares, Limit except) {
  auto best = limits;
  for (std::size_t i = 0; i < limits; ++i) {
    if (i == static_cast<std::size_t>(except)) continue;
    if (best == limits || shares[i] > shares[best]) best = i;
  }
  return static_cast<Limit>(best);
}
Limit largest(const Shares& shares) {
  return static_cast<Limit>(std::max_element(shares.begin(), shares.end()) - shares.begin());
}

Shares shares_of(const Report& r) {
  Shares shares{};
  const auto at = [&](Limit limit) -> double& { return shares[static_cast<std::size_t>(limit)]; };
  const TimeSplit& s = r.split;
  const double again = r.hfu > r.mfu ? 1 - r.mfu / r.hfu : 0;  // of the operations: repeated
  at(Limit::compute) = s.compute * (1 - again) + s.copies + s.interference + s.optimizer;
  at(Limit::memory) = s.compute * again;
  at(Limit::host) = s.host + s.other;
  for (const ExposedPart& part : s.exposed) {
    if (part.cause == "loader") {
      at(Limit::loader) += part.seconds;
    } else if (part.cause == "slowest_rank") {  // its kernels, which take longer
      at(Limit::compute) += part.seconds;
    } else {
      at(link_of(r, part.cause)) += part.seconds;
    }
  }
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  if (sum > 0) {
    for (double& share : shares) share /= sum;
  }
  return shares;
}

const std::vector<PlanStrategy>& plan_strategies() {
  static const std::vector<PlanStrategy> list{{"ddp", "ddp"},
                                              {"zero1", "zero1"},
                                              {"shard_grad_op", "fsdp2"},
                                              {"full_shard", "fsdp2"},
                                              {"hybrid_shard", "hsdp", true}};
  return list;
}

Scenario scenario_of(const Scenario& asked, const Choice& choice, const std::string& machine) {
  Scenario s = asked;
  if (choice.strategy != asked_strategy) {
    const PlanStrategy& strategy = plan_strategies()[static_cast<std::size_t>(choice.strategy)];
    s = without_strategy(asked);
    s.strategy = std::string(strategy.strategy);
    if (strategy.name == "shard_grad_op") s.reshard_after_forward = YesNoOrCount{false, 0};
  }
  s.cluster = machine;
  s.nodes = choice.nodes;
  s.micro_batch = choice.micro_batch;
  if (choice.accumulation > 1 || asked.accumulation) s.accumulation = choice.accumulation;
  s.checkpointing = std::string(checkpointing_name(choice.checkpointing));
  if (choice.expandable) s.expandable_segments = true;
  return s;
}

Trial timed(Evaluator& evaluator, const Scenario& asked, const Choice& choice,
            const std::string& machine, const std::string& engine) {
  Scenario s = scenario_of(asked, choice, machine);
  s.engine = engine;
  const EvaluatedReport e = evaluator.report(s);
  const Report& r = e.report;
  Trial t;
  t.choice = choice;
  t.fits = r.fits;
  t.capacity = r.capacity;
  for (const RoleMemory& role : r.memory) {
    t.peak = std::max(t.peak, role.peak);
    if (role.reserved) t.retries = std::max(t.retries, role.reserved->retries);
  }
  const StepInterval interval = interval_of(r, e.profile);
  t.step = r.step_time;
  t.low = interval.low;
  t.high = interval.high;
  t.samples = r.samples_per_step;
  t.mfu = r.mfu;
  t.hfu = r.hfu;
  t.shares = shares_of(r);
  return t;
}

}  // namespace stepcast

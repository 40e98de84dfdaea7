// From a step to a job: days, cost, energy, checkpoints.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "sim/forecast/command_line.hpp"
#include "sim/plan/plan.hpp"
#include "topologies/link_rates.hpp"

namespace stepcast {
namespace {

constexpr double day = 86400;
constexpr double hour = 3600;
constexpr double copy_efficiency = 0.8;  // of PCIe, from pinned memory (sim/forecast/bind.cpp)

CheckpointSetup setup_of(const Plan& plan, const PlannedMachine& machine, const Trial& trial,
                         const Machine& node) {
  const FailureOptions& f = plan.asked.failures;
  CheckpointSetup setup;
  setup.bytes = plan.checkpoint_bytes;
  setup.nodes = trial.choice.nodes;
  setup.gpus = trial.choice.nodes * machine.gpus_per_node;
  setup.begin = f.begin_seconds;
  setup.node_gbps = f.node_gbps;
  setup.storage_gbps = f.storage_gbps;
  const Gpu& gpu = node.gpu;
  setup.copy_gbps =
      gpu.c2c_gbps > 0
          ? gpu.c2c_gbps
          : copy_efficiency * pcie_gbps(std::clamp(gpu.pcie_generation, 1, 6), gpu.pcie_width);
  if (trial.choice.nodes > 1) {
    const double of_nic =
        plan.asked.scenario.nic_gbps.value_or(node.graph[node.nics.front()].nic_gbps);
    const auto a_gpu = static_cast<double>(node.nics.size() / node.gpus.size());
    setup.gather_gbps = of_nic * std::max(1.0, a_gpu);
  }
  setup.host_memory_bytes = node.host_memory_bytes;
  return setup;
}

FailureRates rates_of(const Plan& plan, const PlannedMachine& machine, const Trial& trial,
                      const CheckpointCost& cost) {
  const FailureOptions& f = plan.asked.failures;
  if (f.none) return {};
  const double node_hours =
      f.node_mtbf_hours > 0 ? f.node_mtbf_hours : gpu_mtbf_hours / machine.gpus_per_node;
  return {node_hours * hour / trial.choice.nodes, f.restart_minutes * 60 + cost.read};
}

// The largest amount that deadline and budget allow.
double amount_within(const PlanQuestion& asked, double a_day, std::optional<double> usd_a_day) {
  double days = asked.deadline_days.value_or(std::numeric_limits<double>::infinity());
  if (asked.budget_usd) {
    if (!usd_a_day) return 0;
    days = std::min(days, *asked.budget_usd / *usd_a_day);
  }
  return days * a_day;
}

}  // namespace

PlanPoint point_of(const Plan& plan, const PlannedMachine& machine, const Trial& trial,
                   const Machine& node, double pue) {
  const PlanQuestion& asked = plan.asked;
  PlanPoint p;
  p.trial = trial;
  p.machine = machine.name;
  p.machine_name = machine.full_name;
  p.gpu = machine.gpu;
  p.gpus = trial.choice.nodes * machine.gpus_per_node;
  const Scenario s = scenario_of(asked.scenario, trial.choice, machine.name);
  p.strategy =
      trial.choice.strategy == asked_strategy
          ? s.strategy.value_or(s.sharding_strategy.value_or(""))
          : std::string(plan_strategies()[static_cast<std::size_t>(trial.choice.strategy)].name);
  p.command = command_of(s);
  p.amount_a_step = trial.samples * (plan.images ? 1.0 : static_cast<double>(plan.seq_len));
  p.rate = p.amount_a_step / trial.step;
  p.headroom = 1 - static_cast<double>(trial.peak) / static_cast<double>(trial.capacity);

  const CheckpointSetup setup = setup_of(plan, machine, trial, node);
  p.checkpoint = checkpoint_cost(setup, asked.failures.writer, asked.failures.background);
  p.rates = rates_of(plan, machine, trial, p.checkpoint);
  p.interval = best_interval(p.checkpoint, p.rates);

  const double a_day = p.rate * p.interval.goodput * day;
  std::optional<double> usd_a_day;
  if (machine.price.usd_per_gpu_hour) {
    usd_a_day = *machine.price.usd_per_gpu_hour * 24 * trial.choice.nodes *
                static_cast<double>(node.gpus.size());
  }
  p.amount = asked.amount.value_or(amount_within(asked, a_day, usd_a_day));
  p.days_without_failures = p.amount / p.rate / day;
  p.days = p.amount / a_day;
  p.days_low = p.days * trial.low / trial.step;
  p.days_high = p.days * trial.high / trial.step;
  if (usd_a_day) {
    p.cost = p.days * *usd_a_day;
    p.cost_low = p.days_low * *usd_a_day;
    p.cost_high = p.days_high * *usd_a_day;
  }
  if (machine.node_watts > 0) {
    p.kwh = p.days * 24 * trial.choice.nodes * machine.node_watts / 1000 * pue;
  }
  constexpr double rounding = 1 + 1e-9;
  if (asked.deadline_days) p.meets = p.days <= *asked.deadline_days * rounding;
  if (asked.budget_usd) p.meets = p.meets && p.cost && *p.cost <= *asked.budget_usd * rounding;
  return p;
}

}  // namespace stepcast

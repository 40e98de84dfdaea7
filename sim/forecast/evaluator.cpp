// What is kept from one scenario to the next, and by what it is found again:
//
//   files and catalogs   by name (sources.hpp)
//   NCCL's searches      by machine; Collectives keys them by GPUs, NIC speed and NCCL's settings
//   communicators        all that says cluster and NCCL, and the mesh; they keep each call's cost
//   schedule and ledger  all of the scenario but its rates (rate_keys below)
//   the replay of the allocator
//                        the schedule, the allocator's options, the number of steps run; only where
//                        no free waits for a stream or an op and no retry stops the host: then the
//                        order of allocs and frees is the host's, whatever the speeds are
//
// Keys of a scenario are compared as text. A key that is added to Scenario later is part of every
// identity here until somebody says that it is a rate; so forgetting one costs time, not truth.
//
// Where the time of a point goes, llama-3-8b on 16 DGX H100, 1,761 ops of an FSDP2 step and 2,326
// of DDP's, ms: reading catalogs 0.4, NCCL's searches 0.8 (HSDP 3), schedule 0.3, costs 0.2, the
// formula engine 0.1 or the fluid engine 2.5, the ledger 0.2, the allocator's replay 0.4. The first
// two vanish here; the schedule and what rests on it alone do where points differ in rates only.
//
// Perturbed steps and first steps run other programs besides, messages have costs of their own:
// they are whole forecasts, from the same sources. A step of more than 32 micro-batches is two
// points, of 8 and of 16 as a rule (accumulated.hpp).

#include "sim/forecast/evaluator.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "sim/forecast/accumulated.hpp"
#include "sim/forecast/fit.hpp"
#include "sim/forecast/forecast_parts.hpp"
#include "sim/forecast/placed.hpp"
#include "sim/forecast/scenario_keys.hpp"
#include "sim/forecast/sources.hpp"
#include "sim/memory/retries.hpp"

namespace stepcast {
namespace {

// What no schedule depends on: speeds, how they are computed, and what is done with the result.
// tests/unit/forecast/evaluator_test.cpp builds the schedules of both sides of each.
const std::set<std::string>& rate_keys() {
  static const std::set<std::string> keys{"engine",
                                          "nic_gbps",
                                          "oversubscription",
                                          "fabric",
                                          "leaf_ports",
                                          "network",
                                          "gpudirect_rdma",
                                          "nccl_version",
                                          "nccl",
                                          "measured_collectives",
                                          "collective_corrections",
                                          "calibration",
                                          "expandable_segments",
                                          "max_split_size_mb"};
  return keys;
}

// What cluster and collectives do not depend on: everything that is said of the model, the strategy
// and the loader, and these.
bool is_of_collectives(const ScenarioKey& key) {
  static const std::set<std::string> others{"engine",
                                            "profile",
                                            "step",
                                            "sync_every_step",
                                            "sync_after_forward",
                                            "expandable_segments",
                                            "max_split_size_mb"};
  const std::string_view group = key.info().group;
  if (group == "Model" || group == "Strategy" || group == "Data loading") return false;
  return others.count(key.name()) == 0;
}

// "nodes=16;..." of the keys that are set and chosen; paths as they are found.
template <typename Chosen>
std::string identity(const Scenario& s, Chosen&& chosen) {
  std::string text;
  for (const ScenarioKey& key : scenario_keys()) {
    if (!key.is_set(s) || !chosen(key)) continue;
    text += key.name();
    text += '=';
    const std::string value = key.text(s);
    text += key.type() == KeyType::word ? scenario_path(s, key.info().name, value) : value;
    text += '\n';
  }
  return text;
}

// Whether every free gives its block back in the order of the host.
bool frees_in_host_order(const Schedule& schedule) {
  for (const Role& role : schedule.roles) {
    for (const StepProgram& step : role.steps) {
      for (const Op& op : step.ops) {
        if (op.kind == OpKind::free && op.free_rule != FreeRule::host_order) return false;
      }
    }
  }
  return true;
}

// By schedule, the last few: enough for points that come in an order in which rates change fastest.
constexpr std::size_t most_schedules = 12;
constexpr std::size_t most_collectives = 256;

struct Replayed {
  std::tuple<bool, std::optional<Bytes>, Bytes, std::size_t> how;  // options, capacity, steps
  std::vector<std::optional<ReservedMemory>> reserved;             // by role
};

struct Known {
  std::string identity;
  Schedule schedule;
  std::vector<RoleMemory> memory;  // of the ledger
  bool host_order = false;
  std::vector<Replayed> replays;
};

}  // namespace

struct Evaluator::Impl {
  Sources sources;
  std::map<std::string, std::shared_ptr<NodeSearches>> searches;  // by machine
  std::map<std::tuple<std::string, int, int>, std::unique_ptr<Collectives>> collectives;
  std::deque<Known> schedules;  // used last first

  EvaluatedReport report(const Scenario& s) {
    Resolved r = resolve(s, sources);
    if (!is_worked_out(r)) return simulated(s, std::move(r), nullptr);
    SoftwareProfile profile;
    const auto shorter = [&](int micro_batches) {
      Scenario few = s;
      few.accumulation = micro_batches;
      Resolved resolved = r;
      resolved.step.accumulation = micro_batches;
      ShortStep step;
      EvaluatedReport e = simulated(few, std::move(resolved), &step.busy);
      step.report = std::move(e.report);
      profile = std::move(e.profile);
      return step;
    };
    Report report = worked_out(r.step.accumulation, shorter);
    add_speed(r, report);
    return {std::move(report), std::move(profile)};
  }

  // `own`: what its lanes and streams have to do, where somebody asks.
  EvaluatedReport simulated(const Scenario& s, Resolved r, Busy* own) {
    std::shared_ptr<NodeSearches>& of_machine = searches[scenario_path(s, "cluster", *s.cluster)];
    if (!of_machine) of_machine = make_node_searches();
    r.collectives.searches = of_machine;
    if (!r.perturbations.empty() || r.first_step || r.engine == "messages") {
      Forecast f = forecast(std::move(r));
      return {std::move(f.report), std::move(f.resolved.profile)};
    }
    Known& known = schedule_of(s, r);
    const Collectives& answers = collectives_of(s, r);
    CostTable costs = bind_costs(known.schedule, r.cluster, answers, r.profile, r.loader, r.device);
    give_compute_time(known.schedule, r.replica, costs);
    const Timeline timeline = run_reported_step(r, known.schedule, costs);
    std::vector<RoleMemory> memory = known.memory;
    const std::vector<RoleReplay> replays = add_reserved(known, r, timeline, memory);
    const std::optional<RetriedStep> retried =
        retried_step(r, known.schedule, answers, timeline.period(), replays, memory);
    Report report =
        retried ? reported(r, retried->schedule, retried->costs, retried->timeline, answers,
                           std::move(memory), own)
                : reported(r, known.schedule, costs, timeline, answers, std::move(memory), own);
    report.fits = fits(report.memory, report.capacity);
    return {std::move(report), std::move(r.profile)};
  }

  static Report reported(const Resolved& r, const Schedule& schedule, const CostTable& costs,
                         const Timeline& timeline, const Collectives& answers,
                         std::vector<RoleMemory> memory, Busy* own) {
    Report report = report_of(r, schedule, costs, timeline, answers, std::move(memory));
    add_stragglers(r, schedule, costs, report);
    if (own != nullptr) *own = busy(schedule, costs);
    return report;
  }

  Bytes memory_peak(const Scenario& s) {
    Resolved r = resolve(s, sources);
    Scenario few = s;
    if (is_worked_out(r)) few.accumulation = r.step.accumulation = enough_for_memory;
    Bytes peak = 0;
    for (const RoleMemory& role : schedule_of(few, r).memory) peak = std::max(peak, role.peak);
    return peak;
  }

  Known& schedule_of(const Scenario& s, const Resolved& r) {
    std::string id =
        identity(s, [](const ScenarioKey& key) { return rate_keys().count(key.name()) == 0; });
    const auto found = std::find_if(schedules.begin(), schedules.end(),
                                    [&](const Known& known) { return known.identity == id; });
    if (found != schedules.end()) {
      std::rotate(schedules.begin(), found, found + 1);
      return schedules.front();
    }
    Known known;
    known.identity = std::move(id);
    known.schedule = build_schedule(r.step);
    known.memory = memory_of_roles(r, known.schedule);
    known.host_order = frees_in_host_order(known.schedule);
    if (schedules.size() == most_schedules) schedules.pop_back();
    schedules.push_front(std::move(known));
    return schedules.front();
  }

  const Collectives& collectives_of(const Scenario& s, const Resolved& r) {
    if (collectives.size() >= most_collectives) collectives.clear();
    std::unique_ptr<Collectives>& slot =
        collectives[{identity(s, is_of_collectives), r.step.mesh.replicate, r.step.mesh.shard}];
    if (!slot) slot = std::make_unique<Collectives>(r.cluster, r.step.mesh, r.collectives);
    return *slot;
  }

  // Returns the replays; none where what they found was known, which is without retries.
  static std::vector<RoleReplay> add_reserved(Known& known, const Resolved& r,
                                              const Timeline& timeline,
                                              std::vector<RoleMemory>& roles) {
    Replayed run;
    run.how = {r.allocator.expandable_segments, r.allocator.max_split_size,
               r.cluster.machine.gpu.memory_bytes, timeline.steps.size()};
    for (const Replayed& before : known.replays) {
      if (before.how != run.how) continue;
      for (std::size_t i = 0; i < roles.size(); ++i) roles[i].reserved = before.reserved[i];
      return {};
    }
    std::vector<RoleReplay> replays = replay_within(r, known.schedule, timeline, roles);
    for (const RoleMemory& role : roles) run.reserved.push_back(role.reserved);
    if (known.host_order && !retries_in_step(replays)) known.replays.push_back(std::move(run));
    return replays;
  }
};

bool changes_schedule(const std::string& key) { return rate_keys().count(key) == 0; }

Evaluator::Evaluator() : impl_(std::make_unique<Impl>()) {}
Evaluator::~Evaluator() = default;

EvaluatedReport Evaluator::report(const Scenario& scenario) {
  return placed(scenario, [&] { return impl_->report(scenario); });
}

Bytes Evaluator::memory_peak(const Scenario& scenario) {
  return placed(scenario, [&] { return impl_->memory_peak(scenario); });
}

Evaluation Evaluator::evaluate(const Scenario& scenario) {
  Evaluation e;
  try {
    const EvaluatedReport whole = impl_->report(scenario);
    return evaluation_of(whole.report, whole.profile);
  } catch (const InputError& error) {
    e.state = Evaluation::State::refused;
    e.why = at_its_place(scenario, error).what();
  } catch (const InfeasibleError& error) {
    e.state = Evaluation::State::infeasible;
    e.why = error.what();
  }
  return e;
}

}  // namespace stepcast

#include "sim/advise/candidate.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.hpp"
#include "sim/forecast/fit.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/memory/ledger.hpp"
#include "sim/strategies/strategy.hpp"

namespace stepcast {
namespace {

struct Kind {
  std::string_view name;
  StrategyKind strategy;
  std::string_view also;
};

constexpr std::array<Kind, 4> kinds{{
    {"ddp", StrategyKind::ddp, "DDP; ZeRO-0"},
    {"shard_grad_op", StrategyKind::fsdp2,
     "FSDP2 with reshard_after_forward off; FSDP1 SHARD_GRAD_OP; ZeRO-2"},
    {"full_shard", StrategyKind::fsdp2, "FSDP2; FSDP1 FULL_SHARD; ZeRO-3"},
    {"hybrid_shard", StrategyKind::hsdp, "HSDP; FSDP1 HYBRID_SHARD"},
}};

const Kind& kind_of(const std::string& name) {
  const auto* found =
      std::find_if(kinds.begin(), kinds.end(), [&](const Kind& kind) { return kind.name == name; });
  STEPCAST_ASSERT(found != kinds.end(), "a candidate that nobody knows");
  return *found;
}

// Rows of the memory report by what they are for. Overheads are no BufferKind.
Bytes* part_of(Candidate& c, const std::string& row) {
  static const std::array<const char*, 4> state{"parameter", "gradient", "optimizer_state",
                                                "bucket"};
  static const std::array<const char*, 4> communication{"unsharded", "gather_output",
                                                        "reduce_input", "reduce_output"};
  static const std::array<const char*, 5> activations{"activation", "workspace", "logits", "input",
                                                      "other"};
  const auto among = [&](const auto& names) {
    return std::find(names.begin(), names.end(), row) != names.end();
  };
  if (among(state)) return &c.state;
  if (among(communication)) return &c.communication;
  return among(activations) ? &c.activations : &c.overhead;
}

}  // namespace

Scenario with_strategy(const Scenario& scenario, const std::string& name) {
  const Kind& kind = kind_of(name);
  Scenario s = without_strategy(scenario);
  s.strategy = std::string(to_string(kind.strategy));
  if (kind.name == "hybrid_shard") s.shard_group = scenario.shard_group;
  if (kind.name == "shard_grad_op") s.reshard_after_forward = YesNoOrCount{false, 0};
  if (scenario.accumulation_sync != "reduce_scatter_every" || kind.name == "hybrid_shard") {
    s.accumulation_sync = scenario.accumulation_sync;
  }
  if (s.precision) {
    const std::vector<std::string> recipes = precision_recipes_of(kind.strategy);
    if (std::find(recipes.begin(), recipes.end(), *s.precision) == recipes.end()) {
      s.precision.reset();
    }
  }
  return s;
}

Candidate candidate(const Scenario& scenario, const std::string& name) {
  Candidate c;
  c.name = name;
  c.also = std::string(kind_of(name).also);
  c.scenario = with_strategy(scenario, name);
  const Resolved resolved = resolve(c.scenario);
  const Schedule schedule = build_schedule(resolved.step);
  c.precision = resolved.step.precision.name;
  c.capacity = resolved.cluster.machine.gpu.memory_bytes;
  const std::vector<RoleMemory> roles = memory_of_roles(resolved, schedule);
  const auto most =
      std::max_element(roles.begin(), roles.end(),
                       [](const RoleMemory& a, const RoleMemory& b) { return a.peak < b.peak; });
  STEPCAST_ASSERT(most != roles.end(), "a schedule has roles");
  c.role = most->role;
  c.peak = most->peak;
  for (const MemoryRow& row : most->rows) *part_of(c, row.kind) += row.bytes;
  const std::vector<RoleLedger> ledgers = memory_ledger(schedule);
  const RoleLedger& ledger = ledgers[static_cast<std::size_t>(most - roles.begin())];
  c.persistent = ledger.persistent;
  for (const BufferKind kind :
       {BufferKind::gradient, BufferKind::optimizer_state, BufferKind::bucket}) {
    c.sharded_state += ledger.highest_by_kind[static_cast<std::size_t>(kind)];
  }
  return c;
}

void time(Candidate& candidate) {
  const Forecast f = forecast(resolve(candidate.scenario));
  candidate.step_time = f.report.step_time;
  candidate.exposed = f.report.split.exposed_total();
  candidate.exposed_all_gather = 0;
  for (const ExposedPart& part : f.report.split.exposed) {
    if (part.cause.ends_with("all_gather")) candidate.exposed_all_gather += part.seconds;
  }
}

}  // namespace stepcast

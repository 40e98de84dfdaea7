#include "sim/forecast/fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/error.hpp"
#include "sim/forecast/accumulated.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/forecast/resolve.hpp"
#include "sim/report/format.hpp"

namespace stepcast {

namespace {

// A change of the scenario, in words and as one.
struct Change {
  std::string words;
  Scenario scenario;
};

constexpr std::int64_t most_gpus = 65536;

// Tensors far below the capacity need no second look; near it the allocator decides. Published jobs
// reserve up to 1.41 times what they allocate.
constexpr double near_capacity = 0.7;

bool scenario_fits(const Scenario& scenario) {
  try {
    Resolved r = resolve(scenario);
    r.perturbations.clear();  // they cost time, not memory
    if (r.engine == "messages") r.engine = "formula";
    if (is_worked_out(r)) r.step.accumulation = enough_for_memory;
    const Bytes capacity = r.cluster.machine.gpu.memory_bytes;
    const std::vector<RoleMemory> roles = memory_of_roles(r, build_schedule(r.step));
    if (!fits(roles, capacity)) return false;
    if (fits(roles, static_cast<Bytes>(near_capacity * static_cast<double>(capacity)))) return true;
    return forecast(r).report.fits;
  } catch (const InputError&) {
    return false;  // not a scenario: a strategy without that option, a machine without a NIC
  }
}

std::vector<Change> smaller_micro_batches(const Scenario& s) {
  std::vector<Change> list;
  for (std::int64_t b = s.micro_batch.value_or(1) / 2; b >= 1; b /= 2) {
    Change change{fmt::format("micro-batch {} instead of {}", b, *s.micro_batch), s};
    change.scenario.micro_batch = b;
    list.push_back(std::move(change));
  }
  return list;
}

// Where nobody said how long sequences are and the model takes very long ones, a shorter one may be
// what is meant.
std::vector<Change> shorter_sequences(const Scenario& s) {
  constexpr std::int64_t longest = 8192, shortest = 1024;
  if (s.seq_len) return {};
  const std::int64_t now = resolve(s).step.workload.seq_len;
  std::vector<Change> list;
  if (now <= longest) return list;
  for (std::int64_t n = now / 2; n >= shortest; n /= 2) {
    Change change{fmt::format("seq_len {} instead of the model's maximum", n), s};
    change.scenario.seq_len = n;
    list.push_back(std::move(change));
  }
  return list;
}

std::vector<Change> more_checkpointing(const Scenario& s) {
  std::vector<Change> list;
  const std::string now = s.checkpointing.value_or("none");
  for (const std::string& level : levels_of_model(s, {"selective", "full"})) {
    if (now == "full" || now == level) continue;
    Change change{fmt::format("checkpointing {}", level), s};
    change.scenario.checkpointing = level;
    list.push_back(std::move(change));
  }
  return list;
}

std::vector<Change> more_sharding(const Scenario& s) {
  std::vector<Change> list;
  const StrategyChoice now = resolve_strategy(s);
  const auto with = [&](const char* words, StrategyKind kind) {
    Change change{words, without_strategy(s)};
    Scenario& c = change.scenario;
    c.strategy = std::string(to_string(kind));
    c.accumulation_sync = s.accumulation_sync;
    c.precision.reset();  // the new strategy's own
    list.push_back(std::move(change));
  };
  const bool sharded = now.kind == StrategyKind::fsdp2 || now.kind == StrategyKind::zero3;
  // nn.DataParallel's first cure is to be rid of what GPU 0 gathers.
  const bool whole = now.kind == StrategyKind::dp || now.kind == StrategyKind::ddp;
  if (now.kind == StrategyKind::dp) with("strategy ddp", StrategyKind::ddp);
  if (whole) with("strategy zero1", StrategyKind::zero1);
  if (whole || now.kind == StrategyKind::zero1) {
    with("strategy zero2", StrategyKind::zero2);
  }
  // Within one node hsdp would be fsdp2.
  const Cluster cluster = resolve_cluster(s);
  if (cluster.nodes > 1 && (now.kind == StrategyKind::ddp || now.kind == StrategyKind::zero1 ||
                            now.kind == StrategyKind::zero2)) {
    with("strategy hsdp", StrategyKind::hsdp);
  }
  if (!s.reshard_after_forward.value_or(YesNoOrCount{}).yes)
    with("reshard_after_forward true", now.kind);
  if (!sharded) with("strategy fsdp2", StrategyKind::fsdp2);
  return list;
}

Scenario with_gpus(const Scenario& s, std::int64_t gpus, bool hsdp) {
  Scenario changed = s;
  changed.nodes.reset();
  changed.gpus = gpus;
  if (hsdp) changed.shard_group = gpus;
  return changed;
}

// More GPUs help only where something is sharded over them: the fewest that fit, in whole nodes.
// Memory a GPU falls with their number, so the fewest are found by doubling and then halving.
std::vector<Change> more_gpus(const Scenario& s) {
  const Resolved now = resolve(s);
  if (now.step.mesh.shard == 1) return {};
  const bool hsdp = now.step.strategy.kind == StrategyKind::hsdp;
  const auto enough = [&](std::int64_t gpus) { return scenario_fits(with_gpus(s, gpus, hsdp)); };
  std::int64_t too_few = now.cluster.world_size;
  std::int64_t fewest = 2 * too_few;
  while (fewest <= most_gpus && !enough(fewest)) {
    too_few = fewest;
    fewest *= 2;
  }
  if (fewest > most_gpus) return {};
  while (fewest - too_few > 1) {
    const std::int64_t middle = too_few + (fewest - too_few) / 2;
    (enough(middle) ? fewest : too_few) = middle;
  }
  const std::int64_t node = now.cluster.gpus_per_node;
  const std::int64_t whole = fewest > node ? round_up(fewest, node) : fewest;
  const std::int64_t gpus = enough(whole) ? whole : fewest;
  const auto count = [](std::int64_t n) { return grouped(static_cast<double>(n)); };
  std::string words = fmt::format("{} GPUs", count(gpus));
  if (hsdp) words += fmt::format(" and a shard group of {}", count(gpus));
  words += fmt::format(" instead of {}", count(now.cluster.world_size));
  if (gpus != fewest) words += fmt::format(" ({} would do)", count(fewest));
  return {Change{words, with_gpus(s, gpus, hsdp)}};
}

using Changes = std::vector<Change> (*)(const Scenario&);

// The first of each kind that fits, mildest first.
std::vector<std::string> singles(const Scenario& s) {
  std::vector<std::string> found;
  for (const Changes kind :
       {smaller_micro_batches, shorter_sequences, more_checkpointing, more_sharding, more_gpus}) {
    for (const Change& change : kind(s)) {
      if (!scenario_fits(change.scenario)) continue;
      found.push_back(change.words);
      break;
    }
  }
  return found;
}

}  // namespace

bool fits(const std::vector<RoleMemory>& roles, Bytes capacity) {
  return std::all_of(roles.begin(), roles.end(), [&](const RoleMemory& role) {
    return role.peak <= capacity && (!role.reserved || role.reserved->out_of_memory.empty());
  });
}

std::string smallest_change(const Scenario& scenario) {
  std::vector<std::string> found = singles(scenario);
  if (found.empty()) {
    // Two together: everything that costs no hardware first, then more GPUs on top of it.
    std::vector<Change> bases;
    for (const Changes kind : {more_checkpointing, more_sharding}) {
      for (Change& change : kind(scenario)) bases.push_back(std::move(change));
    }
    const std::size_t first_bases = bases.size();
    for (std::size_t i = 0; i < first_bases; ++i) {
      for (Change& change : more_sharding(bases[i].scenario)) {
        change.words = bases[i].words + " and " + change.words;
        bases.push_back(std::move(change));
      }
    }
    for (const Change& base : bases) {
      if (scenario_fits(base.scenario)) {
        found.push_back(base.words);
        break;
      }
      const std::vector<std::string> more = singles(base.scenario);
      if (more.empty()) continue;
      found.push_back(base.words + " and " + more.front());
      break;
    }
  }
  return fmt::format("{}", fmt::join(found, ", or "));
}

}  // namespace stepcast

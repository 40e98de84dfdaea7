#include "sim/strategies/strategy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.hpp"
#include "sim/strategies/ddp/ddp.hpp"
#include "sim/strategies/fsdp2/fsdp2.hpp"

namespace stepcast {
namespace {

constexpr std::array<std::pair<std::string_view, StrategyKind>, 8> kinds{{
    {"dp", StrategyKind::dp},
    {"ddp", StrategyKind::ddp},
    {"zero1", StrategyKind::zero1},
    {"zero2", StrategyKind::zero2},
    {"zero3", StrategyKind::zero3},
    {"fsdp1", StrategyKind::fsdp1},
    {"fsdp2", StrategyKind::fsdp2},
    {"hsdp", StrategyKind::hsdp},
}};

void require(bool holds, const std::string& key, const std::string& message) {
  if (!holds) throw InputError({"", 0, key}, message);
}

void check(const TrainingStep& step) {
  const StrategyKind kind = step.strategy.kind;
  const std::string name(to_string(kind));
  require(is_built(kind), "strategy",
          fmt::format("'{}' is not built yet; accepted: ddp, fsdp2, hsdp", name));
  require(step.mesh.replicate >= 1 && step.mesh.shard >= 1, "mesh",
          fmt::format("{} x {} is not a mesh; accepted: 1 or more each", step.mesh.replicate,
                      step.mesh.shard));
  require(kind != StrategyKind::ddp || step.mesh.shard == 1, "mesh",
          "ddp replicates everything; accepted: a shard group of 1");
  require(kind != StrategyKind::fsdp2 || step.mesh.replicate == 1, "mesh",
          "fsdp2 shards over all ranks; accepted: one shard group (hsdp replicates)");
  require(step.accumulation >= 1 && step.accumulation <= 32767, "accumulation",
          fmt::format("{} is out of range; accepted: 1 to 32767 micro-batches", step.accumulation));
  const std::vector<std::string> recipes = precision_recipes_of(kind);
  if (std::find(recipes.begin(), recipes.end(), step.precision.name) == recipes.end()) {
    throw not_accepted({"", 0, "precision of " + name}, step.precision.name, recipes);
  }
  const auto positive = [&](const std::optional<double>& mib, const char* key) {
    require(!mib || (*mib > 0 && *mib <= 1e9), key,
            fmt::format("{} is out of range; accepted: more than 0 MiB", mib.value_or(0)));
  };
  positive(step.strategy.bucket_cap_mib, "bucket_cap_mb");
  positive(step.strategy.first_bucket_mib, "first_bucket_mb");
  require(step.strategy.accumulation_sync != AccumulationSync::reduce_scatter_every ||
              kind == StrategyKind::hsdp,
          "accumulation_sync",
          fmt::format("'reduce_scatter_every' needs hsdp, not {}; accepted: last, every", name));
}

}  // namespace

bool is_built(StrategyKind kind) {
  return kind == StrategyKind::ddp || kind == StrategyKind::fsdp2 || kind == StrategyKind::hsdp;
}

Schedule build_schedule(const TrainingStep& step) {
  check(step);
  return step.strategy.kind == StrategyKind::ddp ? ddp::build(step) : fsdp2::build(step);
}

std::string_view to_string(StrategyKind kind) {
  for (const auto& [name, value] : kinds) {
    if (value == kind) return name;
  }
  return "";
}

StrategyKind parse_strategy(const std::string& name) {
  std::vector<std::string> accepted;
  for (const auto& [known, value] : kinds) {
    if (known == name) return value;
    accepted.emplace_back(known);
  }
  throw not_accepted({"", 0, "strategy"}, name, accepted);
}

std::string_view to_string(AccumulationSync sync) {
  switch (sync) {
    case AccumulationSync::last: return "last";
    case AccumulationSync::every: return "every";
    case AccumulationSync::reduce_scatter_every: return "reduce_scatter_every";
  }
  return "";
}

}  // namespace stepcast

// One forecast in small, and what its step waits for.

#include <algorithm>
#include <iterator>
#include <utility>

#include "sim/forecast/evaluator.hpp"
#include "sim/report/fullest_link.hpp"

namespace stepcast {
namespace {

// "backward_reduce_scatter": the exposed time of this kind of collective.
bool is_of(const ExposedPart& part, CollectiveKind kind) {
  return part.cause.ends_with("_" + std::string(to_string(kind)));
}

// The link that the collective waits for, or latency where starting takes longer than sending.
std::string bound_of(const CollectiveCost& cost) {
  if (2 * cost.fixed > cost.seconds) return "latency";
  std::vector<std::pair<std::string, Seconds>> loads;
  for (const LinkLoad& load : cost.loads) loads.emplace_back(load.resource.str(), load.seconds);
  const std::string link = fullest_link(loads);
  return link.empty() ? "latency" : link;
}

// Of all calls of this kind, those that take longest together.
std::string bound_of(const Report& report, const ExposedPart& part) {
  const CollectiveRow* longest = nullptr;
  for (const CollectiveRow& row : report.collectives) {
    if (!is_of(part, row.kind)) continue;
    if (longest == nullptr ||
        row.calls * row.cost.seconds > longest->calls * longest->cost.seconds) {
      longest = &row;
    }
  }
  return longest == nullptr ? part.cause : bound_of(longest->cost);
}

}  // namespace

std::string binding(const Report& report) {
  const TimeSplit& split = report.split;
  std::vector<std::pair<std::string, Seconds>> parts{
      {"compute", split.compute + split.copies + split.interference + split.optimizer},
      {"host", split.host}};
  for (const ExposedPart& part : split.exposed) {
    const std::string name = part.cause == "loader" ? part.cause : bound_of(report, part);
    const auto known = std::find_if(parts.begin(), parts.end(),
                                    [&](const auto& each) { return each.first == name; });
    if (known == parts.end()) {
      parts.emplace_back(name, part.seconds);
    } else {
      known->second += part.seconds;
    }
  }
  return std::max_element(parts.begin(), parts.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

Evaluation evaluation_of(const Report& r, const SoftwareProfile& profile) {
  Evaluation e;
  e.state = r.fits ? Evaluation::State::fits : Evaluation::State::does_not_fit;
  if (!r.fits) e.why = shortage(r);
  e.strategy = r.strategy;
  e.engine = r.engine;
  e.nodes = r.nodes;
  e.gpus = r.gpus;
  e.mesh = r.mesh;
  e.step_time = r.step_time;
  e.interval = interval_of(r, profile);
  e.fitted_profile = !profile.fitted.empty();
  e.samples_per_step = r.samples_per_step;
  e.samples_per_second = r.samples_per_second;
  e.tokens_per_step = r.tokens_per_step;
  e.tokens_per_second = r.tokens_per_second;
  e.tflops_per_gpu = r.tflops_per_gpu;
  e.mfu = r.mfu;
  e.hfu = r.hfu;
  e.split = r.split;
  e.binding = r.fits ? binding(r) : "memory";
  if (r.perturbed && !r.perturbed->torn_down) e.perturbed_step_time = r.perturbed->step_time;
  for (const RoleMemory& role : r.memory) {
    e.memory_peak = std::max(e.memory_peak, role.peak);
    if (role.reserved) e.memory_reserved = std::max(e.memory_reserved, role.reserved->peak);
  }
  e.memory_capacity = r.capacity;
  return e;
}

std::string_view to_string(Evaluation::State state) {
  constexpr std::string_view names[] = {"fits", "does not fit", "infeasible", "refused"};
  return names[static_cast<std::size_t>(state)];
}

}  // namespace stepcast

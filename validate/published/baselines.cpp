#include "validate/published/baselines.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "validate/published/quantile.hpp"

namespace stepcast {

namespace {

bool same_work(const Scenario& a, const Scenario& b) {
  return a.model == b.model && a.cluster == b.cluster && a.seq_len == b.seq_len &&
         a.image_size == b.image_size;
}

// How far a fitted row is from another: smaller is nearer.
std::tuple<int, double, int> distance(const Outcome& fitted, const Outcome& other) {
  const Scenario& a = fitted.row->scenario;
  const Scenario& b = other.row->scenario;
  const int settings = (a.strategy != b.strategy) + (a.precision != b.precision) +
                       (a.checkpointing != b.checkpointing) + (a.profile != b.profile);
  const double batch = std::abs(std::log(static_cast<double>(a.micro_batch.value_or(1)) /
                                         static_cast<double>(b.micro_batch.value_or(1))));
  return {settings, batch, -fitted.gpus};
}

const Outcome* partner_of(const Outcome& outcome, const std::vector<Outcome>& outcomes) {
  const Outcome* best = nullptr;
  for (const Outcome& candidate : outcomes) {
    if (candidate.row->split != Split::fit || candidate.nodes >= outcome.nodes) continue;
    if (!same_work(candidate.row->scenario, outcome.row->scenario)) continue;
    if (best == nullptr || distance(candidate, outcome) < distance(*best, outcome)) {
      best = &candidate;
    }
  }
  return best;
}

}  // namespace

std::vector<Baseline> baselines(const std::vector<Outcome>& outcomes) {
  std::vector<double> efficiencies;
  for (const Outcome& o : outcomes) {
    if (o.row->split != Split::fit || o.measured == 0) continue;
    efficiencies.push_back(o.flops_per_gpu / o.measured / o.peak_flops);
  }
  const double efficiency = quantile(efficiencies, 0.5);
  std::vector<Baseline> all;
  for (const Outcome& o : outcomes) {
    if (o.measured == 0) continue;
    Baseline& b = all.emplace_back();
    b.outcome = &o;
    b.partner = partner_of(o, outcomes);
    if (b.partner != nullptr) b.no_network = o.samples_per_gpu / b.partner->measured_rate();
    if (efficiency > 0) b.flops_only = o.flops_per_gpu / (o.peak_flops * efficiency);
  }
  return all;
}

}  // namespace stepcast

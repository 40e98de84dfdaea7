#include "validate/published/figures.hpp"

#include <algorithm>
#include <cmath>

#include "validate/published/decisions.hpp"
#include "validate/published/quantile.hpp"

namespace stepcast {

namespace {

constexpr Seconds least_added = 2e-3;
constexpr double least_change = 1.0;  // percent
constexpr double share_of_baseline = 0.7;

void add(Figures& figures, const std::string& group, const std::vector<double>& errors) {
  if (errors.empty()) return;
  figures[group + ".rows"] = static_cast<double>(errors.size());
  figures[group + ".median"] = quantile(errors, 0.5);
  figures[group + ".p90"] = quantile(errors, 0.9);
  figures[group + ".worst"] = quantile(errors, 1.0);
}

double percent_off(double forecast, double measured) {
  return std::abs(forecast / measured - 1) * 100;
}

// The time that nodes add to a row: over what its samples take at the partner's rate.
void add_added(Figures& figures, const std::vector<Baseline>& baselines) {
  std::vector<double> errors;
  int wrong_sign = 0;
  for (const Baseline& b : baselines) {
    if (b.partner == nullptr || b.outcome->row->split != Split::check) continue;
    const Seconds measured = b.outcome->measured - b.no_network;
    const Seconds forecast = b.outcome->forecast - b.outcome->samples_per_gpu / b.partner->rate();
    if (std::abs(measured) < least_added) continue;
    errors.push_back(percent_off(forecast, measured));
    wrong_sign += (measured > 0) != (forecast > 0);
  }
  add(figures, "added.check", errors);
  if (!errors.empty()) figures["added.check.wrong_sign"] = wrong_sign;
}

void add_changes(Figures& figures, const std::vector<Outcome>& outcomes) {
  std::vector<double> errors;
  int wrong_sign = 0;
  for (const Outcome& o : outcomes) {
    if (o.row->measure != Measure::change_percent) continue;
    errors.push_back(std::abs(o.forecast_change - o.measured_change));
    wrong_sign += std::abs(o.measured_change) >= least_change &&
                  (o.forecast_change > 0) != (o.measured_change > 0);
  }
  add(figures, "change.check", errors);
  if (!errors.empty()) figures["change.check.wrong_sign"] = wrong_sign;
}

void add_split(Figures& figures, const std::vector<Baseline>& baselines, Split split) {
  std::vector<double> step, no_network, flops_only, scaling;
  for (const Baseline& b : baselines) {
    const Outcome& o = *b.outcome;
    if (o.row->split != split) continue;
    step.push_back(percent_off(o.forecast, o.measured));
    if (b.no_network > 0) no_network.push_back(percent_off(b.no_network, o.measured));
    if (b.flops_only > 0) flops_only.push_back(percent_off(b.flops_only, o.measured));
    if (b.partner == nullptr) continue;
    const double measured = o.measured_rate() / b.partner->measured_rate();
    scaling.push_back(std::abs(o.rate() / b.partner->rate() - measured) * 100);
  }
  const std::string name = "." + std::string(to_string(split));
  add(figures, "step" + name, step);
  add(figures, "no_network" + name, no_network);
  add(figures, "flops_only" + name, flops_only);
  add(figures, "scaling" + name, scaling);
}

// How often the interval holds the measurement, and how wide it is.
void add_intervals(Figures& figures, const std::vector<Outcome>& outcomes) {
  std::vector<double> widths;
  int inside = 0;
  for (const Outcome& o : outcomes) {
    if (o.measured == 0 || o.row->split != Split::check) continue;
    widths.push_back((o.interval.high - o.interval.low) / o.forecast * 100);
    inside += o.interval.low <= o.measured && o.measured <= o.interval.high;
  }
  if (widths.empty()) return;
  figures["interval.check.coverage"] = 100.0 * inside / static_cast<double>(widths.size());
  figures["interval.check.width"] = quantile(widths, 0.5);
}

}  // namespace

Figures figures_of(const std::vector<Outcome>& outcomes, const std::vector<Baseline>& all) {
  Figures figures;
  add_split(figures, all, Split::fit);
  add_split(figures, all, Split::check);
  add_added(figures, all);
  add_changes(figures, outcomes);
  add_intervals(figures, outcomes);
  std::vector<double> memory;
  for (const Outcome& o : outcomes) {
    if (!o.memory) continue;
    memory.push_back(
        percent_off(static_cast<double>(*o.memory), static_cast<double>(*o.row->memory)));
  }
  add(figures, "memory.all", memory);
  if (const RankOrder d = decisions(outcomes); d.pairs > 0) {
    figures["decisions.right"] = d.share() * 100;
    figures["decisions.count"] = d.pairs;
  }
  if (const RankOrder p = all_pairs(outcomes); p.pairs > 0) {
    figures["pairs.right"] = p.share() * 100;
    figures["pairs.count"] = p.pairs;
  }
  return figures;
}

std::vector<BarResult> judge(const std::vector<Bar>& bars, const Figures& figures) {
  const auto find = [&](const std::string& name) -> std::optional<double> {
    const auto found = figures.find(name);
    if (found == figures.end()) return std::nullopt;
    return found->second;
  };
  std::vector<BarResult> results;
  for (const Bar& bar : bars) {
    BarResult& result = results.emplace_back();
    result.bar = bar;
    result.figure = find(bar.figure);
    result.met = result.figure &&
                 (bar.at_most ? *result.figure <= *bar.at_most : *result.figure >= *bar.at_least);
    if (!bar.beats_baselines) continue;
    const std::string rest = bar.figure.substr(bar.figure.find('.'));
    for (const char* name : {"no_network", "flops_only"}) {
      const std::optional<double> other = find(name + rest);
      if (other && (!result.baseline || *other < *result.baseline)) result.baseline = other;
    }
    if (result.baseline) {
      result.met = result.met && *result.figure <= share_of_baseline * *result.baseline;
    }
  }
  return results;
}

}  // namespace stepcast

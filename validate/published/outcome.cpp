#include "validate/published/outcome.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "sim/forecast/forecast.hpp"

namespace stepcast {

namespace {

// Every key that was said, as text: the identity of a scenario.
struct Text {
  const std::vector<std::string>& without;
  std::string out;

  template <typename Field>
  void operator()(const KeyInfo& key, const Field& field) {
    if (!field) return;
    if (std::find(without.begin(), without.end(), key.name) != without.end()) return;
    out += std::string(key.name) + "=" + text(*field) + ";";
  }
  static std::string text(const std::string& value) { return value; }
  static std::string text(const std::vector<std::string>& values) {
    std::string all;
    for (const std::string& value : values) all += value + ",";
    return all;
  }
  static std::string text(const std::vector<double>& values) {
    std::string all;
    for (const double value : values) all += fmt::format("{},", value);
    return all;
  }
  static std::string text(const YesNoOrCount& value) {
    return fmt::format("{} {}", value.yes, value.count);
  }
  template <typename Number>
  static std::string text(const Number& value) {
    return fmt::format("{}", value);
  }
};

Bytes peak_of(const Report& report, bool reserved) {
  Bytes most = 0;
  for (const RoleMemory& role : report.memory) {
    Bytes tensors = role.peak;
    for (const MemoryRow& row : role.rows) {
      if (row.kind == "cuda_context" || row.kind == "nccl") tensors -= row.bytes;
    }
    if (reserved && role.reserved) tensors = role.reserved->peak;
    most = std::max(most, tensors);
  }
  return most;
}

struct Simulated {
  Report report;
  StepInterval interval;
};

// The mean of steps at each of the source's lengths; what is no time is of the row's own length.
void mix_lengths(Simulated& step, const std::vector<Length>& lengths,
                 const std::vector<const Simulated*>& at) {
  Seconds time = 0;
  StepInterval& interval = step.interval;
  interval.low = interval.high = 0;
  double flops = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    time += lengths[i].share * at[i]->report.step_time;
    flops += lengths[i].share * at[i]->report.flops_per_sample;
    interval.low += lengths[i].share * at[i]->interval.low;
    interval.high += lengths[i].share * at[i]->interval.high;
  }
  step.report.step_time = time;
  step.report.flops_per_sample = flops;
}

Outcome outcome_of(const PublishedSource& source, const MeasuredRow& row, const Simulated& step) {
  const Report& report = step.report;
  Outcome o;
  o.row = &row;
  o.forecast = report.step_time;
  o.interval = step.interval;
  o.samples_per_gpu = report.samples_per_step / report.gpus;
  o.flops_per_gpu = o.samples_per_gpu * report.flops_per_sample;
  o.peak_flops = report.peak_tflops * 1e12;
  o.nodes = report.nodes;
  o.gpus = report.gpus;
  if (row.memory) o.memory = peak_of(report, source.reserved_memory);
  if (row.measure == Measure::change_percent) {
    o.measured_change = row.value;
  } else {
    o.measured = measured_seconds(row, report);
  }
  return o;
}

}  // namespace

std::string scenario_without(const Scenario& scenario, const std::vector<std::string>& keys) {
  Text text{keys, ""};
  visit_scenario(scenario, text);
  return text.out;
}

std::vector<Outcome> forecast_rows(const PublishedSource& source,
                                   const std::function<void()>& after_row) {
  std::vector<Outcome> outcomes;
  std::map<std::string, Simulated> reports;
  const auto simulated = [&](const Scenario& scenario) -> const Simulated& {
    const std::string key = scenario_without(scenario, {});
    const auto found = reports.find(key);
    if (found != reports.end()) return found->second;
    const Forecast f = forecast(scenario, {.search_change = false});
    return reports.emplace(key, Simulated{f.report, interval_of(f.report, f.resolved.profile)})
        .first->second;
  };
  const auto report_for = [&](const Scenario& scenario) {
    Simulated step = simulated(scenario);
    if (source.lengths.empty()) return step;
    std::vector<const Simulated*> at;
    for (const Length& length : source.lengths) {
      Scenario shorter = scenario;
      shorter.seq_len = length.tokens;
      at.push_back(&simulated(shorter));
    }
    mix_lengths(step, source.lengths, at);
    return step;
  };
  for (const MeasuredRow& row : source.rows) {
    if (!row.left_out.empty()) continue;
    Outcome& o = outcomes.emplace_back(outcome_of(source, row, report_for(row.scenario)));
    if (row.measure == Measure::change_percent) {
      if (!source.changed) {
        throw InputError(row.where, "a change needs [changed] in the source's TOML");
      }
      const Seconds changed = report_for(merged(row.scenario, *source.changed)).report.step_time;
      o.forecast_change = (o.forecast / changed - 1) * 100;
    }
    if (after_row) after_row();
  }
  return outcomes;
}

}  // namespace stepcast

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "sim/engines/engine.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/forecast/stragglers.hpp"
#include "sim/report/format.hpp"
#include "validate/published/fit.hpp"

namespace stepcast {

namespace {

constexpr double least_residual = 0.01;  // few rows are met exactly; the next one is not

// A row whose schedule stands; a profile gives it its costs.
class Prepared {
 public:
  Prepared(const MeasuredRow& row, const std::string& base) {
    Scenario scenario = row.scenario;
    scenario.profile = base;
    resolved_ = resolve(scenario);
    schedule_ = build_schedule(resolved_.step);
    collectives_ = std::make_unique<Collectives>(resolved_.cluster, resolved_.step.mesh,
                                                 resolved_.collectives);
    engine_ = resolved_.engine == "formula" ? make_formula_engine() : make_fluid_engine();
    // Only what a throughput is counted in.
    const TrainingStep& step = resolved_.step;
    Report report;
    report.gpus = resolved_.cluster.world_size;
    report.samples_per_step = static_cast<double>(step.workload.micro_batch) * step.accumulation *
                              resolved_.cluster.world_size;
    report.tokens_per_step = report.samples_per_step * static_cast<double>(step.workload.seq_len);
    measured_ = measured_seconds(row, report);
  }

  Seconds measured() const { return measured_; }
  const std::string& gpu() const { return resolved_.cluster.machine.gpu.name; }
  int gpus() const { return static_cast<int>(resolved_.cluster.world_size); }
  Seconds simulate(const SoftwareProfile& profile) const {
    const CostTable costs =
        bind_costs(schedule_, resolved_.cluster, *collectives_, profile, resolved_.loader);
    RunOptions options;
    options.memory = false;  // nor the allocator's retries
    return step_with_slowest(*engine_, schedule_, costs, options, profile);
  }

 private:
  Resolved resolved_;
  Schedule schedule_;
  std::unique_ptr<Collectives> collectives_;
  std::unique_ptr<Engine> engine_;
  Seconds measured_ = 0;
};

std::string errors(const std::vector<double>& relative) {
  std::vector<double> sizes;
  for (const double r : relative) sizes.push_back(std::abs(r));
  std::sort(sizes.begin(), sizes.end());
  const auto at = [&](double q) {
    return sizes[static_cast<std::size_t>(q * static_cast<double>(sizes.size() - 1))] * 100;
  };
  return fmt::format("median {:.1f} %, p90 {:.1f} %, worst {:.1f} %", at(0.5), at(0.9), at(1));
}

}  // namespace

ProfileFit fit_profile(const std::vector<MeasuredRow>& rows, const std::string& base_name,
                       const std::vector<const Factor*>& factors) {
  const SoftwareProfile base = load_profile(base_name);
  std::vector<std::unique_ptr<Prepared>> prepared;
  std::vector<double> measured;
  for (const MeasuredRow& row : rows) {
    prepared.push_back(std::make_unique<Prepared>(row, base_name));
    measured.push_back(prepared.back()->measured());
  }
  ProfileFit fit;
  fit.result = fit_factors(factors, measured, [&](std::size_t row, const std::vector<double>& by) {
    return prepared[row]->simulate(scaled(base, factors, by));
  });
  std::vector<double> values;
  for (const FittedFactor& f : fit.result.factors) values.push_back(f.value);
  fit.profile = scaled(base, factors, values);
  if (fit.profile.based_on.empty()) fit.profile.based_on = base_name;
  fit.profile.residual = std::max(fit.result.residual(), least_residual);
  fit.profile.fitted.clear();
  for (const FittedFactor& f : fit.result.factors) {
    if (f.determined) fit.profile.fitted.emplace_back(f.factor->name);
  }
  std::set<std::string> gpus;
  fit.profile.fitted_gpus = 0;
  for (const auto& row : prepared) {
    gpus.insert(row->gpu());
    fit.profile.fitted_gpus = std::max(fit.profile.fitted_gpus, row->gpus());
  }
  fit.profile.fitted_on.assign(gpus.begin(), gpus.end());
  return fit;
}

std::string to_text(const ProfileFit& fit, const std::vector<MeasuredRow>& rows) {
  const FitResult& r = fit.result;
  std::string out = fmt::format("{} rows, {} factors, {} rounds, {} simulations\n\n", rows.size(),
                                r.factors.size(), r.rounds, r.simulations);
  out += fmt::format("  before  {}\n  after   {}\n\n", errors(r.before), errors(r.after));
  out += "  factor       time x      +-   \n";
  for (const FittedFactor& f : r.factors) {
    out += fmt::format("  {}{:7.3f} {:6.1f} %  {}{}\n", padded(f.factor->name, 12), f.value,
                       f.deviation * 100, f.factor->meaning,
                       f.determined ? "" : ": these rows cannot determine it");
  }
  for (std::size_t a = 0; a < r.factors.size(); ++a) {
    for (std::size_t b = a + 1; b < r.factors.size(); ++b) {
      if (std::abs(r.correlation[a][b]) < 0.8) continue;
      out += fmt::format("  {} and {} move together (correlation {:+.2f})\n",
                         r.factors[a].factor->name, r.factors[b].factor->name, r.correlation[a][b]);
    }
  }
  out += "\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    out += fmt::format("  {}{:+7.1f} % before {:+7.1f} % after\n", padded(rows[i].id, 24),
                       r.before[i] * 100, r.after[i] * 100);
  }
  return out;
}

}  // namespace stepcast

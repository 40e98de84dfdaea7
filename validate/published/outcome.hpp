#pragma once
// A published row beside its forecast. Rows of one scenario share one simulation.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/forecast/interval.hpp"
#include "validate/published/source.hpp"

namespace stepcast {

struct Outcome {
  const MeasuredRow* row = nullptr;
  Seconds measured = 0;
  Seconds forecast = 0;
  StepInterval interval;        // of the forecast
  std::optional<Bytes> memory;  // forecast peak of one GPU, where the row measured one
  // What baselines and pairs need.
  double samples_per_gpu = 0;  // a step
  double flops_per_gpu = 0;    // model FLOPs a step: 6N + 12LHs a token; images: what they are
  double peak_flops = 0;       // of the GPU, in the dtype of the products
  int nodes = 1;
  int gpus = 1;
  // change_percent: of the throughput; else 0.
  double measured_change = 0;
  double forecast_change = 0;

  double error() const { return forecast / measured - 1; }
  double rate() const { return samples_per_gpu / forecast; }  // samples a second and GPU
  double measured_rate() const { return samples_per_gpu / measured; }
};

// Of the rows that are not left out, in their order. The outcomes point into `source`. `after_row`
// is called once one is forecast.
std::vector<Outcome> forecast_rows(const PublishedSource& source,
                                   const std::function<void()>& after_row = {});

// Equal in all but the keys named: "gpus", "nodes", ... (by what was said).
std::string scenario_without(const Scenario& scenario, const std::vector<std::string>& keys);

}  // namespace stepcast

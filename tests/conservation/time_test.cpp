// Laws of time: the engines agree where nothing contends, more work is never faster, and a step's
// parts add up to it.

#include <doctest/doctest.h>

#include <random>
#include <utility>
#include <vector>

#include "sim/engines/engine.hpp"
#include "sim/forecast/bind.hpp"
#include "sim/report/summary.hpp"
#include "tests/conservation/grid.hpp"

using namespace stepcast;
using namespace stepcast::testing;

namespace {

// Two families: GPT-2 has biases, learned positions and a tied head; Llama-3.2-1B has gated MLPs,
// grouped-query attention and few, large blocks.
std::vector<std::pair<Model, Cell>> on_models(const std::vector<Cell>& cells) {
  std::vector<std::pair<Model, Cell>> both;
  for (const char* name : {"gpt2", "llama-3.2-1b"}) {
    const Model model = load_model(name);
    for (const Cell& cell : cells) both.emplace_back(model, cell);
  }
  return both;
}

struct BoundStep {
  Schedule schedule;
  CostTable costs;
  Provenance host = Provenance::assumed;
};

BoundStep bound(const Cell& cell, const Model& model) {
  const TrainingStep step = step_of(cell, model);
  ClusterOptions options;
  options.gpus = cell.world;
  const Cluster cluster = make_cluster(load_machine("dgx-h100"), options);
  const Collectives collectives(cluster, step.mesh);
  const SoftwareProfile profile = load_profile("pytorch-eager");
  BoundStep b{build_schedule(step), {}, profile.provenance};
  b.costs = bind_costs(b.schedule, cluster, collectives, profile);
  return b;
}

CostTable without_resources(CostTable costs) {
  for (Segment& segment : costs.segments) segment.demands = {};
  costs.demands.clear();
  return costs;
}

Seconds end_of_three_steps(Engine& engine, const BoundStep& b, const CostTable& costs) {
  const int last = static_cast<int>(b.schedule.roles[0].steps.size()) - 1;
  return engine.run(b.schedule, costs, {.programs = {last, last, last}, .memory = false})
      .steps.back()
      .end;
}

// Some of the costs longer by up to half: kernels, copies, collectives, host work alike.
CostTable some_longer(const CostTable& costs, std::mt19937& random) {
  std::uniform_real_distribution<double> longer(1.0, 1.5);
  std::bernoulli_distribution chosen(0.2);
  CostTable changed = costs;
  for (OpCost& cost : changed.costs) {
    if (!chosen(random)) continue;
    const double factor = longer(random);
    cost.host *= chosen(random) ? factor : 1;
    cost.solo = 0;
    for (std::int32_t i = 0; i < cost.segments.count; ++i) {
      Segment& segment = changed.segments[static_cast<std::size_t>(cost.segments.first + i)];
      segment.solo *= factor;
      cost.solo += segment.solo;
    }
  }
  return changed;
}

}  // namespace

TEST_CASE("formula and fluid agree to 1e-6 where nothing contends, over the grid") {
  const auto formula = make_formula_engine();
  const auto fluid = make_fluid_engine();
  for (const auto& [model, cell] : on_models(grid({2, 12, 1024}))) {
    CAPTURE(model.name);
    CAPTURE(cell.name());
    const BoundStep b = bound(cell, model);
    const CostTable costs = without_resources(b.costs);
    const Seconds expected = formula->run(b.schedule, costs).period();
    CHECK(fluid->run(b.schedule, costs).period() == doctest::Approx(expected).epsilon(1e-6));
    CHECK(fluid->run(b.schedule, b.costs).period() >=
          doctest::Approx(formula->run(b.schedule, b.costs).period()).epsilon(1e-9));
  }
}

TEST_CASE("formula: a step never gets shorter when a kernel, copy or collective gets longer") {
  const auto formula = make_formula_engine();
  std::mt19937 random(20240717);
  for (const auto& [model, cell] : on_models(grid())) {
    CAPTURE(model.name);
    CAPTURE(cell.name());
    const BoundStep b = bound(cell, model);
    CostTable costs = b.costs;
    Seconds before = end_of_three_steps(*formula, b, costs);
    for (int round = 0; round < 10; ++round) {
      costs = some_longer(costs, random);
      const Seconds after = end_of_three_steps(*formula, b, costs);
      CHECK(after >= before * (1 - 1e-12));
      before = after;
    }
    CHECK(before > end_of_three_steps(*formula, b, b.costs));  // something did get longer
  }
}

TEST_CASE("a step's time by cause, and by what its costs rest on, adds up to the step") {
  for (const auto& engine : {make_formula_engine(), make_fluid_engine()}) {
    for (const auto& [model, cell] : on_models(grid({3, 64}))) {
      CAPTURE(model.name);
      CAPTURE(cell.name());
      const BoundStep b = bound(cell, model);
      const Timeline timeline = engine->run(b.schedule, b.costs);
      const TimeSplit split = split_time(b.schedule, b.costs, timeline, b.host);
      CHECK(split.total() == doctest::Approx(timeline.period()).epsilon(1e-9));
      double by_provenance = 0;
      for (const Seconds seconds : split.by_provenance) by_provenance += seconds;
      CHECK(by_provenance == doctest::Approx(timeline.period()).epsilon(1e-9));
      for (const Seconds part : {split.compute, split.copies, split.interference, split.optimizer,
                                 split.host, split.other}) {
        CHECK(part >= -1e-12);
      }
    }
  }
}

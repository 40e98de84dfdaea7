// Forecast beside measurement, with measurements that are made up from the forecast.
#include "validate/compare.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/engines/engine.hpp"

using namespace stepcast;

namespace {

Forecast small() {
  return forecast(parse_scenario("model = \"gpt2\"\ncluster = \"dgx-h100\"\ngpus = 2\n"
                                 "strategy = \"ddp\"\nengine = \"formula\"\nseq_len = 256\n",
                                 "small.toml"),
                  {.search_change = false});
}

// The same schedule with other costs: every collective takes `factor` times as long.
Timeline slower_collectives(const Forecast& f, double factor) {
  CostTable costs = f.costs;
  std::vector<bool> scaled(costs.costs.size(), false);
  const std::vector<Op>& ops = f.schedule.roles[0].steps.back().ops;
  const std::vector<std::int32_t>& index = costs.cost_of[0].back();
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind != OpKind::collective || scaled[static_cast<std::size_t>(index[i])]) continue;
    scaled[static_cast<std::size_t>(index[i])] = true;
    OpCost& cost = costs.costs[static_cast<std::size_t>(index[i])];
    cost.solo *= factor;
    for (std::int32_t s = 0; s < cost.segments.count; ++s) {
      costs.segments[static_cast<std::size_t>(cost.segments.first + s)].solo *= factor;
    }
  }
  return make_formula_engine()->run(f.schedule, costs);
}

bool contains(const std::string& all, const std::string& part) {
  return all.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a run that is the forecast has no error and nobody to blame") {
  const Forecast f = small();
  const Comparison c = compare(f, {f.timeline, {}, {}});
  CHECK(c.step.error() == doctest::Approx(0).epsilon(1e-9));
  for (const ComparedCollective& each : c.collectives) {
    CHECK(each.error() == doctest::Approx(0).epsilon(1e-6));
  }
  CHECK(c.step_all == doctest::Approx(c.step.forecast));
  CHECK(contains(verdict(c), "nothing to blame"));
}

TEST_CASE("slower collectives are found to be slower, and are blamed for the step") {
  const Forecast f = small();
  REQUIRE(f.report.collectives.size() >= 1);
  const Timeline slow = slower_collectives(f, 50);
  const Comparison c = compare(f, {slow, {}, {}});
  CHECK(c.step.error() < -0.05);
  REQUIRE(!c.collectives.empty());
  CHECK(c.collectives[0].error() == doctest::Approx(1.0 / 50 - 1));
  REQUIRE(!c.blame.empty());
  CHECK(contains(c.blame[0].what, "all_reduce"));
  CHECK(c.blame[0].ratio == doctest::Approx(50));
  // With every cost as it was measured the step is the measured one.
  CHECK(c.step_all == doctest::Approx(c.step.measured).epsilon(0.01));
  CHECK(contains(verdict(c), "all_reduce"));
  const auto json = nlohmann::json::parse(to_json(c));
  CHECK(json["schema"] == "stepcast.validation/1");
  CHECK(json["step"]["error"].get<double>() == doctest::Approx(c.step.error()));
}

TEST_CASE("the typical step is the median one, and nothing after it counts") {
  Timeline t;
  const auto step = [&](Seconds begin, Seconds end) {
    t.steps.push_back({Name("steady"), 0, begin, end});
    Span span;
    span.step = static_cast<std::int32_t>(t.steps.size()) - 1;
    t.spans.push_back(span);
  };
  step(0, 100);  // the first warms up
  step(100, 112);
  step(112, 122);
  step(122, 141);
  // Of 12, 10 and 19 the median is 12: the second step.
  const Timeline typical = typical_step(t);
  CHECK(typical.steps.size() == 2);
  CHECK(typical.spans.size() == 2);
  CHECK(typical.period() == doctest::Approx(12));
}

TEST_CASE("peak memory and pools stand beside the forecast's") {
  const Forecast f = small();
  Bytes peak = 0;
  for (const MemorySample& s : f.timeline.memory) peak = std::max(peak, s.allocated);
  const Comparison c = compare(f, {f.timeline, {peak, peak}, {2 * peak}});
  REQUIRE(c.memory.size() >= 2);
  CHECK(c.memory[0].name == "allocated at the peak");
  CHECK(c.memory[0].error() == doctest::Approx(0));
  // All of DDP's tensors are of the compute stream's pool: its peak is the whole one.
  CHECK(c.memory[1].name == "the pool of stream compute at its own");
  CHECK(c.memory[1].forecast == doctest::Approx(static_cast<double>(peak)));
  CHECK(c.memory[1].error() == doctest::Approx(-0.5));
}

TEST_CASE("both timelines are one trace with a process each, at the same zero") {
  const Forecast f = small();
  const auto trace = nlohmann::json::parse(both_as_trace(f, slower_collectives(f, 50)));
  int processes = 0;
  double last[2] = {-1, -1};
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") {
      ++processes;
      const std::string name = event["args"]["name"];
      CHECK((name.starts_with("forecast: ") || name.starts_with("measured: ")));
    }
    const bool step = event["name"].get<std::string>().starts_with("ProfilerStep#");
    if (step && event.value("cat", "") == "gpu_user_annotation") {
      last[event["pid"].get<int>() >= 1000 ? 1 : 0] = event["ts"].get<double>();
    }
  }
  CHECK(processes == 4);                       // host and GPU of each
  CHECK(last[0] == doctest::Approx(last[1]));  // the reported steps begin together
}

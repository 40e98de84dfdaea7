// Errors, baselines and rank order of small made-up sources, worked out by hand.

#include "validate/published/figures.hpp"

#include <doctest/doctest.h>

#include <deque>

#include "validate/published/decisions.hpp"
#include "validate/published/quantile.hpp"

using namespace stepcast;

namespace {

// Rows stay where they are while outcomes point to them.
class Made {
 public:
  MeasuredRow& row(const std::string& model, Split split) {
    MeasuredRow& r = rows_.emplace_back();
    r.split = split;
    r.scenario.model = model;
    r.scenario.micro_batch = 1;
    return r;
  }
  Outcome& add(MeasuredRow& row, int nodes, Seconds measured, Seconds forecast) {
    Outcome& o = outcomes.emplace_back();
    o.row = &row;
    o.nodes = nodes;
    o.gpus = 8 * nodes;
    o.measured = measured;
    o.forecast = forecast;
    o.samples_per_gpu = 1;
    o.flops_per_gpu = 100;
    o.peak_flops = 100;
    return o;
  }
  std::vector<Outcome> outcomes;

 private:
  std::deque<MeasuredRow> rows_;
};

}  // namespace

TEST_CASE("quantiles are linear between the sorted values") {
  CHECK(quantile({4, 1, 2}, 0.5) == 2);
  CHECK(quantile({4, 1, 2}, 0.9) == doctest::Approx(3.6));  // 2 + 0.8 * (4 - 2)
  CHECK(quantile({}, 0.5) == 0);
}

TEST_CASE("no network is the rate of the nearest fitted row with fewer nodes") {
  Made m;
  m.outcomes.reserve(4);
  m.add(m.row("a", Split::fit), 1, 1.0, 0.9);
  MeasuredRow& other_batch = m.row("a", Split::fit);
  other_batch.scenario.micro_batch = 4;
  m.add(other_batch, 1, 3.0, 3.0).samples_per_gpu = 4;
  m.add(m.row("a", Split::check), 4, 1.25, 1.08);
  m.add(m.row("b", Split::check), 4, 2.0, 2.2);
  const std::vector<Baseline> b = baselines(m.outcomes);
  REQUIRE(b.size() == 4);
  CHECK(b[0].partner == nullptr);
  CHECK(b[2].partner == &m.outcomes[0]);  // the same micro-batch; the other is at a ratio of 4
  CHECK(b[2].no_network == doctest::Approx(1.0));
  CHECK(b[3].partner == nullptr);  // another model
  // Efficiencies of the fitted rows: 100/1/100 = 1 and 100/3/100 = 1/3; the median 2/3.
  CHECK(b[2].flops_only == doctest::Approx(1.5));

  const Figures f = figures_of(m.outcomes, b);
  CHECK(f.at("step.check.rows") == 2);
  CHECK(f.at("step.check.worst") == doctest::Approx(13.6));       // 1.08 for 1.25
  CHECK(f.at("no_network.check.median") == doctest::Approx(20));  // 1.0 for 1.25
  // Measured 1/1.25 = 0.8 of the rate, forecast 0.9/1.08 = 0.8333.
  CHECK(f.at("scaling.check.median") == doctest::Approx(3.333).epsilon(1e-3));
  // Added: measured 1.25 - 1.0 = 0.25, forecast 1.08 - 0.9 = 0.18: 28 % off.
  CHECK(f.at("added.check.median") == doctest::Approx(28));
  CHECK(f.at("added.check.wrong_sign") == 0);
}

TEST_CASE("a bar against baselines wants 0.7 of the better one's error") {
  const Figures figures = {{"step.check.median", 2.5},
                           {"no_network.check.median", 4.0},
                           {"flops_only.check.median", 9.0}};
  Bar bar{.figure = "step.check.median", .at_most = 3.0, .at_least = {}, .beats_baselines = true};
  CHECK(judge({bar}, figures)[0].met);  // 2.5 <= 3 and 2.5 <= 2.8
  Figures close = figures;
  close["no_network.check.median"] = 3.5;  // 0.7 of it is 2.45
  CHECK_FALSE(judge({bar}, close)[0].met);
  bar.figure = "step.check.p90";
  CHECK_FALSE(judge({bar}, figures)[0].met);  // no such figure
}

TEST_CASE("decisions are pairs that somebody could choose between") {
  Made m;
  m.outcomes.reserve(4);
  MeasuredRow& ddp = m.row("a", Split::check);
  ddp.scenario.strategy = "ddp";
  MeasuredRow& zero = m.row("a", Split::check);
  zero.scenario.strategy = "zero1";
  MeasuredRow& scaled = m.row("a", Split::check);
  scaled.scenario.strategy = "ddp";
  m.add(ddp, 1, 1.0, 1.0);
  m.add(zero, 1, 1.1, 0.9);    // measured slower than ddp, forecast faster: wrong
  m.add(scaled, 2, 1.2, 1.3);  // slower than one node: right; with zero1 it is no decision
  m.add(m.row("b", Split::check), 1, 1.5, 2.0);
  CHECK(is_decision(m.outcomes[0], m.outcomes[1]));
  CHECK(is_decision(m.outcomes[0], m.outcomes[2]));
  CHECK_FALSE(is_decision(m.outcomes[1], m.outcomes[2]));
  CHECK_FALSE(is_decision(m.outcomes[0], m.outcomes[3]));
  CHECK(decisions(m.outcomes).pairs == 2);
  CHECK(decisions(m.outcomes).right == 1);
  CHECK(all_pairs(m.outcomes).pairs == 6);
  CHECK(all_pairs(m.outcomes).right == 5);
}

TEST_CASE("a change has the wrong sign from 1 % on") {
  Made m;
  m.outcomes.reserve(2);
  for (const auto& [measured, forecast] : {std::pair(-0.8, 0.5), std::pair(-5.0, 1.0)}) {
    MeasuredRow& row = m.row("a", Split::check);
    row.measure = Measure::change_percent;
    Outcome& o = m.add(row, 1, 0, 1.0);
    o.measured_change = measured;
    o.forecast_change = forecast;
  }
  const Figures f = figures_of(m.outcomes, {});
  CHECK(f.at("change.check.wrong_sign") == 1);
  CHECK(f.at("change.check.worst") == doctest::Approx(6.0));
}

#include "sim/report/gantt_text.hpp"

#include <doctest/doctest.h>

#include "tests/unit/report/small_step.hpp"

using namespace stepcast;

// Two columns a second: 36 of them behind a margin of 16, the step takes 18 s.
TEST_CASE("a step of 18 s on 36 columns shows each second as two letters") {
  const Schedule schedule = small_step();
  const Timeline timeline = run_once(schedule, small_step_costs(schedule));
  CHECK(gantt_text(schedule, timeline, {.colour = false, .width = 52}) ==
        "                0        4.5      9             18 s\n"
        "compute         ....FFFFFF..FFFFFFBBBBBBBBBBBB....OO\n"
        "all_gather      GGGGGGGGGGGG........................\n"
        "reduce_scatter  ..............................SSSS..\n"
        "                F forward  B backward  O optimizer\n"
        "                G all-gather  S reduce-scatter\n");
}

TEST_CASE("a column that is busy for less than half shows a small letter") {
  const Schedule schedule = small_step();
  CostTable costs = costs_by(schedule, [](const Op& op) {
    // The first gather takes 0.9 of 60 s: at one column a second it fills most of the first. The
    // reduce-scatter takes no time and has no row, so the margin is 12.
    if (op.kind == OpKind::collective) return op.elements == 1000 ? 0.9 : 0.0;
    return op.phase == Phase::backward ? 59.1 : 0.0;
  });
  const Timeline timeline = run_once(schedule, costs);
  const std::string text = gantt_text(schedule, timeline, {.colour = false, .width = 72});
  CHECK(text.find("all_gather  G...") != std::string::npos);
  // compute begins at 0.9: a tenth of the first column is busy.
  CHECK(text.find("compute     bBBB") != std::string::npos);
}

// 63 columns behind a margin of 9: quarters stand at 0, 15, 31 and 47. 7.564 s are 7564 ms, a
// quarter of it 1891: 3 significant digits would print 1.89e+03.
TEST_CASE("times of a long step stand without an exponent") {
  const Schedule schedule = small_step();
  const CostTable costs = costs_by(schedule, [](const Op& op) {
    return op.kind != OpKind::collective && op.phase == Phase::backward ? 7.564 : 0.0;
  });
  const Timeline timeline = run_once(schedule, costs);
  const std::string text = gantt_text(schedule, timeline, {.colour = false, .width = 72});
  CHECK(text.substr(0, text.find('\n')) ==
        "         0              1891            3782            5673     7564 ms");
}

TEST_CASE("in colour a block is as high as the column is busy and colours are ended") {
  const Schedule schedule = small_step();
  const Timeline timeline = run_once(schedule, small_step_costs(schedule));
  const std::string text = gantt_text(schedule, timeline, {.colour = true, .width = 52});
  CHECK(text.find("all_gather      \x1b[38;5;172m\u2588\u2588") != std::string::npos);
  CHECK(text.find('F') == std::string::npos);
  std::size_t starts = 0, ends = 0;
  for (std::size_t at = 0; (at = text.find("\x1b[38", at)) != std::string::npos; ++at) ++starts;
  for (std::size_t at = 0; (at = text.find("\x1b[0m", at)) != std::string::npos; ++at) ++ends;
  CHECK(starts == 3 + 1 + 1 + 5);  // compute changes its colour twice; five in the legend
  CHECK(ends == 3 + 5);
}

TEST_CASE("no line is wider than 80 columns") {
  const Schedule schedule = small_step();
  const Timeline timeline = run_once(schedule, small_step_costs(schedule));
  const std::string text = gantt_text(schedule, timeline);
  std::size_t widest = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    widest = std::max(widest, end - at);
    at = end + 1;
  }
  CHECK(widest == 80);
}

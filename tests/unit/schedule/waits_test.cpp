// problems() on real schedules: they have none, and taking away any one wait between streams makes
// some, unless another wait says the same.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "sim/schedule/problems.hpp"
#include "sim/schedule/text.hpp"
#include "sim/strategies/strategy.hpp"

using namespace stepcast;

namespace {

Schedule schedule_of(StrategyKind kind, Mesh mesh, int accumulation = 1, bool first_step = false) {
  TrainingStep step;
  step.model = load_model("gpt2");
  step.mesh = mesh;
  step.strategy.kind = kind;
  step.precision = precision_recipe(default_precision(kind));
  step.accumulation = accumulation;
  step.first_step = first_step;
  return build_schedule(step);
}

struct Setting {
  StrategyKind kind;
  Mesh mesh;
};
const Setting settings[] = {
    {StrategyKind::ddp, {8, 1}}, {StrategyKind::fsdp2, {1, 8}}, {StrategyKind::hsdp, {2, 4}}};

// Indices of the steady step's stream waits that nobody misses.
std::vector<OpIndex> idle_waits(Schedule schedule) {
  std::vector<OpIndex> idle;
  std::vector<Op>& ops = schedule.roles[0].steps.back().ops;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind != OpKind::stream_wait) continue;
    const Range waits = ops[i].waits;
    ops[i].waits.count = 0;
    if (problems(schedule).empty()) idle.push_back(static_cast<OpIndex>(i));
    ops[i].waits = waits;
  }
  return idle;
}

}  // namespace

TEST_CASE("the schedules of the strategies have no problems and survive their text") {
  for (const Setting& setting : settings) {
    for (const int accumulation : {1, 3}) {
      for (const bool first_step : {false, true}) {
        CAPTURE(std::string(to_string(setting.kind)));
        CAPTURE(accumulation);
        CAPTURE(first_step);
        const Schedule schedule = schedule_of(setting.kind, setting.mesh, accumulation, first_step);
        for (const std::string& problem : problems(schedule)) FAIL_CHECK(problem);
        const std::string text = to_text(schedule);
        const Schedule read = parse_schedule(text, "text");
        CHECK(equal(schedule, read));
        CHECK(to_text(read) == text);
      }
    }
  }
}

TEST_CASE("every wait of DDP is needed and its absence found") {
  CHECK(idle_waits(schedule_of(StrategyKind::ddp, {8, 1})).empty());
}

// Both gather streams wait for a copy-out. The next gather's copy-in does, and the gather waits for
// its copy-in, so the all_gather stream's own wait says nothing more. After the last gather of
// forward and of backward no gather follows, and the copy-in stream's wait is not missed either.
TEST_CASE("the only waits that FSDP2 could miss are those that say something twice") {
  for (const Setting& setting : {settings[1], settings[2]}) {
    const Schedule schedule = schedule_of(setting.kind, setting.mesh);
    const StepProgram& step = schedule.roles[0].steps.back();
    const std::vector<std::string> names = op_names(schedule, step);
    std::size_t waits = 0;
    for (const Op& op : step.ops) waits += op.kind == OpKind::stream_wait ? 1 : 0;
    const std::vector<OpIndex> idle = idle_waits(schedule);
    CHECK(idle.size() * 4 < waits);
    int of_copy_in = 0;
    for (const OpIndex index : idle) {
      const Op& op = step.ops[static_cast<std::size_t>(index)];
      CAPTURE(names[static_cast<std::size_t>(index)]);
      const std::string& stream = schedule.streams[static_cast<std::size_t>(op.stream)].name.str();
      of_copy_in += stream == "all_gather_copy_in" ? 1 : 0;
      const bool of_gathers = stream == "all_gather" || stream == "all_gather_copy_in";
      CHECK(of_gathers);
    }
    CHECK(of_copy_in == 2);
  }
}

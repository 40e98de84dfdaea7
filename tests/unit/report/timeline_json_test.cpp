#include "sim/report/timeline_json.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/unit/report/small_step.hpp"

using namespace stepcast;
using Json = nlohmann::json;

namespace {

// A compute stream with one long kernel, then `many` short ones of the optimizer.
Schedule short_kernels(int many) {
  ScheduleBuilder b("short kernels", Mesh{1, 1});
  b.lane("main");
  const StreamIndex compute = b.stream("compute");
  b.role("all", 0, 1);
  b.step("steady");
  b.at(Phase::backward);
  b.compute("compute", compute, {}, {}, {});
  b.at(Phase::optimizer);
  for (int i = 0; i < many; ++i) b.compute("adamw", compute, {}, {}, {});
  return b.take();
}

Json drawn(const Schedule& schedule, const CostTable& costs, const PageLimits& limits = {}) {
  return Json::parse(timeline_json(schedule, costs, run_once(schedule, costs), limits));
}

}  // namespace

TEST_CASE("the spans of a page stand at their times with what bound them") {
  const Schedule schedule = small_step();
  const Json page = drawn(schedule, small_step_costs(schedule));
  CHECK(page.at("period_us") == 18e6);
  CHECK(page.at("rows") == Json{"compute", "all_gather", "reduce_scatter"});
  const Json& spans = page.at("spans");
  CHECK(spans.at("row") == Json{0, 0, 0, 0, 1, 1, 2});  // F0 F1 B adamw, AG0 AG1, RS
  CHECK(spans.at("start_us") == Json{2e6, 6e6, 9e6, 17e6, 0, 2e6, 15e6});
  CHECK(spans.at("length_us") == Json{3e6, 3e6, 6e6, 1e6, 2e6, 4e6, 2e6});
  CHECK(spans.at("bytes") == Json{0, 0, 0, 0, 2000, 4000, 12000});
  const auto text = [&](const char* column, std::size_t at) {
    return page.at("texts").at(spans.at(column).at(at).get<std::size_t>());
  };
  CHECK(text("name", 1) == "forward.compute.u1");
  CHECK(text("bound", 1) == "wait");
  CHECK(text("cause", 1) == "forward.all_gather.u1");
  CHECK(text("provenance", 1) == "assumed");
  CHECK(page.at("legend").at(spans.at("shade").at(6).get<std::size_t>()).at("key") == "rs");
}

TEST_CASE("short neighbours of one shade become one span that says how many it is") {
  const Schedule schedule = short_kernels(32);
  const CostTable costs =
      costs_by(schedule, [](const Op& op) { return op.phase == Phase::optimizer ? 2e-6 : 1.0; });
  const Json spans = drawn(schedule, costs).at("spans");
  CHECK(spans.at("count") == Json{1, 32});
  CHECK(spans.at("busy_us").at(1).get<double>() == doctest::Approx(64).epsilon(0.01));
}

TEST_CASE("short neighbours of two shades become one span of the shade that ran longer") {
  const Schedule schedule = [] {
    ScheduleBuilder b("two shades", Mesh{1, 1});
    b.lane("main");
    const StreamIndex compute = b.stream("compute");
    b.role("all", 0, 1);
    b.step("steady");
    for (int i = 0; i < 1000; ++i) {
      b.at(Phase::forward);
      b.compute("compute", compute, {}, {}, {});
      b.compute("copy_out", compute, {}, {}, {});
    }
    return b.take();
  }();
  const CostTable costs =
      costs_by(schedule, [](const Op& op) { return op.verb == Name("compute") ? 3e-3 : 1e-3; });
  const Json page = drawn(schedule, costs, {.spans = 50, .samples = 4000});
  CHECK(page.at("spans").at("row").size() <= 50);
  CHECK(page.at("spans").at("row").size() >= 10);
  double busy = 0;
  for (const Json& us : page.at("spans").at("busy_us")) busy += us.get<double>();
  CHECK(busy == doctest::Approx(4e6));
  for (const Json& shade : page.at("spans").at("shade")) {
    CHECK(page.at("legend").at(shade.get<std::size_t>()).at("key") == "fwd");
  }
}

TEST_CASE("kernels long enough to see are folded only when there are too many") {
  const Schedule schedule = short_kernels(400);
  const CostTable costs = costs_by(schedule, [](const Op&) { return 1e-3; });
  CHECK(drawn(schedule, costs).at("spans").at("row").size() == 401);
  const Json few = drawn(schedule, costs, {.spans = 50, .samples = 4000}).at("spans");
  CHECK(few.at("row").size() <= 50);
  int kernels = 0;
  for (const Json& count : few.at("count")) kernels += count.get<int>();
  CHECK(kernels == 401);
}

TEST_CASE("a thinned memory curve keeps its highest and its lowest level") {
  const Schedule schedule = small_step();
  Timeline timeline = run_once(schedule, small_step_costs(schedule));
  timeline.memory.clear();
  for (int i = 0; i < 10000; ++i) {
    const Bytes bytes = i == 5432 ? 999 : i == 7001 ? 1 : 100 + i % 7;
    timeline.memory.push_back({0, 0, 0, 0, bytes});
  }
  const Json page = Json::parse(memory_json(schedule, timeline, 5000, nullptr));
  const auto bytes = page.at("allocated").at("bytes").get<std::vector<Bytes>>();
  CHECK(bytes.size() <= 4000);
  CHECK(*std::max_element(bytes.begin(), bytes.end()) == 999);
  CHECK(*std::min_element(bytes.begin(), bytes.end()) == 1);
  CHECK(page.at("capacity_bytes") == 5000);
  CHECK(page.at("reserved").is_null());
}

TEST_CASE("links are as busy as the collectives load them and the SMs as the table asks") {
  const Schedule schedule = small_step();
  CostTable costs = small_step_costs(schedule);
  const Timeline timeline = run_once(schedule, costs);
  CollectiveRow row;
  row.calls = 3;
  row.cost.loads = {{Name("nvlink"), 0, 2.0}, {Name("nic"), 0, 3.0}};
  const Cluster cluster = make_cluster(load_machine("dgx-h100"), {.nodes = 2});
  const Json page = Json::parse(topology_json(cluster, schedule, costs, timeline, {row}));
  double nvlink = 0, nic = 0;
  for (const Json& busy : page.at("busy")) {
    if (busy.at("resource") == "nvlink") nvlink = busy.at("share");
    if (busy.at("resource") == "nic") nic = busy.at("share");
  }
  CHECK(nvlink == doctest::Approx(6.0 / 18));
  CHECK(nic == doctest::Approx(9.0 / 18));
  CHECK(page.at("fabric").at("kind") == "rail_optimised");
  int gpus = 0;
  for (const Json& device : page.at("devices")) gpus += device.at("kind") == "gpu";
  CHECK(gpus == 8);
  CHECK(page.at("nodes") == 2);
}

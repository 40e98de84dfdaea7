#include "sim/report/trace.hpp"

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "tests/unit/report/small_step.hpp"

using namespace stepcast;

TEST_CASE("a trace has one named track a stream and a slice for each op at its time") {
  const Schedule schedule = small_step();
  const CostTable costs = small_step_costs(schedule);
  const Timeline timeline = run_once(schedule, costs);
  const nlohmann::json trace = nlohmann::json::parse(to_trace(schedule, costs, timeline));
  std::map<int, std::string> tracks;
  std::map<std::string, nlohmann::json> slices;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "M" && event.at("name") == "thread_name") {
      tracks[event.at("tid")] = event.at("args").at("name");
    }
    if (event.at("ph") == "X") slices[event.at("name")] = event;
  }
  CHECK(tracks.at(7) == "stream 7 (compute)");
  CHECK(tracks.at(16) == "stream 16 (all_gather)");
  CHECK(tracks.at(20) == "stream 20 (reduce_scatter)");
  CHECK(tracks.at(1) == "thread 1 (main)");

  const nlohmann::json& gather = slices.at("forward.all_gather.u1");
  CHECK(gather.at("tid") == 16);
  CHECK(gather.at("ts") == doctest::Approx(2e6));
  CHECK(gather.at("dur") == doctest::Approx(4e6));
  CHECK(gather.at("args").at("bytes") == 4000);
  CHECK(gather.at("args").at("Group size") == 8);
  CHECK(gather.at("args").at("dtype") == "bf16");
  const nlohmann::json& forward = slices.at("forward.compute.u1");
  CHECK(forward.at("ts") == doctest::Approx(6e6));
  CHECK(forward.at("args").at("bound") == "wait");
  CHECK(forward.at("args").at("waited_for") == "forward.all_gather.u1");
  CHECK(forward.at("args").at("provenance") == "assumed");
}

TEST_CASE("streams are numbered as PyTorch's profiler does") {
  CHECK(trace_stream_number(0) == 7);
  CHECK(trace_stream_number(1) == 16);
  CHECK(trace_stream_number(2) == 20);
}

// Chakra traces, written, read back by protoc's code and run by hand.
#include "sim/interop/chakra.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "tests/unit/report/small_step.hpp"

using namespace stepcast;

namespace {

ChakraTimes times_of(const Schedule& schedule, Seconds host) {
  ChakraTimes times;
  for (const Op& op : schedule.roles[0].steps[0].ops) {
    const bool runs = op.kind == OpKind::compute || op.kind == OpKind::collective;
    times.device.push_back(runs ? small_step_seconds(schedule, op) * 1e-3 : 0);
    times.host.push_back(runs ? host : 0);
  }
  return times;
}

const ChakraNode& named(const std::vector<ChakraNode>& nodes, const std::string& name) {
  const auto at = std::find_if(nodes.begin(), nodes.end(),
                               [&](const ChakraNode& node) { return node.name == name; });
  REQUIRE(at != nodes.end());
  return *at;
}

// When each node ends if it starts as soon as what it depends on has ended; microseconds.
double makespan(const std::vector<ChakraNode>& nodes) {
  std::map<std::uint64_t, double> ends;
  double last = 0;
  for (const ChakraNode& node : nodes) {
    double start = 0;
    for (const std::uint64_t id : node.after) start = std::max(start, ends.at(id));
    ends[node.id] = start + node.duration_us;
    last = std::max(last, ends[node.id]);
  }
  return last;
}

}  // namespace

TEST_CASE("a schedule as an execution trace runs as long as the schedule does") {
  const Schedule schedule = small_step();
  const std::string bytes = to_chakra(schedule, 0, 0, 3, times_of(schedule, 0));
  CHECK(is_chakra(bytes));
  const std::vector<ChakraNode> nodes = read_chakra(bytes, "small.3.et");
  CHECK(nodes.size() == 14);        // seven ops and their launches
  CHECK(makespan(nodes) == 18000);  // small_step.hpp draws it: 18, here in milliseconds
  // The first launch pushes everything back.
  const std::vector<ChakraNode> later =
      read_chakra(to_chakra(schedule, 0, 0, 3, times_of(schedule, 5e-6)), "small.3.et");
  CHECK(makespan(later) == 18005);
}

TEST_CASE("a collective has its kind, its rank's bytes and its group, a kernel its time") {
  const Schedule schedule = small_step();
  const std::vector<ChakraNode> nodes =
      read_chakra(to_chakra(schedule, 0, 0, 3, times_of(schedule, 0)), "small.3.et");
  const ChakraNode& gather = named(nodes, "forward.all_gather.u1");
  CHECK(gather.collective);
  CHECK(gather.kind == "all_gather");
  CHECK(gather.bytes == 2000 * 2 / 8);
  CHECK(gather.group == "0");
  const ChakraNode& scatter = named(nodes, "backward.reduce_scatter.u1");
  CHECK(scatter.kind == "reduce_scatter");
  CHECK(scatter.bytes == 3000 * 4);
  const ChakraNode& compute = named(nodes, "forward.compute.u1");
  CHECK(compute.compute);
  CHECK(!compute.collective);
  CHECK(compute.duration_us == 3000);
  CHECK(std::count(compute.after.begin(), compute.after.end(), gather.id) == 1);
  CHECK(!named(nodes, "launch forward.compute.u1").compute);
  const auto groups = nlohmann::json::parse(chakra_groups(schedule));
  CHECK(groups == nlohmann::json::parse(R"({"0": [0, 1, 2, 3, 4, 5, 6, 7]})"));
}

TEST_CASE("what rounding to microseconds takes, the next op of the stream gets") {
  const Schedule schedule = small_step();
  ChakraTimes times = times_of(schedule, 0);
  for (Seconds& seconds : times.device) seconds = seconds > 0 ? 0.4e-6 : 0;
  double sum = 0;
  for (const ChakraNode& node : read_chakra(to_chakra(schedule, 0, 0, 0, times), "tiny.et")) {
    if (node.compute) sum += node.duration_us;
  }
  CHECK(sum == 2);  // four kernels of 0.4 are 1.6
}

TEST_CASE("a trace that is broken says where") {
  const Schedule schedule = small_step();
  const std::string good = to_chakra(schedule, 0, 0, 0, times_of(schedule, 0));
  const auto message = [](const std::string& bytes) -> std::string {
    try {
      read_chakra(bytes, "x.et");
    } catch (const InputError& error) {
      return error.what();
    }
    return "read";
  };
  CHECK(message(good.substr(0, good.size() - 1)).find("the file ends within a node") !=
        std::string::npos);
  CHECK(message("").find("has no nodes") != std::string::npos);
  CHECK(
      message(std::string("\x02\x0a\x00\xff\xff\xff\xff\xff\xff", 9)).find("at byte 3: a length") !=
      std::string::npos);
  CHECK(message(good + good.substr(8)).find("is there twice") != std::string::npos);
  // The second node without the first: it depends on one that is not there.
  const std::size_t head = 1 + static_cast<std::size_t>(good[0]);
  const std::size_t first = 1 + static_cast<std::size_t>(good[head]);
  CHECK(message(good.substr(0, head) + good.substr(head + first)).find("which is not there") !=
        std::string::npos);
  CHECK(!is_chakra("{\"traceEvents\": []}"));
}

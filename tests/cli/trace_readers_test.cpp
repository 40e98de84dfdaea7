// A simulated trace read by the rules of two programs that people analyse PyTorch's traces with,
// restated from their public sources (neither is run here; the viewer that TensorBoard's plugin
// embeds opens the traces in tests/page/trace_viewer.mjs):
//
//   Holistic Trace Analysis 0.5  hta/common/trace_parser.py, trace.py: events without dur or cat
//   are
//                                dropped, the rank is the first "rank": N of the file, a kernel is
//                                of the iteration in which its launch was called, found by
//                                correlation; hta/utils/utils.py: ncclDevKernel is communication,
//                                Memcpy and Memset are memory, all else computation;
//                                hta/analyzers/communication_analysis.py: overlap
//   torch-tb-profiler 0.4.3      profiler/data.py, trace.py: schemaVersion, deviceProperties,
//                                distributedInfo; categories in lower case; steps by the number
//                                behind ProfilerStep#; kernels belong to the op of their External
//                                id
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "tests/cli/run.hpp"

using namespace stepcast::test;
using Json = nlohmann::json;

namespace {

struct Simulated {
  std::string text;  // of the trace
  Json trace, forecast;
};

Simulated simulated(const std::string& arguments) {
  const TemporaryFile file(".json", "");
  const Output o = run("simulate " + arguments + " --json --trace " + file.path());
  CAPTURE(o.err);
  REQUIRE(o.code == 0);
  Simulated s;
  s.text = read(file.path());
  s.trace = Json::parse(s.text);
  s.forecast = Json::parse(o.out);
  return s;
}

using Spans = std::vector<std::pair<double, double>>;

Spans merged(Spans spans) {
  std::sort(spans.begin(), spans.end());
  Spans out;
  for (const auto& [begin, end] : spans) {
    if (!out.empty() && begin <= out.back().second) {
      out.back().second = std::max(out.back().second, end);
    } else {
      out.emplace_back(begin, end);
    }
  }
  return out;
}

double length(const Spans& spans) {
  double sum = 0;
  for (const auto& [begin, end] : spans) sum += end - begin;
  return sum;
}

// Communication that no computation hides, in microseconds, as HTA's overlap counts it: the length
// of both together less the length of computation.
double not_hidden(const Spans& communication, const Spans& computation) {
  Spans all = communication;
  all.insert(all.end(), computation.begin(), computation.end());
  return length(merged(all)) - length(merged(computation));
}

}  // namespace

TEST_CASE("Holistic Trace Analysis finds iterations, kernels by kind, and what is not overlapped") {
  const Simulated s =
      simulated("--model gpt2 --cluster dgx-a100 --nodes 4 --strategy ddp --seq-len 1024");
  std::smatch rank;
  const std::string head = s.text.substr(0, 20'000);
  REQUIRE(std::regex_search(head, rank, std::regex("\"rank\":\\s+(\\d+)")));
  CHECK(rank[1] == "0");

  struct Step {
    double begin, end;
  };
  std::map<int, Step> iterations;
  std::map<std::int64_t, double> launches;  // by correlation
  const std::set<std::string> launch_calls = {"cudaLaunchKernel", "cudaLaunchKernelExC",
                                              "cudaMemcpyAsync", "cudaMemsetAsync"};
  std::vector<const Json*> gpu;
  const std::regex step_name("ProfilerStep\\s*#\\s*(\\d+)");
  for (const Json& event : s.trace.at("traceEvents")) {
    if (!event.contains("dur") || !event.contains("cat")) continue;
    const std::string name = event.at("name"), category = event.at("cat");
    const double ts = event.at("ts"), end = ts + event.at("dur").get<double>();
    std::smatch number;
    if (category == "user_annotation" && std::regex_match(name, number, step_name)) {
      iterations[std::stoi(number[1])] = {ts, end};
    }
    const std::int64_t correlation = event.at("args").value("correlation", -1);
    if (launch_calls.count(name) > 0) {
      CHECK(launches.emplace(correlation, ts).second);  // one launch a correlation
    }
    const bool kernel =
        category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset";
    CHECK(kernel == event.at("args").contains("stream"));
    if (kernel) gpu.push_back(&event);
  }
  REQUIRE(iterations.size() >= 2);
  const int last = iterations.rbegin()->first;

  Spans communication, computation;
  for (const Json* event : gpu) {
    const auto launch = launches.find(event->at("args").at("correlation").get<std::int64_t>());
    REQUIRE(launch != launches.end());
    int iteration = -1;
    for (const auto& [number, step] : iterations) {
      if (launch->second >= step.begin - 0.002 && launch->second <= step.end) iteration = number;
    }
    CHECK(iteration >= 0);
    if (iteration != last) continue;
    const std::string name = event->at("name");
    const double ts = event->at("ts"), end = ts + event->at("dur").get<double>();
    if (name.find("ncclDevKernel") != std::string::npos) {
      communication.emplace_back(ts, end);
    } else if (name.find("Memcpy") == std::string::npos &&
               name.find("Memset") == std::string::npos) {
      computation.emplace_back(ts, end);
    }
  }
  // Every bucket of the last iteration, and what of it the forecast calls exposed.
  std::int64_t calls = 0;
  for (const Json& row : s.forecast.at("collectives")) calls += row.at("calls").get<std::int64_t>();
  CHECK(communication.size() == static_cast<std::size_t>(calls));
  const double exposed = s.forecast.at("time_s").at("exposed").get<double>() * 1e6;
  REQUIRE(exposed > 100);
  CHECK(not_hidden(communication, computation) == doctest::Approx(exposed).epsilon(0.01));
}

TEST_CASE("TensorBoard's plugin finds devices, steps, and the op of each kernel") {
  const Simulated s =
      simulated("--model gpt2 --cluster dgx-h100 --strategy fsdp2 --seq-len 512 --accumulation 2");
  CHECK(s.trace.at("schemaVersion").is_number_integer());
  CHECK(s.trace.at("distributedInfo").at("backend") == "nccl");
  CHECK(s.trace.at("distributedInfo").at("world_size") == 8);
  std::set<int> devices;
  for (const Json& device : s.trace.at("deviceProperties"))
    devices.insert(device.at("id").get<int>());

  const std::set<std::string> known = {"operator",
                                       "cpu_op",
                                       "runtime",
                                       "cuda_runtime",
                                       "cuda_driver",
                                       "kernel",
                                       "memcpy",
                                       "gpu_memcpy",
                                       "memset",
                                       "gpu_memset",
                                       "ac2g",
                                       "user_annotation",
                                       "python_function",
                                       "gpu_user_annotation"};
  std::set<std::int64_t> ops;
  std::vector<int> steps;
  for (const Json& event : s.trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    CHECK(known.count(event.at("cat").get<std::string>()) == 1);
    const std::string name = event.at("name");
    if (event.at("cat") == "cpu_op")
      ops.insert(event.at("args").at("External id").get<std::int64_t>());
    if (event.at("cat") == "user_annotation" && name.starts_with("ProfilerStep#")) {
      steps.push_back(std::stoi(name.substr(name.find('#') + 1)));
    }
  }
  REQUIRE(steps.size() >= 2);
  for (std::size_t i = 1; i < steps.size(); ++i) CHECK(steps[i] == steps[i - 1] + 1);
  int nccl = 0;
  for (const Json& event : s.trace.at("traceEvents")) {
    if (event.value("cat", "") != "kernel") continue;
    const Json& args = event.at("args");
    CHECK(devices.count(args.at("device").get<int>()) == 1);
    CHECK(args.at("stream") == event.at("tid"));
    CHECK(args.at("device") == event.at("pid"));
    CHECK(ops.count(args.at("External id").get<std::int64_t>()) == 1);
    nccl += event.at("name").get<std::string>().starts_with("nccl");
  }
  CHECK(nccl > 20);
}

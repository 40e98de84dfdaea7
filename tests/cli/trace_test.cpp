// Traces as files: what simulate writes is what trace summary reads, and is built as PyTorch's are.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/cli/run.hpp"

using namespace stepcast::test;
using Json = nlohmann::json;

namespace {

struct Both {
  Json forecast;
  Json step;  // the last of the trace's summary
};

Both both(const std::string& arguments) {
  const TemporaryFile trace(".json.gz", "");
  CAPTURE(arguments);
  const Output simulated = run("simulate " + arguments + " --json --trace " + trace.path());
  CAPTURE(simulated.err);
  REQUIRE(simulated.code == 0);
  const Output summary = run("trace summary --json " + trace.path());
  CAPTURE(summary.err);
  REQUIRE(summary.code == 0);
  return {Json::parse(simulated.out), Json::parse(summary.out).at("traces")[0].at("steps").back()};
}

double seconds(const Json& j, const char* key) { return j.at(key).get<double>(); }

using Call = std::tuple<std::string, std::string, int, std::int64_t, int>;

// Calls of one kind, dtype, ranks and size, whatever their row.
std::multiset<Call> calls_of(const Json& rows) {
  std::map<std::tuple<std::string, std::string, int, std::int64_t>, int> calls;
  for (const Json& row : rows) {
    calls[{row.at("kind"), row.at("dtype"), row.at("ranks"), row.at("bytes")}] +=
        row.at("calls").get<int>();
  }
  std::multiset<Call> out;
  for (const auto& [key, count] : calls) {
    const auto& [kind, dtype, ranks, bytes] = key;
    out.insert({kind, dtype, ranks, bytes, count});
  }
  return out;
}

}  // namespace

TEST_CASE(
    "the summary of a simulated trace is the forecast: step, exposed time, every collective") {
  for (const char* arguments :
       {"--model gpt2 --cluster dgx-a100 --strategy ddp --seq-len 1024",
        "--model gpt2 --cluster dgx-a100 --nodes 4 --strategy ddp --seq-len 1024 --accumulation 3",
        "--model llama-2-7b --cluster dgx-h100 --nodes 2 --strategy fsdp2 --seq-len 2048 "
        "--checkpointing full",
        "--model llama-2-7b --cluster dgx-h100 --nodes 2 --strategy fsdp1 --seq-len 2048 "
        "--checkpointing full",
        "--model llama-2-7b --cluster dgx-h100 --nodes 2 --strategy zero2 --seq-len 2048 "
        "--checkpointing full",
        "--model llama-2-7b --cluster dgx-h100 --nodes 4 --strategy hsdp --seq-len 2048 "
        "--checkpointing full --clip-grad-norm",
        "--model resnet-50 --cluster dgx-a100 --nodes 2 --strategy ddp --micro-batch 64"}) {
    const Both b = both(arguments);
    CAPTURE(arguments);
    const double length = seconds(b.forecast, "step_time_s");
    CHECK(seconds(b.step, "length_s") == doctest::Approx(length).epsilon(1e-6));
    const Json& time = b.forecast.at("time_s");
    // A nanosecond a gap is lost to the trace's three decimals.
    CHECK(std::abs(seconds(b.step, "exposed_s") - seconds(time, "exposed")) < 2e-6);
    CHECK(std::abs(seconds(b.step, "host_s") - seconds(time, "host")) < 20e-6);
    const double busy = seconds(time, "compute") + seconds(time, "copies") +
                        seconds(time, "interference") + seconds(time, "optimizer");
    CHECK(std::abs(seconds(b.step, "compute_s") - busy) < 20e-6);
    CHECK(calls_of(b.step.at("collectives")) == calls_of(b.forecast.at("collectives")));
  }
}

TEST_CASE("where the host is the bottleneck the summary differs from the forecast by little") {
  const Both b =
      both("--model gpt2 --cluster dgx-a100 --strategy fsdp1 --seq-len 512 --micro-batch 1");
  const double length = seconds(b.forecast, "step_time_s");
  CHECK(seconds(b.forecast.at("time_s"), "host") > 0.2 * length);
  CHECK(seconds(b.step, "length_s") == doctest::Approx(length).epsilon(0.005));
  CHECK(std::abs(seconds(b.step, "exposed_s") - seconds(b.forecast.at("time_s"), "exposed")) <
        0.03 * length);
}

// What PyTorch's own traces have, as found in public ones: HolisticTraceAnalysis' tests/data
// (nccl_parser_config, 2024) and modded-nanogpt's records (2025-12-11), each event's keys and
// arguments that those readers ask for.
TEST_CASE("a simulated trace has the structure of PyTorch's") {
  const TemporaryFile file(".json", "");
  REQUIRE(run("simulate --model gpt2 --cluster dgx-h100 --seq-len 256 --strategy fsdp2 --trace " +
              file.path())
              .code == 0);
  const Json trace = Json::parse(read(file.path()));
  CHECK(trace.at("schemaVersion") == 1);
  CHECK(trace.at("deviceProperties").size() == 8);
  for (const char* key :
       {"id", "name", "totalGlobalMem", "computeMajor", "computeMinor", "warpSize", "numSms"}) {
    CHECK(trace.at("deviceProperties")[0].contains(key));
  }
  for (const char* key :
       {"backend", "rank", "world_size", "pg_count", "pg_config", "nccl_version"}) {
    CHECK(trace.at("distributedInfo").contains(key));
  }
  const std::map<std::string, std::vector<std::string>> arguments = {
      {"kernel", {"External id", "queued", "device", "context", "stream", "correlation"}},
      {"gpu_memcpy", {"External id", "device", "context", "stream", "correlation", "bytes"}},
      {"cuda_runtime", {"External id", "correlation"}},
      {"cpu_op", {"External id"}},
      {"user_annotation", {"External id"}},
      {"gpu_user_annotation", {"External id"}}};
  std::map<std::string, int> seen;
  std::map<std::int64_t, double> launched;  // by correlation
  std::set<std::int64_t> starts, ends;
  int steps = 0, nccl = 0;
  for (const Json& event : trace.at("traceEvents")) {
    const std::string phase = event.at("ph");
    CAPTURE(event.dump());
    if (phase == "s") starts.insert(event.at("id").get<std::int64_t>());
    if (phase == "f") ends.insert(event.at("id").get<std::int64_t>());
    if (phase != "X") continue;
    const std::string category = event.at("cat");
    ++seen[category];
    REQUIRE(arguments.count(category) == 1);  // no category that PyTorch has not
    for (const std::string& key : arguments.at(category)) CHECK(event.at("args").contains(key));
    for (const char* key : {"name", "pid", "tid", "ts", "dur"}) CHECK(event.contains(key));
    CHECK(event.at("dur").get<double>() >= 0);
    if (category == "cuda_runtime") {
      launched[event.at("args").at("correlation").get<std::int64_t>()] = event.at("ts");
    }
    steps += category == "user_annotation" &&
             event.at("name").get<std::string>().starts_with("ProfilerStep#");
    if (event.at("name").get<std::string>().starts_with("ncclDevKernel_")) {
      ++nccl;
      for (const char* key :
           {"Collective name", "In msg nelems", "Out msg nelems", "Group size", "dtype",
            "Process Group Name", "Process Group Description", "Process Group Ranks"}) {
        CHECK(event.at("args").contains(key));
      }
    }
  }
  CHECK(steps >= 2);
  CHECK(nccl > 10);
  CHECK(starts == ends);
  for (const auto& [category, keys] : arguments) {
    if (category != "gpu_memcpy") CHECK(seen[category] > 0);
  }
  // Every kernel was launched, and not after it began.
  for (const Json& event : trace.at("traceEvents")) {
    if (event.value("cat", "") != "kernel" || event.at("ph") != "X") continue;
    const auto at = launched.find(event.at("args").at("correlation").get<std::int64_t>());
    REQUIRE(at != launched.end());
    CHECK(at->second <= event.at("ts").get<double>() + 0.002);
  }
}

TEST_CASE("slices of one track nest or follow each other, as Perfetto asks") {
  const TemporaryFile file(".json", "");
  REQUIRE(run("simulate --model gpt2 --cluster dgx-h100 --seq-len 256 --strategy zero3 --trace " +
              file.path())
              .code == 0);
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> tracks;
  const Json trace = Json::parse(read(file.path()));
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const double ts = event.at("ts");
    tracks[{event.at("pid"), event.at("tid")}].emplace_back(ts, ts + event.at("dur").get<double>());
  }
  constexpr double rounding = 0.0021;  // microseconds: two ends of three decimals
  for (auto& [track, slices] : tracks) {
    std::sort(slices.begin(), slices.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    });
    std::vector<double> open;
    for (const auto& [begin, end] : slices) {
      while (!open.empty() && open.back() <= begin + rounding) open.pop_back();
      if (!open.empty() && end > open.back() + rounding) {
        FAIL_CHECK("on track " << track.first << "/" << track.second << " a slice from " << begin
                               << " to " << end << " outlasts the one around it, to "
                               << open.back());
        break;
      }
      open.push_back(end);
    }
  }
}

TEST_CASE("a rank a file: each says its rank, and all are read together") {
  const TemporaryFile file(".json", "");
  const std::string stem = file.path().substr(0, file.path().size() - 5);
  const std::string step = "simulate --model gpt2 --cluster dgx-h100 --seq-len 256 --strategy ddp ";
  REQUIRE(run(step + "--trace-ranks 0,6-7 --trace " + file.path()).code == 0);
  std::string files;
  for (const int rank : {0, 6, 7}) {
    const std::string path = stem + ".rank" + std::to_string(rank) + ".json";
    REQUIRE(std::filesystem::exists(path));
    CHECK(Json::parse(read(path)).at("distributedInfo").at("rank") == rank);
    files += " " + path;
  }
  const Output o = run("trace summary" + files);
  CHECK(o.code == 0);
  CHECK(o.out.find("rank 6") != std::string::npos);
  for (const int rank : {0, 6, 7}) {
    std::filesystem::remove(stem + ".rank" + std::to_string(rank) + ".json");
  }
  for (const char* bad : {"8", "all,1", "3-1", "x", "0,", "-1", "0-99999"}) {
    CAPTURE(bad);
    const Output refused = run(step + "--trace-ranks=" + bad + " --trace " + file.path());
    CHECK(refused.code == 2);
    CHECK(count_lines(refused.err) == 1);
    CHECK(refused.err.find("--trace-ranks") != std::string::npos);
  }
  CHECK(run(step + "--trace-ranks all").code == 2);
}

TEST_CASE("a perturbed rank is the one that the others wait for") {
  const TemporaryFile file(".json", "");
  const std::string stem = file.path().substr(0, file.path().size() - 5);
  REQUIRE(run("simulate --model gpt2 --cluster dgx-h100 --seq-len 1024 --strategy ddp --perturb "
              "rank=5:slow=0.8 --trace-ranks 0,5 --trace " +
              file.path())
              .code == 0);
  const std::string a = stem + ".rank0.json", b = stem + ".rank5.json";
  const Output o = run("trace summary " + a + " " + b);
  CHECK(o.code == 0);
  CHECK(o.out.find("the others wait for rank 5") != std::string::npos);
  std::filesystem::remove(a);
  std::filesystem::remove(b);
}

TEST_CASE("a trace beside itself differs nowhere, and beside other buckets in its all-reduces") {
  const TemporaryFile one(".json.gz", ""), other(".json.gz", "");
  const std::string step = "simulate --model gpt2 --cluster dgx-h100 --seq-len 256 --strategy ddp ";
  REQUIRE(run(step + "--trace " + one.path()).code == 0);
  REQUIRE(run(step + "--bucket-cap-mb 100 --trace " + other.path()).code == 0);
  const Output same = run("trace compare " + one.path() + " " + one.path());
  CHECK(same.code == 0);
  CHECK(same.out.find("both issue the same collectives") != std::string::npos);
  const Output differs = run("trace compare " + one.path() + " " + other.path());
  CHECK(differs.code == 0);
  CHECK(differs.out.find("where the schedules differ") != std::string::npos);
  CHECK(differs.out.find("all_reduce after ") != std::string::npos);
}

TEST_CASE("what trace cannot read is one line and exit 2") {
  const TemporaryFile empty(".json", ""), array(".json", "[]"), text(".json", "hello"),
      deep(".json", std::string(100000, '[')), cut(".json", "{\"traceEvents\": [{\"ph\": \"X\"");
  for (const std::string& file :
       {std::string("/no/such/file"), std::string("/dev/null"), std::string("."), empty.path(),
        array.path(), text.path(), deep.path(), cut.path()}) {
    for (const std::string& verb : {"summary " + file, "compare " + file + " " + file}) {
      const Output o = run("trace " + verb);
      CAPTURE(verb);
      CHECK(o.code == 2);
      CHECK(count_lines(o.err) == 1);
      CHECK(o.out.empty());
      CHECK(o.err.find(file) == std::string("stepcast: ").size());
      CHECK(o.err.find(file, o.err.find(file) + 1) == std::string::npos);  // named once
    }
  }
  for (const char* arguments : {"", "summary", "compare x", "sumary x", "summary x --device=-1",
                                "summary x --device many", "summary --unknown x"}) {
    CAPTURE(arguments);
    const Output o = run(std::string("trace ") + arguments);
    CHECK(o.code == 2);
    CHECK(count_lines(o.err) == 1);
  }
}

TEST_CASE("Chakra traces are written a rank a file, with their groups") {
  const std::string prefix =
      (std::filesystem::temp_directory_path() / ("stepcast-et-" + std::to_string(getpid())))
          .string();
  REQUIRE(run("simulate --model gpt2 --cluster dgx-h100 --gpus 4 --seq-len 256 --strategy fsdp2 "
              "--chakra " +
              prefix)
              .code == 0);
  for (const int rank : {0, 1, 2, 3}) {
    const std::string file = prefix + "." + std::to_string(rank) + ".et";
    CHECK(std::filesystem::file_size(file) > 1000);
    const Output summary = run("trace summary " + file);
    CHECK(summary.code == 0);
    CHECK(summary.out.find(" all_gather of ") != std::string::npos);
    CHECK(run("trace summary --json " + file).code == 2);
    std::filesystem::remove(file);
  }
  const Json groups = Json::parse(read(prefix + ".groups.json"));
  std::filesystem::remove(prefix + ".groups.json");
  for (const auto& [number, ranks] : groups.items()) CHECK(ranks.size() <= 4);
  const Output many =
      run("simulate --model gpt2 --cluster dgx-h100 --nodes 256 --strategy ddp "
          "--chakra " +
          prefix);
  CHECK(many.code == 2);
  CHECK(many.err.find("up to 1024 GPUs") != std::string::npos);
  CHECK(run("simulate --model gpt2 --cluster dgx-h100 --strategy ddp --chakra /no/such/x").code ==
        2);
}

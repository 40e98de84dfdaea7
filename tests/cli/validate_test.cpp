// stepcast validate, from outside: a step that is run and forecast.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/run.hpp"

using namespace stepcast::test;

namespace {

using Json = nlohmann::json;

// Two threads, a step of a few milliseconds.
const std::string tiny =
    "validate --model residual-mlp --cluster examples/validate/threads.toml --gpus 2 "
    "--precision fp32 --micro-batch 64 --steps 4 ";

bool contains(const std::string& all, const std::string& part) {
  return all.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("validate prints forecast and measurement side by side and says what is to blame") {
  const Output o = run(tiny + "--strategy ddp");
  CAPTURE(o.err);
  REQUIRE(o.code == 0);
  for (const char* part :
       {"step time", "compute", "exposed communication", "all_reduce of", "allocated at the peak",
        "the pool of stream compute", "the forecast is"}) {
    CAPTURE(part);
    CHECK(contains(o.out, part));
  }
}

TEST_CASE("validate --json holds the same, and peak memory is what was forecast") {
  const Output o = run(tiny + "--strategy fsdp2 --json");
  REQUIRE(o.code == 0);
  const Json j = Json::parse(o.out);
  CHECK(j.at("schema") == "stepcast.validation/1");
  CHECK(j.at("ranks") == 2);
  CHECK(j.at("steps") == 3);
  CHECK(j.at("step").at("measured_s").get<double>() > 0);
  CHECK(j.at("collectives").size() >= 2);
  CHECK(j.at("memory").at(0).at("name") == "allocated at the peak");
  CHECK(j.at("memory").at(0).at("error").get<double>() == doctest::Approx(0));
  CHECK(j.at("verdict").is_string());
}

TEST_CASE("validate --sweep compares values of a key, strategies with their sharding too") {
  const Output o = run(tiny + "--sweep strategy=ddp,fsdp1:SHARD_GRAD_OP,fsdp2 --json");
  CAPTURE(o.err);
  REQUIRE(o.code == 0);
  const Json j = Json::parse(o.out);
  CHECK(j.at("schema") == "stepcast.validation-sweep/1");
  REQUIRE(j.at("points").size() == 3);
  CHECK(j.at("points").at(1).at("value") == "fsdp1:SHARD_GRAD_OP");
  CHECK(j.at("points").at(2).at("validation").at("strategy") == "fsdp2");
  const Output text = run(tiny + "--strategy ddp --sweep bucket_cap_mb=0.01,25");
  REQUIRE(text.code == 0);
  CHECK(contains(text.out, "median error"));
  CHECK(contains(text.out, "pairs that the measurement tells apart"));
}

TEST_CASE("validate --trace writes one trace with both") {
  const std::string file =
      (std::filesystem::temp_directory_path() / ("stepcast-both-" + std::to_string(getpid())))
          .string();
  REQUIRE(run(tiny + "--strategy ddp --trace " + file).code == 0);
  const Json j = Json::parse(read(file));
  std::filesystem::remove(file);
  int processes = 0;
  for (const Json& event : j.at("traceEvents")) processes += event.at("name") == "process_name";
  CHECK(processes == 4);  // host and GPU of the forecast and of the run
}

TEST_CASE("what validate cannot do is one line and exit 2") {
  for (const char* arguments :
       {"--strategy ddp --steps 2", "--strategy ddp --sweep bucket_cap_mb",
        "--strategy ddp --sweep bucket_cap_mb=1,x", "--strategy ddp --step first",
        "--strategy ddp --perturb rank=0:late=1s", "--strategy ddp --watchdog 0",
        "--strategy ddp --sweep micro_batch=1 --trace t.json", "--params 7e9"}) {
    const Output o = run(tiny + arguments);
    CAPTURE(arguments);
    CAPTURE(o.err);
    CHECK(o.code == 2);
    CHECK(o.err.find('\n') == o.err.size() - 1);
  }
}

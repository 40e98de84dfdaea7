// What --json prints, and scenario files, against docs/schemas; the schemas against the program.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <set>

#include "tests/cli/json_schema.hpp"
#include "tests/cli/run.hpp"

using namespace stepcast::test;
using Json = nlohmann::json;

namespace {

const std::string folder = STEPCAST_SOURCE_DIR "/docs/schemas/";
const std::string step = " --model gpt2 --cluster dgx-h100 --seq-len 256";

const Json& schema_of(const std::string& name) {  // "forecast/1"
  static std::map<std::string, Json> known;
  if (const auto found = known.find(name); found != known.end()) return found->second;
  std::string file = name;
  file[file.find('/')] = '-';
  return known[name] = Json::parse(read(folder + file + ".schema.json"));
}

// The output conforms to the schema that it names, which is `name`; the output.
Json conforms(const std::string& arguments, const std::string& name) {
  CAPTURE(arguments);
  const Output o = run(arguments);
  CAPTURE(o.err);
  REQUIRE((o.code == 0 || o.code == 3));
  const Json value = Json::parse(o.out);
  CHECK(value.at("schema") == "stepcast." + name);
  for (const std::string& each : violations(value, schema_of(name))) FAIL_CHECK(each);
  return value;
}

}  // namespace

TEST_CASE("forecasts of every strategy conform to their schema") {
  for (const char* strategy : {"dp", "ddp", "zero1", "zero3", "fsdp1", "fsdp2", "hsdp"}) {
    conforms("simulate" + step + " --json --strategy " + strategy, "forecast/1");
  }
  conforms("simulate --model resnet-50 --cluster dgx-a100 --strategy ddp --json", "forecast/1");
  conforms("simulate --model llama-3-8b --cluster dgx-h100 --strategy ddp --json", "forecast/1");
  conforms("simulate" + step + " --strategy ddp --perturb rank=3:late=1s --json", "forecast/1");
  conforms("simulate" + step + " --strategy ddp --perturb rank=3:missing --json", "forecast/1");
}

TEST_CASE("tables, advice and doctor conform to their schemas") {
  conforms("simulate --params 7e9 --gpus 8 --gpu h100-sxm --json", "tables/1");
  conforms("simulate --params 7e9 --gpus 8 --json", "tables/1");
  conforms("memory --params 7e9 --gpus 8 --json", "memory/1");
  conforms("memory" + step + " --json", "memory/1");
  conforms("volume --params 7e9 --gpus 8 --json", "volume/1");
  conforms("volume" + step + " --nodes 2 --json", "volume/1");
  conforms("advise" + step + " --json", "advice/1");
  conforms("doctor --json", "doctor/1");
}

TEST_CASE("sweeps, tunings, plans, explanations and comparisons conform to their schemas") {
  const TemporaryFile table(".db", "");
  std::filesystem::remove(table.path());
  // Points that fit, that do not (256 samples), that are refused (5 GPUs in groups of 2).
  conforms("sweep" + step +
               " --vary strategy=ddp,hsdp --vary shard_group=2 --vary micro_batch=1,4096 "
               "--vary gpus=5,8 --json --out " +
               table.path(),
           "sweep/1");
  conforms("results --json " + table.path(), "sweep/1");
  conforms("tune" + step + " --strategy ddp --keep strategy,micro_batch --json", "tune/1");
  const std::string plan = "plan --machines dgx-h100 --max-nodes 1 --json ";
  conforms(plan + "--model gpt2 --seq-len 256 --tokens 1e9", "plan/1");
  conforms(plan + "--model resnet-50 --images 1e8 --no-failures", "plan/1");
  conforms("explain" + step + " --strategy ddp --json", "explain/1");
  conforms("explain" + step + " --strategy fsdp2 --json", "explain/1");
  conforms("compare dgx-a100 dgx-h100 --model gpt2 --seq-len 256 --strategy fsdp2 --json",
           "compare/1");
}

TEST_CASE("lists of what is known conform to their schema") {
  for (const char* what : {"models", "gpus", "machines", "profiles", "strategies"}) {
    const Json list = conforms(std::string("list --json ") + what, "list/1").at("list");
    CHECK(static_cast<int>(list.size()) == count_lines(run(std::string("list ") + what).out));
  }
}

TEST_CASE("what is shown of every model, machine and GPU conforms to its schema") {
  for (const std::string what : {"model", "machine", "gpu"}) {
    const Json list = Json::parse(run("list --json " + what + "s").out).at("list");
    for (const Json& one : list) {
      const std::string arguments = "show " + what + " " + one.at("name").get<std::string>();
      const Json shown = conforms(arguments + " --json", what + "/1");
      CHECK(shown.at("name") == one.at("name"));
      for (const char* key : {"parameters", "full_name", "memory_bytes", "network", "gpus"}) {
        if (one.contains(key)) CHECK(shown.at(key) == one.at(key));
      }
    }
  }
}

TEST_CASE("collectives and NCCL's tables conform to their schemas") {
  const std::string log =
      "tests/unit/collectives/logs/old2.10-2x8xA100-dgxa100-8hdr-allreduce.log --log-nodes 2";
  conforms("collectives --ranks 12 --json", "collectives/1");
  conforms("collectives --ranks 16 --cluster dgx-h100 --json", "collectives/1");
  conforms("collectives --ranks 8 --bytes 1M --cluster dgx-h100 --engine messages --json",
           "collectives/1");
  conforms("nccl predict --cluster dgx-h100 --nodes 2 -f 8 --json", "nccl-prediction/1");
  conforms("nccl predict --cluster dgx-h100 --op all_gather -f 8 --json", "nccl-prediction/1");
  conforms("nccl compare " + log + " --cluster dgx-a100 --json", "nccl-comparison/1");
  conforms("nccl compare --published --json", "nccl-published/1");
}

TEST_CASE("runs and validations conform to their schemas") {
  const std::string tiny = " --model gpt2 --cluster dgx-h100 --gpus 2 --seq-len 32 --strategy ddp";
  conforms("run" + tiny + " --json", "forecast/1");
  conforms("validate" + tiny + " --steps 3 --json", "validation/1");
  conforms("validate" + tiny + " --steps 3 --sweep bucket_cap_mb=1,25 --json",
           "validation-sweep/1");
}

TEST_CASE("summaries of traces conform to their schemas") {
  const TemporaryFile trace(".json", "");
  REQUIRE(run("simulate" + step + " --strategy fsdp2 --trace " + trace.path()).code == 0);
  conforms("trace summary --json " + trace.path(), "trace-summary/1");
  conforms("trace compare --json " + trace.path() + " " + trace.path(), "trace-comparison/1");
}

TEST_CASE("the schema of scenarios in docs is what the program's own keys say") {
  const Output o = run("schema scenario");
  CHECK(o.code == 0);
  CHECK(o.out == read(folder + "scenario-1.schema.json"));
}

TEST_CASE("every schema is printed by name, and every file of docs/schemas is listed") {
  const Output list = run("schema");
  REQUIRE(list.code == 0);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    const std::string ending = ".schema.json";
    if (!name.ends_with(ending)) continue;
    ++files;
    name.resize(name.size() - ending.size());
    name[name.rfind('-')] = '/';
    CAPTURE(name);
    CHECK(list.out.find("stepcast." + name + " ") != std::string::npos);
    const Output printed = run("schema stepcast." + name);
    CHECK(printed.out == read(entry.path().string()));
    CHECK(Json::parse(printed.out).at("title") == "stepcast." + name);
  }
  CHECK(files == static_cast<std::size_t>(count_lines(list.out)));
  const Output unknown = run("schema forcast");
  CHECK(unknown.code == 2);
  CHECK(unknown.err.find("forecast/1") != std::string::npos);
}

TEST_CASE("the checker of schemas sees what is wrong") {
  const Json schema = schema_of("doctor/1");
  Json value = Json::parse(run("doctor --json").out);
  REQUIRE(violations(value, schema).empty());
  Json lacking = value, wrong = value, more = value;
  lacking.erase("findings");
  CHECK(violations(lacking, schema).size() == 1);
  wrong["findings"][0]["found"] = "yes";
  CHECK(violations(wrong, schema).size() == 1);
  more["extra"] = 1;
  CHECK(violations(more, schema).size() == 1);
}

TEST_CASE("a scenario may name its schema, and one of another version is refused") {
  const std::string rest =
      "model = \"gpt2\"\ncluster = \"dgx-h100\"\nstrategy = \"ddp\"\nseq_len = 256\n";
  const TemporaryFile good(".toml", "schema = \"stepcast.scenario/1\"\n" + rest);
  CHECK(run("simulate " + good.path()).code == 0);
  const TemporaryFile later(".toml", "schema = \"stepcast.scenario/2\"\n" + rest);
  const Output o = run("simulate " + later.path());
  CHECK(o.code == 2);
  CHECK(o.err.find(":1: schema: ") != std::string::npos);
  CHECK(o.err.find("accepted: stepcast.scenario/1") != std::string::npos);
}

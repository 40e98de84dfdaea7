// stepcast plan, explain and compare from outside: what is refused, what they agree on with
// simulate, and the what-if guide.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/run.hpp"

using namespace stepcast::test;

namespace {

struct Row {
  std::string arguments;
  std::vector<std::string> parts;  // of the message
};

void check_refused(const Row& row) {
  const Output o = run(row.arguments);
  CAPTURE(row.arguments);
  CAPTURE(o.err);
  CHECK(o.code == 2);
  CHECK(o.out.empty());
  CHECK(count_lines(o.err) == 1);
  for (const std::string& part : row.parts) {
    CAPTURE(part);
    CHECK(o.err.find(part) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("wrong plans are refused in one line that says what is accepted") {
  const std::string plan = "plan --model gpt2 --machines dgx-h100 --max-nodes 1 ";
  const std::string good = plan + "--tokens 1e9 ";
  const Row rows[] = {
      {plan, {"--tokens", "nothing says how much to train", "--deadline"}},
      {plan + "--tokens 0", {"--tokens", "0 is not accepted", "above 0"}},
      {plan + "--tokens nan", {"--tokens", "nan"}},
      {plan + "--tokens 1e99", {"--tokens", "1e99"}},
      {plan + "--images 1e9", {"--images", "takes tokens"}},
      {plan + "--budget -3", {"--budget", "-3"}},
      {good + "--images 5", {"--images", "one of the two"}},
      {good + "--rank best", {"--rank", "'best'", "days, cost, amount"}},
      {good + "--rank amount", {"--rank", "days, cost"}},
      {good + "--headroom 1", {"--headroom", "1 is not accepted", "0 to 0.95"}},
      {"plan --model gpt2 --machines dgx-h100 --tokens 1e9 --max-nodes 0",
       {"--max-nodes", "0 is not accepted", "1 to 4096"}},
      {good + "--max-gpus 0", {"--max-gpus", "0 is not accepted", "1 to 65536"}},
      {good + "--mtbf-hours 0", {"--mtbf-hours", "0 is not accepted"}},
      {good + "--no-failures --mtbf-hours 5", {"--mtbf-hours", "--no-failures"}},
      {good + "--no-failures --simulate-failures 5", {"--simulate-failures", "--no-failures"}},
      {good + "--checkpoint half", {"--checkpoint", "'half'", "sharded, gathered"}},
      {good + "--prices no-such-file.toml", {"no-such-file.toml"}},
      {good + "--prices docs", {"docs"}},
      {good + "--prices examples/gpt2-ddp-8-gpus.toml",
       {"gpt2-ddp-8-gpus.toml", "accepted: machine, power"}},
      {good + "--cluster dgx-a100", {"--machines", "--cluster"}},
      {good + "--gpus 8", {"--gpus", "does not apply to a plan"}},
      {good + "--engine fluid", {"--engine", "does not apply to a plan"}},
      {good + "--bucket-cap-mb 25", {"--bucket-cap-mb", "with strategy"}},
      {good + "--global-batch-tokens 1 --global-batch-samples 1", {"--global-batch-samples"}},
      // gpt2 has 1,024 tokens a sample, a dgx-h100 8 GPUs.
      {good + "--global-batch-tokens 5",
       {"--global-batch-tokens: 5 is less than one step of the smallest cluster",
        "8 GPUs take 8 samples of 1024 tokens", "accepted: from 8192"}},
      {good + "--global-batch-samples 15 --micro-batch 2",
       {"--global-batch-samples: 15 is less", "8 GPUs take 16 samples;", "accepted: from 16"}},
      {"plan --tokens 1e9 --model gpt2 --machines dgx-h10", {"'dgx-h10'", "dgx-h100"}},
      {"plan --tokens 1e9 --model gpt2 --machines ''", {"machine"}},
      {"plan --tokens 1e9 --model resnet-50 --machines dgx-1v --max-nodes 1",
       {"--tokens", "takes images"}},
      {"plan --images 1e8 --model resnet-50 --machines dgx-a100 --checkpointing selective",
       {"--checkpointing: 'selective' is not accepted; accepted: none, full"}},
  };
  for (const Row& row : rows) check_refused(row);
}

TEST_CASE("a plan keeps to the checkpointing that is asked for") {
  for (const char* level : {"selective-op", "full"}) {
    CAPTURE(level);
    const nlohmann::json plan = json_of(
        "plan --tokens 1e9 --model llama-3-8b --machines dgx-h100 --max-nodes 1 --no-failures "
        "--checkpointing " +
        std::string(level));
    REQUIRE(!plan.at("points").empty());
    CHECK(plan.at("points").at(0).at("checkpointing") == level);
  }
}

TEST_CASE("a plan for which nothing is big enough says so and exits with 3") {
  const Output o =
      run("plan --model llama-3-70b --tokens 1e9 --machines rtx-3090-2x --max-nodes 1");
  CHECK(o.code == 3);
  CHECK(o.out.find("does not fit: at least") != std::string::npos);
  CHECK(count_lines(o.err) == 1);
}

TEST_CASE("the winner's command simulates to the figures of the plan") {
  const Output o =
      run("plan --model gpt2-medium --seq-len 1024 --tokens 1e10 --machines aws-p5,dgx-a100 "
          "--max-nodes 2 --json");
  REQUIRE(o.code == 0);
  const auto plan = nlohmann::json::parse(o.out);
  CHECK(plan["schema"] == "stepcast.plan/1");
  const auto& best = plan["points"][0];
  const std::string command = best["command"];
  REQUIRE(command.starts_with("stepcast simulate "));
  const Output again = run(command.substr(std::string("stepcast ").size()) + " --json");
  REQUIRE(again.code == 0);
  const auto forecast = nlohmann::json::parse(again.out);
  CHECK(forecast["step_time_s"] == best["step_s"]);
  CHECK(forecast["mfu"] == best["mfu"]);
  CHECK(forecast["tokens_per_s"].get<double>() ==
        doctest::Approx(best["tokens_per_second"].get<double>()).epsilon(1e-12));
  CHECK(best["cost_usd"].is_number());  // an aws-p5 has a price
}

TEST_CASE("wrong comparisons and explanations are refused") {
  const Row rows[] = {
      {"compare dgx-a100 dgx-h10 --model gpt2 --strategy ddp", {"'dgx-h10'", "dgx-h100"}},
      {"compare dgx-a100 examples/gpt2-ddp-8-gpus.toml", {"a machine and a scenario"}},
      {"compare dgx-a100 dgx-h100", {"no model given"}},
      {"compare dgx-a100 dgx-h100 --cluster dgx-2 --model gpt2", {"--cluster"}},
      {"compare no.toml dgx-h100 --model gpt2", {"no.toml"}},
      {"compare dgx-a100", {"b"}},
      {"compare examples/gpt2-ddp-8-gpus.toml examples/gpt2-ddp-8-gpus.toml --scenario x.toml",
       {"--scenario"}},
      {"explain", {"no model given"}},
      {"explain --params 7e9 --gpus 8", {"--params"}},
      {"explain no-such.toml", {"no-such.toml"}},
      {"explain docs", {"docs"}},
  };
  for (const Row& row : rows) check_refused(row);
}

TEST_CASE("an explanation's parts add up to the step") {
  const Output o = run("explain examples/gpt2-ddp-8-gpus.toml --json");
  REQUIRE(o.code == 0);
  const auto e = nlohmann::json::parse(o.out);
  CHECK(e["schema"] == "stepcast.explain/1");
  double path = 0;
  for (const auto& part : e["critical_path"]) path += part["seconds"].get<double>();
  CHECK(path == doctest::Approx(e["step_s"].get<double>()).epsilon(1e-9));
}

// What they print is compared by the test of all pages (golden_test.cpp).
TEST_CASE("every command of the what-if guide runs") {
  const std::string page = read(STEPCAST_SOURCE_DIR "/docs/what-if.md");
  for (int question = 1; question <= 5; ++question) {
    CHECK(page.find("## " + std::to_string(question) + "  ") != std::string::npos);
  }
  const std::string mark = "$ stepcast ";
  int commands = 0;
  for (std::size_t at = page.find(mark); at != std::string::npos; at = page.find(mark, at + 1)) {
    const std::size_t from = at + mark.size();
    const std::string arguments = page.substr(from, page.find('\n', from) - from);
    CAPTURE(arguments);
    const Output o = run(arguments);
    CHECK(o.code == 0);
    CHECK(o.err.empty());
    CHECK(page.compare(page.find('\n', from), 10, "\n\n```text\n") == 0);
    ++commands;
  }
  CHECK(commands >= 8);
}

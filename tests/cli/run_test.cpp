// stepcast run, from outside: replay and train.

#include "tests/cli/run.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

using namespace stepcast::test;

namespace {

using Json = nlohmann::json;

const std::string tiny = "run --model residual-mlp --cluster dgx-h100 --precision fp32 ";

TEST_CASE("run --compute train: every strategy ends with the parameters of one rank") {
  for (const char* strategy :
       {"dp", "ddp", "zero1", "zero2", "zero3", "fsdp1", "fsdp2", "hsdp --shard-group 2",
        "ddp --optimizer sgd-momentum --clip-grad-norm true", "ddp --join-early-ranks 1",
        "ddp --find-unused-parameters true --unused-parameters '*.0.*.bias' --unused-on-ranks 2"}) {
    CAPTURE(strategy);
    const Output o = run(tiny + "--gpus 4 --compute train --float64 --json --strategy " + strategy);
    CHECK(o.code == 0);
    const Json j = Json::parse(o.out);
    CHECK(j.at("schema") == "stepcast.train/1");
    CHECK(j.at("ranks") == 4);
    CHECK(j.at("losses").size() == 5);
    CHECK(j.at("largest_relative_difference") <= 1e-12);
  }
}

TEST_CASE("run --compute train prints each step's loss beside one rank's") {
  const Output o = run(tiny + "--gpus 2 --strategy ddp --compute train --steps 3 --accumulation 2");
  CHECK(o.code == 0);
  CHECK(o.err.empty());
  CHECK(o.out.find("residual-mlp, 13,") == std::string::npos);  // plain digits
  CHECK(o.out.find("ddp on 2 ranks, fp32") != std::string::npos);
  CHECK(o.out.find("\n   3  ") != std::string::npos);
  CHECK(o.out.find("(--float64 leaves rounding out)") != std::string::npos);
}

TEST_CASE("run --compute train: what a 16-bit hook rounds is printed, PowerSGD is refused") {
  const std::string ddp = tiny + "--gpus 2 --compute train --float64 --strategy ddp --comm-hook ";
  const Output rounds = run(ddp + "bf16_compress");
  CHECK(rounds.code == 0);
  CHECK(rounds.out.find("(the hook rounds what is reduced to 16 bits)") != std::string::npos);
  const Output refused = run(ddp + "powerSGD");
  CHECK(refused.code == 2);
  CHECK(refused.err.find("approximation of the gradients") != std::string::npos);
}

TEST_CASE("run replays a step on threads and prints the page that simulate prints") {
  const std::string step =
      " --model residual-mlp --cluster dgx-h100 --gpus 4 --strategy fsdp2 --json";
  const Output o = run("run --steps 2 --stretch 1" + step);
  CHECK(o.code == 0);
  const Json ran = Json::parse(o.out);
  const Json forecast = Json::parse(run("simulate" + step).out);
  CHECK(ran.at("scenario").at("engine") == "cpu threads");
  // Nothing is faster than its cost, so the step is no shorter than its longest stream.
  CHECK(ran.at("step_time_s") >= forecast.at("time_s").at("compute"));
  CHECK(ran.at("collectives").size() == forecast.at("collectives").size());
  CHECK(ran.at("memory_bytes") == forecast.at("memory_bytes"));
}

TEST_CASE("run refuses what it cannot do, in one line") {
  const auto said = [](const std::string& arguments) {
    const Output o = run("run --cluster dgx-h100 " + arguments);
    CHECK(o.code == 2);
    return o.err;
  };
  CHECK(said("--model gpt2 --gpus 2 --strategy ddp --compute train") ==
        "stepcast: --model: gpt2 has attention; accepted with --compute train: residual-mlp, or "
        "another model of family mlp\n");
  CHECK(said("--model residual-mlp --gpus 2 --float64") ==
        "stepcast: --float64: needs --compute train: replay has no numbers\n");
  CHECK(said("--model residual-mlp --gpus 2 --strategy ddp --float64 --compute train") ==
        "stepcast: --float64: needs --precision fp32, not amp-bf16\n");
  CHECK(said("--model residual-mlp --gpus 2 --compute trian").find("did you mean 'train'") !=
        std::string::npos);
  CHECK(said("--model residual-mlp --gpus 2 --strategy ddp --steps -1")
            .find("accepted: 1 to 10000") != std::string::npos);
  CHECK(said("--model residual-mlp --strategy ddp --nodes 100").find("accepted: at most 256") !=
        std::string::npos);
}

}  // namespace

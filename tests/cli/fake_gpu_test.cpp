// The commands for GPUs from end to end, on GPUs that are not there
// (tests/unit/cuda/fake_plugin.cpp): what a first session on a real one runs.

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/run.hpp"

namespace stepcast::test {
namespace {

using Json = nlohmann::json;

std::string fakes(int gpus) {
  return "env STEPCAST_FAKE_GPUS=" + std::to_string(gpus) +
         " STEPCAST_CUDA_PLUGIN=" + STEPCAST_FAKE_CUDA + " ";
}

TEST_CASE("gpu-check runs all of its checks and writes what it found into one folder") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / "stepcast-gpu-check-on-a-fake";
  std::filesystem::remove_all(folder);
  const Output o = run("gpu-check --output " + folder.string(), fakes(1));
  CAPTURE(o.out);
  CAPTURE(o.err);
  CHECK(o.code == 0);
  const Json j = Json::parse(read((folder / "gpu-check.json").string()));
  CHECK(j.at("failed") == 0);
  int trained = 0;
  int validated = 0;
  for (const Json& check : j.at("checks")) {
    const std::string name = check.at("check");
    CAPTURE(name);
    // Two processes have two fakes, which never meet.
    CHECK(check.at("verdict") ==
          (name == "train, two processes on this GPU" ? "left out" : "passed"));
    trained += name.rfind("train, ", 0) == 0 ? 1 : 0;
    validated += name.rfind("validate gpt2, ", 0) == 0 ? 1 : 0;
  }
  CHECK(trained == 10);
  CHECK(validated == 8);
  for (const char* file : {"kernels.json", "calibration.toml", "validate-ddp.json",
                           "validate-hsdp.txt", "validate-zero3-trace.json"}) {
    CHECK(std::filesystem::exists(folder / file));
  }
  // What it wrote is read.
  CHECK(run("simulate --model gpt2 --cluster dgx-h100 --gpus 1 --strategy ddp --seq-len 1024 "
            "--calibration " +
            (folder / "calibration.toml").string())
            .code == 0);
  std::filesystem::remove_all(folder);
}

TEST_CASE("train on GPUs: every strategy that the CPU executor trains, two ranks, from the shell") {
  for (const char* strategy :
       {"dp", "ddp --optimizer sgd-momentum", "ddp --clip-grad-norm", "zero1", "zero2", "zero3",
        "fsdp1", "fsdp2 --clip-grad-norm", "hsdp --shard-group 1"}) {
    const Output o =
        run(std::string("run --executor nccl --compute train --float64 --json --model residual-mlp "
                        "--cluster dgx-h100 --gpus 2 --precision fp32 --strategy ") +
                strategy,
            fakes(2));
    CAPTURE(strategy);
    CAPTURE(o.err);
    REQUIRE(o.code == 0);
    CHECK(Json::parse(o.out).at("largest_relative_difference") <= 1e-12);
  }
}

TEST_CASE("run, validate and calibrate on two GPUs from the shell") {
  const std::string step =
      " --model residual-mlp --cluster dgx-h100 --gpus 2 --strategy fsdp2 --executor nccl";
  const Output ran = run("run --json" + step, fakes(2));
  CAPTURE(ran.err);
  REQUIRE(ran.code == 0);
  CHECK(Json::parse(ran.out).at("scenario").at("engine") == "nccl");
  const TemporaryFile file(".toml", "");
  const Output measured =
      run("calibrate --executor nccl --quick --sizes-mb 1 --dtypes bf16 --output " + file.path(),
          fakes(2));
  CAPTURE(measured.err);
  CHECK(measured.code == 0);
  const Output held = run("validate --json --calibration " + file.path() + step, fakes(2));
  CAPTURE(held.err);
  REQUIRE(held.code == 0);
  CHECK(Json::parse(held.out).at("ranks") == 2);
  CHECK(run("run --model gpt2" + step.substr(step.find(" --cluster")) + " --gpus 3", fakes(2))
            .err.find("the scenario has 3 ranks, this machine 2 GPUs") != std::string::npos);
}

}  // namespace
}  // namespace stepcast::test

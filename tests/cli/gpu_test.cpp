// What says that there is no GPU says it in one line, wherever the plugin is.

#include <doctest/doctest.h>

#include <filesystem>

#include "tests/cli/run.hpp"

namespace stepcast::test {
namespace {

// A device that is hidden is none: the test holds on a machine with GPUs too.
const std::string no_gpus = "env CUDA_VISIBLE_DEVICES= ";

TEST_CASE("gpu-check without a GPU: one line, exit 2, no folder") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / "stepcast-gpu-check-test";
  std::filesystem::remove_all(folder);
  const Output o = run("gpu-check --output " + folder.string(), no_gpus);
  CAPTURE(o.err);
  CHECK(o.code == 2);
  CHECK(o.out.empty());
  CHECK(count_lines(o.err) == 1);
  // "no CUDA plugin: ..." where nvcc or NCCL were not found, else "no GPU: ...".
  CHECK(o.err.starts_with("stepcast: gpu-check: no "));
  CHECK_FALSE(std::filesystem::exists(folder));
}

TEST_CASE("gpu-check without the plugin says where it was looked for") {
  const Output o = run("gpu-check", "env STEPCAST_CUDA_PLUGIN=/nowhere ");
  CHECK(o.code == 2);
  CHECK(o.err.starts_with("stepcast: gpu-check: no CUDA plugin: /nowhere"));
}

TEST_CASE("run --executor nccl without a GPU names the executors that need none") {
  const Output o =
      run("run --model residual-mlp --cluster dgx-h100 --gpus 1 --strategy ddp --executor nccl",
          no_gpus);
  CAPTURE(o.err);
  CHECK(o.code == 2);
  CHECK(count_lines(o.err) == 1);
  CHECK(o.err.starts_with("stepcast: --executor: nccl: no "));
  CHECK(o.err.find("accepted: threads, mpi") != std::string::npos);
}

TEST_CASE("calibrate and validate on GPUs say in one line that there is none") {
  for (const std::string command :
       {"calibrate --executor nccl",
        "validate --model gpt2 --cluster dgx-h100 --gpus 1 --strategy ddp --executor nccl"}) {
    const Output o = run(command, no_gpus);
    CAPTURE(o.err);
    CHECK(o.code == 2);
    CHECK(count_lines(o.err) == 1);
    CHECK(o.err.starts_with("stepcast: --executor: nccl: no "));
  }
}

TEST_CASE("executors that calibrate and validate do not know, or that do not fit, are refused") {
  CHECK(run("calibrate --executor gpu").err.find("accepted: threads, mpi, nccl") !=
        std::string::npos);
  CHECK(run("calibrate --executor mpi").err.find("accepted: under stepcast launch") !=
        std::string::npos);
  CHECK(run("validate --model gpt2 --cluster dgx-h100 --gpus 1 --strategy ddp --executor cuda")
            .err.find("accepted: threads, mpi, nccl") != std::string::npos);
  CHECK(run("calibrate --gpu h100-sxm").err.find("accepted: with --from-trace") !=
        std::string::npos);
  CHECK(run("calibrate --executor nccl --watchdog 0").err.find("--watchdog") != std::string::npos);
}

TEST_CASE("--stretch is refused on GPUs before anything is opened") {
  const Output o = run(
      "run --model gpt2 --cluster dgx-h100 --gpus 1 --strategy ddp --executor nccl --stretch 4");
  CHECK(o.code == 2);
  CHECK(o.err.starts_with("stepcast: --stretch: needs --executor threads"));
}

}  // namespace
}  // namespace stepcast::test

// stepcast calibrate, from outside: what it writes is what --calibration reads.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/cli/run.hpp"

using namespace stepcast::test;

namespace {

std::string temporary(const std::string& name) {
  return (std::filesystem::temp_directory_path() /
          ("stepcast-calibrate-" + std::to_string(getpid()) + "-" + name))
      .string();
}

bool contains(const std::string& all, const std::string& part) {
  return all.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a quick calibration of threads is read by simulate") {
  const std::string file = temporary("threads.toml");
  const std::string arguments =
      "calibrate --quick --ranks 2 --largest-mb 0.0625 --name here --output " + file;
  const Output measured = run(arguments);
  CAPTURE(measured.err);
  REQUIRE(measured.code == 0);
  CHECK(contains(measured.err, "[1/8] all_reduce of 2 ranks, world, fp32"));
  CHECK_FALSE(std::filesystem::exists(file + ".part"));
  const Output o = run(
      "simulate --model residual-mlp --cluster dgx-h100 --gpus 2 --strategy ddp --calibration " +
      file);
  CAPTURE(o.err);
  REQUIRE(o.code == 0);
  CHECK(contains(o.out, "calibration of here"));
  CHECK(contains(o.out, "cpu threads"));

  // What another measurement has begun is not gone on with.
  std::filesystem::rename(file, file + ".part");
  const Output other = run(arguments + " --shard-group 1");
  CHECK(other.code == 2);
  CHECK(contains(other.err, "was begun as"));
  // The same one has nothing left to do.
  const Output again = run(arguments);
  CHECK(again.code == 0);
  CHECK(contains(again.err, "8 of 8 units"));
  CHECK_FALSE(contains(again.err, "all_reduce of 2 ranks"));
  std::filesystem::remove(file);
}

TEST_CASE("a trace becomes a calibration of its GPU, and says what it left out") {
  const std::string trace = temporary("trace.json"), file = temporary("trace.toml");
  std::ofstream(trace) << R"({"deviceProperties": [{"name": "NVIDIA H100 80GB HBM3",
    "totalGlobalMem": 85028372480, "computeMajor": 9, "computeMinor": 0, "numSms": 132}],
    "traceEvents": [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 1, "args": {"External id": 1,
     "Input Dims": [[1024, 768], [768, 2304]], "Input type": ["c10::Half", "c10::Half"]}},
    {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 2, "dur": 30, "args": {"External id": 1}},
    {"ph": "X", "cat": "kernel", "name": "other", "ts": 9, "dur": 10, "args": {"External id": 2}}]})";
  const Output o = run("calibrate --from-trace " + trace + " --output " + file);
  CAPTURE(o.err);
  REQUIRE(o.code == 0);
  CHECK(contains(o.out, "covered: 75 % of the kernels' time"));
  CHECK(contains(o.out, "left out: kernels of no op 25 %"));
  CHECK(contains(read(file), "gpu = \"h100-sxm\""));
  const Output forecast =
      run("simulate --model gpt2 --cluster dgx-h100 --strategy ddp --seq-len 1024 --calibration " +
          file);
  CHECK(forecast.code == 0);
  CHECK(contains(forecast.out, "1 product"));
  // Of another GPU its kernels say nothing.
  const Output other =
      run("simulate --model gpt2 --cluster dgx-a100 --strategy ddp --seq-len 1024 --calibration " +
          file);
  CHECK(other.code == 0);
  CHECK(contains(other.out, "are of h100-sxm"));
  std::filesystem::remove(trace);
  std::filesystem::remove(file);
}

TEST_CASE("what calibrate cannot do is one line and exit 2") {
  for (const char* arguments :
       {"calibrate --ranks 1", "calibrate --ranks 4 --shard-group 3", "calibrate --largest-mb 0",
        "calibrate --from-trace no/such/file", "calibrate --from-trace /dev/zero",
        "calibrate --gpu h100-sxm", "calibrate --quick --ranks 0",
        "calibrate --quick --ranks 2 --output /tmp", "calibrate --quick --ranks 2 --output ''",
        "calibrate --quick --ranks 2 --output /no/such/folder/x.toml",
        "calibrate --quick --ranks 2 --output /dev/full", "calibrate --sizes-mb 1e12",
        "calibrate --quick --ranks 2 --name \"$(printf 'a\\377')\"",
        "simulate --model gpt2 --cluster dgx-h100 --strategy ddp --calibration README.md"}) {
    const Output o = run(arguments);
    CAPTURE(arguments);
    CAPTURE(o.err);
    CHECK(o.code == 2);
    CHECK(o.out.empty());
    CHECK(o.err.find('\n') == o.err.size() - 1);
  }
}

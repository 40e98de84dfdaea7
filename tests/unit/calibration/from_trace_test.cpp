// Kernels and collectives of small traces, worked out by hand.
#include "sim/calibration/from_trace.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "sim/calibration/repetitions.hpp"
#include "sim/interop/trace_ops.hpp"

using namespace stepcast;

namespace {

class TempFile {
 public:
  explicit TempFile(const std::string& text) {
    static int number = 0;
    path_ = (std::filesystem::temp_directory_path() /
             ("stepcast-trace-" + std::to_string(getpid()) + "-" + std::to_string(number++)))
                .string();
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~TempFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Three products of one shape: 10 us, 12 us, and 7 + 4 us in two kernels; one elementwise op; an op
// that is not known; and two all-reduces of 4 MB, by the kernel's correlation and by its own words.
std::string trace(double first_all_reduce, double second_all_reduce) {
  const std::string dims =
      R"("Input Dims": [[512, 1024], [1024, 256]], "Input type": ["c10::Half", "c10::Half"]}})";
  const auto op = [](int id, const std::string& name, const std::string& args) {
    return R"({"ph": "X", "cat": "cpu_op", "name": ")" + name +
           R"(", "ts": 1, "dur": 1, "args": )" + R"({"External id": )" + std::to_string(id) + ", " +
           args + ",\n";
  };
  const auto launch = [](int id, int correlation) {
    return R"({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 1, "dur": 5,)"
           R"( "args": {"External id": )" +
           std::to_string(id) + R"(, "correlation": )" + std::to_string(correlation) + "}},\n";
  };
  const auto kernel = [](const std::string& name, int correlation, double us, double at) {
    return R"({"ph": "X", "cat": "kernel", "name": ")" + name + R"(", "ts": )" +
           std::to_string(at) + R"(, "dur": )" + std::to_string(us) +
           R"(, "args": {"correlation": )" + std::to_string(correlation);
  };
  const std::string what = R"("Collective name": "allreduce", "dtype": "Float", "Group size": 4,)"
                           R"( "Process Group Ranks": "[0, 2, 4, 6]", "In msg nelems": 1000000,)"
                           R"( "Out msg nelems": 1000000}})";
  std::string text =
      R"({"deviceProperties": [{"name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85028372480,
          "computeMajor": 9, "computeMinor": 0, "numSms": 132}, {"name": "b"}],
          "distributedInfo": {"nccl_version": "2.28.9"}, "traceEvents": [
          {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "ts": 0, "dur": 900},
)";
  for (int i = 1; i <= 3; ++i) text += op(i, "aten::mm", dims);
  text += op(4, "aten::add_",
             R"("Input Dims": [[1000, 1000], [1000, 1000]], "Input type": ["float", "float"]}})");
  text += op(5, "aten::convolution_backward",
             R"("Input Dims": [[8, 8, 8, 8]], "Input type": ["float"]}})");
  text += op(6, "record_param_comms", what);
  for (int i = 1; i <= 6; ++i) text += launch(i, 100 + i);
  text += launch(3, 113);
  text += kernel("gemm", 101, 10, 10) + "}},\n" + kernel("gemm", 102, 12, 20) + "}},\n" +
          kernel("gemm", 103, 7, 40) + "}},\n" + kernel("splitKreduce", 113, 4, 50) + "}},\n" +
          kernel("add", 104, 20, 60) + "}},\n" + kernel("dgrad", 105, 47, 80) + "}},\n";
  // The later one stands first in the file.
  text += kernel("ncclDevKernel_AllReduce", 999, second_all_reduce, 300) + ", " + what + ",\n";
  text += kernel("ncclDevKernel_AllReduce", 106, first_all_reduce, 200) + "}}\n]}";
  return text;
}

}  // namespace

TEST_CASE("a trace gives products, memory-bound kernels, collectives and launches") {
  const TempFile file(trace(90, 70));
  const TraceCalibration t = calibration_of_traces({file.path()});
  const Calibration& c = t.calibration;
  CHECK(c.origin.gpu == "h100-sxm");
  CHECK(c.origin.executor == "pytorch");
  REQUIRE(c.kernels.shapes.size() == 1);
  CHECK(c.kernels.shapes[0].shape.m == 512);
  CHECK(c.kernels.shapes[0].shape.n == 256);
  CHECK(c.kernels.shapes[0].shape.k == 1024);
  CHECK(c.kernels.shapes[0].shape.dtype == Dtype::fp16);
  // 10, 11 (7 + 4), 12: the median.
  CHECK(c.kernels.shapes[0].seconds == doctest::Approx(11e-6));
  REQUIRE(c.kernels.memory.size() == 1);
  CHECK(c.kernels.memory[0].bytes == std::vector<Bytes>{12'000'000});  // two read, one written
  CHECK(c.kernels.memory[0].seconds[0] == doctest::Approx(20e-6));
  // Two GPUs a node: ranks 0, 2, 4, 6 are on four. The shorter call: the other may have waited.
  REQUIRE(c.collectives.series().size() == 1);
  CHECK(c.collectives.series()[0].ranks == 4);
  CHECK(c.collectives.series()[0].nodes == 4);
  CHECK(c.collectives.series()[0].bytes == std::vector<Bytes>{4'000'000});
  CHECK(c.collectives.series()[0].time_us[0] == doctest::Approx(70));
  CHECK(*c.host.bare_launch_us == doctest::Approx(5));
  CHECK(t.covered_collectives == 2);
  CHECK(t.step_us == std::vector<double>{900});
  // 53 of 100 us are covered.
  CHECK(t.covered_us / t.kernel_us == doctest::Approx(0.53));
  CHECK(t.left_out == std::vector<std::string>{"aten::convolution_backward 47 %"});
  // What it writes reads back.
  CHECK(t.calibration.origin.date.empty());
}

TEST_CASE("with several ranks, the last to come tells what a collective takes") {
  // Rank a waited 40 us in the first, rank b 30 in the second.
  const TempFile a(trace(120, 70)), b(trace(80, 100));
  const TraceCalibration t =
      calibration_of_traces({a.path(), b.path()}, {.gpu = "h100-pcie", .gpus_per_node = 8});
  const MeasuredTable::Series& series = t.calibration.collectives.series()[0];
  CHECK(series.nodes == 1);
  CHECK(series.time_us[0] == doctest::Approx(75));  // of 80 and 70
  CHECK(t.calibration.origin.gpu == "h100-pcie");
}

TEST_CASE("a trace without kernels of a GPU is refused") {
  const TempFile file(
      R"({"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1}]})");
  CHECK_THROWS_AS(calibration_of_traces({file.path()}), InputError);
}

TEST_CASE("ops that are not what their name says are left alone") {
  KinetoEvent op;
  op.name = "aten::mm";
  op.input_types = {"float", "float"};
  op.input_dims = {{2, 3}, {4, 5}};  // 3 is not 4
  CHECK_FALSE(kernel_of_op(op));
  op.input_dims = {{2, 3}};
  CHECK_FALSE(kernel_of_op(op));
  op.input_dims = {{2, 0}, {0, 5}};
  CHECK_FALSE(kernel_of_op(op));
  op.name = "aten::copy_";  // to fp32 from bf16: 2 bytes read, 4 written
  op.input_types = {"float", "c10::BFloat16"};
  op.input_dims = {{10, 10}, {10, 10}};
  REQUIRE(kernel_of_op(op));
  CHECK(kernel_of_op(op)->bytes_read == 200);
  CHECK(kernel_of_op(op)->bytes_written == 400);
}

TEST_CASE("the median and the quartiles of repetitions") {
  // Four values: the median lies between 11 and 12; the quartiles at 0.75 and 2.25 of the way from
  // the first to the last: 10.75 and 12 + 0.25 x 28 = 19.
  const Repeated r = repeated({40, 10, 12, 11});
  CHECK(r.median == doctest::Approx(11.5));
  CHECK(r.spread == doctest::Approx((19 - 10.75) / 11.5));
  CHECK(repeated({7}).median == 7);
  CHECK(repeated({7}).spread == 0);
}

// Kernels of a small Chakra trace, worked out by hand. The bytes are written here, as the schema
// numbers them, not by the code that writes stepcast's own.
#include "sim/interop/chakra.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "sim/calibration/from_trace.hpp"

using namespace stepcast;

namespace {

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
std::string number(int field, std::uint64_t value) {
  return varint(static_cast<std::uint64_t>(field) << 3) + varint(value);
}
std::string text(int field, const std::string& value) {
  return varint(static_cast<std::uint64_t>(field) << 3 | 2) + varint(value.size()) + value;
}

// A file of nodes.
class Trace {
 public:
  Trace() { message(text(1, "0.0.4")); }

  // An op of the host.
  Trace& op(int id, const std::string& name, const std::string& shapes, const std::string& types) {
    return node(id, name, 4, 0, text(8, text(2, shapes) + text(3, types)), true);
  }
  // A kernel: control dependencies, data dependencies, the inputs of its op.
  Trace& kernel(int id, const std::string& name, int us, const std::vector<int>& control,
                const std::vector<int>& data, const std::string& shapes = "") {
    std::string more;
    for (const int on : control) more += number(4, static_cast<std::uint64_t>(on));
    for (const int on : data) more += number(5, static_cast<std::uint64_t>(on));
    if (!shapes.empty()) more += text(8, text(2, shapes));
    return node(id, name, 4, us, more, false);
  }
  Trace& all_reduce(int id, int us) {
    const std::string type = text(10, text(1, "comm_type") + number(9, 0));
    const std::string size = text(10, text(1, "comm_size") + number(9, 4'000'000));
    return node(id, "ncclDevKernel_AllReduce", 7, us, type + size, false);
  }

  const std::string& bytes() const { return bytes_; }

 private:
  Trace& node(int id, const std::string& name, int type, int us, const std::string& more,
              bool host) {
    return message(number(1, static_cast<std::uint64_t>(id)) + text(2, name) +
                   number(3, static_cast<std::uint64_t>(type)) +
                   number(7, static_cast<std::uint64_t>(us)) + more +
                   text(10, text(1, "is_cpu_op") + number(27, host ? 1 : 0)));
  }
  Trace& message(const std::string& body) {
    bytes_ += varint(body.size()) + body;
    return *this;
  }

  std::string bytes_;
};

class File {
 public:
  explicit File(const Trace& trace)
      : path_("/tmp/stepcast-chakra-" + std::to_string(getpid()) + ".et") {
    std::ofstream(path_, std::ios::binary) << trace.bytes();
  }
  ~File() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

const char* const product = "[[512, 1024], [1024, 256]]";
const char* const halves = "['Tensor(c10::Half)', 'Tensor(c10::Half)']";
const char* const floats = "['Tensor(float)', 'Tensor(float)', 'Scalar']";

// Two products of one shape, 10 us and, in two kernels, 7 + 4; an elementwise op of 20 us, and one
// of 30 whose kernel also waits for another op; an op that is not known; a copy; an all-reduce.
Trace small() {
  Trace t;
  t.op(1, "aten::mm", product, halves).kernel(2, "gemm", 10, {1}, {}, product);
  t.op(3, "aten::mm", product, halves).kernel(4, "gemm", 7, {3}, {2}, product);
  t.kernel(5, "splitKreduce", 4, {3}, {4}, product);
  t.op(6, "aten::add_", "[[1000, 1000], [1000, 1000], []]", floats).kernel(7, "add", 20, {6}, {5});
  t.op(8, "aten::convolution_backward", "[[8, 8, 8, 8], [[2, 3], [4, 5]]]", "['Tensor(float)']");
  t.kernel(9, "dgrad", 49, {}, {7, 8});
  t.op(13, "aten::add_", "[[2000, 1000], [2000, 1000], []]", floats);
  t.kernel(12, "add", 30, {}, {1, 13}, "[[2000, 1000], [2000, 1000], []]");
  t.kernel(10, "Memcpy HtoD (Pinned -> Device)", 100, {}, {}).all_reduce(11, 90);
  return t;
}

}  // namespace

TEST_CASE("a Chakra trace gives products and memory-bound kernels") {
  const File file(small());
  const TraceCalibration t = calibration_of_traces({file.path()}, {.gpu = "h100-sxm"});
  const Calibration& c = t.calibration;
  CHECK(c.origin.gpu == "h100-sxm");
  REQUIRE(c.kernels.shapes.size() == 1);
  CHECK(c.kernels.shapes[0].shape.m == 512);
  CHECK(c.kernels.shapes[0].shape.n == 256);
  CHECK(c.kernels.shapes[0].shape.k == 1024);
  CHECK(c.kernels.shapes[0].shape.dtype == Dtype::fp16);
  CHECK(c.kernels.shapes[0].seconds == doctest::Approx(10.5e-6));  // between 10 and 7 + 4
  REQUIRE(c.kernels.memory.size() == 1);
  // Two read and one written, of 1 and 2 million numbers of 4 bytes.
  CHECK(c.kernels.memory[0].bytes == std::vector<Bytes>{12'000'000, 24'000'000});
  CHECK(c.kernels.memory[0].seconds[0] == doctest::Approx(20e-6));
  CHECK(c.kernels.memory[0].seconds[1] == doctest::Approx(30e-6));
  // 71 of 120 us.
  CHECK(t.kernel_us == doctest::Approx(120));
  CHECK(t.covered_us == doctest::Approx(71));
  CHECK(t.left_out == std::vector<std::string>{"aten::convolution_backward 41 %"});
  CHECK(t.collectives == 1);
  CHECK(t.covered_collectives == 0);
  CHECK(c.collectives.series().empty());
  CHECK_FALSE(c.host.bare_launch_us);
}

TEST_CASE("a Chakra trace does not name its GPU, and needs kernels") {
  const File file(small());
  CHECK_THROWS_WITH_AS(calibration_of_traces({file.path()}), doctest::Contains("--gpu: is missing"),
                       InputError);
  CHECK_THROWS_WITH_AS(calibration_of_traces({file.path()}, {.gpu = "h100-sxn"}),
                       doctest::Contains("--gpu: 'h100-sxn' is not accepted"), InputError);
  Trace host;
  host.op(1, "aten::mm", product, halves);
  const File none(host);
  CHECK_THROWS_WITH_AS(calibration_of_traces({none.path()}, {.gpu = "h100-sxm"}),
                       doctest::Contains("no nodes of a GPU"), InputError);
}

TEST_CASE("shapes of a Chakra trace that are none leave the op alone") {
  for (const char* shapes : {"", "[", "[[512, 1024]", "[[[512, 1024], [1024, 256]]]", "512, 1024",
                             "[[99999999999999999999, 1024], [1024, 256]]", "[[-1, 4], [4, 2]]"}) {
    CAPTURE(shapes);
    Trace t;
    t.op(1, "aten::mm", shapes, halves).kernel(2, "gemm", 10, {1}, {});
    const File file(t);
    const TraceCalibration c = calibration_of_traces({file.path()}, {.gpu = "h100-sxm"});
    CHECK(c.kernels == 1);
    CHECK(c.covered_us == 0);
  }
}

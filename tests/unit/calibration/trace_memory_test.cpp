// How much memory reading a trace takes. Every allocation of this process is counted, so the answer
// is the same on each run: what grows with what, and by how many bytes.
#include <doctest/doctest.h>
#include <malloc.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <istream>
#include <new>
#include <streambuf>
#include <string>

#include "sim/calibration/from_trace.hpp"
#include "sim/interop/trace_summary.hpp"

namespace {

std::atomic<std::int64_t> live{0}, peak{0};

void count(std::int64_t bytes) {
  const std::int64_t now = live += bytes;
  if (now > peak) peak = now;
}

}  // namespace

void* operator new(std::size_t size) {
  void* p = std::malloc(size);
  if (p == nullptr) throw std::bad_alloc();
  count(static_cast<std::int64_t>(malloc_usable_size(p)));
  return p;
}
void operator delete(void* p) noexcept {
  if (p != nullptr) count(-static_cast<std::int64_t>(malloc_usable_size(p)));
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept { operator delete(p); }

using namespace stepcast;

namespace {

std::int64_t peak_of(const std::function<void()>& action) {
  peak = live.load();
  const std::int64_t before = live;
  action();
  return peak - before;
}

// What one event after the other says, in text that is never whole anywhere.
class Generated : public std::streambuf {
 public:
  Generated(int count, std::string (*event)(int)) : count_(count), event_(event) {}

 protected:
  int_type underflow() override {
    if (next_ > count_) return traits_type::eof();
    text_ = next_ == 0 ? "{\"traceEvents\": [\n" : event_(next_ - 1);
    if (next_ > 0) text_ += next_ == count_ ? "\n]}" : ",\n";
    ++next_;
    setg(text_.data(), text_.data(), text_.data() + text_.size());
    return traits_type::to_int_type(*gptr());
  }

 private:
  int count_ = 0, next_ = 0;
  std::string (*event_)(int);
  std::string text_;
};

std::string times(int at) {
  return "\"ph\": \"X\", \"ts\": " + std::to_string(10 * at) +
         ", \"dur\": 5, \"pid\": 1, \"tid\": 1";
}

std::string kernel(int i) {
  return "{" + times(i) +
         R"(, "cat": "kernel", "name": "gemm", "args": {"device": 0, "stream": 7,)" +
         R"( "grid": [1, 2, 3], "correlation": )" + std::to_string(i) + "}}";
}

std::string launch(int i) {
  return "{" + times(i) + R"(, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": {)" +
         R"("External id": )" + std::to_string(i) + R"(, "correlation": )" + std::to_string(i) +
         "}}";
}

std::string op(int i) {
  return "{" + times(i) + R"(, "cat": "cpu_op", "name": "aten::mm", "args": {"External id": )" +
         std::to_string(i) + R"(, "Input Dims": [[64, 32], [32, 16]], "Input type": ["float", )" +
         R"("float"], "Call stack": ")" + std::string(200, 's') + "\"}}";
}

// A kernel first, then frames of Python, which nobody asks for.
std::string frame(int i) {
  if (i == 0) return kernel(0);
  return "{" + times(i) + R"(, "cat": "python_function", "name": "train.py()" + std::to_string(i) +
         R"(): step", "args": {"Python id": )" + std::to_string(i) + R"(, "text": ")" +
         std::string(150, 'x') + "\"}}";
}

std::string kernel_or_launch(int i) { return i % 2 == 0 ? launch(i / 2) : kernel(i / 2); }
std::string op_launch_kernel(int i) {
  return i % 3 == 0 ? op(i / 3) : i % 3 == 1 ? launch(i / 3) : kernel(i / 3);
}

std::int64_t peak_of_summary(int events, std::string (*event)(int)) {
  return peak_of([&] {
    Generated text(events, event);
    std::istream in(&text);
    CHECK(summary_of_trace(in, "generated").steps.size() == 1);
  });
}

// A trace as gzip, gone when the test ends.
class ZippedFile {
 public:
  ZippedFile(int events, std::string (*event)(int))
      : path_("/tmp/stepcast-memory-" + std::to_string(getpid()) + ".json.gz") {
    Generated text(events, event);
    std::istream in(&text);
    gzFile file = gzopen(path_.c_str(), "wb1");
    REQUIRE(file != nullptr);
    for (std::string line; std::getline(in, line);) {
      line += '\n';
      REQUIRE(gzwrite(file, line.data(), static_cast<unsigned>(line.size())) > 0);
    }
    REQUIRE(gzclose(file) == Z_OK);
  }
  ~ZippedFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

constexpr std::int64_t page = 16 << 10;  // strings that grow, once

}  // namespace

TEST_CASE("the counter counts") {
  const std::int64_t bytes = peak_of([] {
    const std::string text(100'000, 'x');
    CHECK(text.back() == 'x');
  });
  CHECK(bytes > 100'000);
  CHECK(bytes < 110'000);
}

TEST_CASE("what a summary does not ask for takes no memory, however long the trace") {
  (void)peak_of_summary(100, frame);  // what is made once
  const std::int64_t small = peak_of_summary(5'000, frame);
  const std::int64_t large = peak_of_summary(40'000, frame);  // 10 MB
  CAPTURE(small);
  CAPTURE(large);
  CHECK(large - small < page);
}

TEST_CASE("nor where the trace is unpacked on the way") {
  const auto peak_of_file = [](int events) {
    const ZippedFile file(events, frame);
    return peak_of([&] { CHECK(summary_of_trace(file.path()).steps.size() == 1); });
  };
  (void)peak_of_file(100);
  const std::int64_t small = peak_of_file(5'000);
  const std::int64_t large = peak_of_file(40'000);
  CAPTURE(small);
  CAPTURE(large);
  CHECK(large - small < page);
}

TEST_CASE("a kernel and its launch take some 130 bytes, and lists that grow twice that") {
  const std::int64_t small = peak_of_summary(2 * 8'192, kernel_or_launch);
  const std::int64_t large = peak_of_summary(2 * 65'536, kernel_or_launch);
  const double each = static_cast<double>(large - small) / (65'536 - 8'192);
  CAPTURE(each);
  CHECK(each > 128);  // it must be kept
  CHECK(each < 260);
}

TEST_CASE("a calibration keeps 40 bytes a kernel, 24 an op, 16 a launch and 8 a duration") {
  const auto peak_of_file = [](int calls) {
    const ZippedFile file(3 * calls, op_launch_kernel);
    return peak_of([&] {
      const TraceCalibration t = calibration_of_traces({file.path()});
      CHECK(t.kernels == calls);
      CHECK(t.covered_us == t.kernel_us);
    });
  };
  const std::int64_t small = peak_of_file(4'096);
  const std::int64_t large = peak_of_file(32'768);  // 20 MB
  const double each = static_cast<double>(large - small) / (32'768 - 4'096);
  CAPTURE(each);
  CHECK(each > 88);
  CHECK(each < 180);
}

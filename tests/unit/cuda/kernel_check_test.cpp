// The check of kernels passes on right ones and finds wrong ones.

#include "runtime/cuda/kernel_check.hpp"

#include <doctest/doctest.h>

#include "tests/unit/cuda/fake_gpu.hpp"
#include "tests/unit/cuda/fake_math.hpp"

namespace stepcast::runtime {
namespace {

TEST_CASE("right kernels pass, each call of the table among them") {
  testing::FakeCluster cluster({1});
  const GpuTables tables = cluster.process(0);
  tables.gpu->use(0);
  const auto checks = check_kernels(tables);
  CHECK(checks.size() >= 35);
  for (const KernelCheck& check : checks) {
    CAPTURE(check.name);
    CAPTURE(check.error);
    CHECK(check.passed());
  }
  CHECK(cluster.alive() == 0);
}

// Every call does what FakeMath does but one.
class WrongMath : public testing::FakeMath {
 public:
  using FakeMath::FakeMath;
  void gemm(GpuStream* stream, bool wide, bool a_transposed, bool b_transposed, std::int64_t m,
            std::int64_t n, std::int64_t k, const std::byte* a, const std::byte* b, bool add,
            std::byte* c) override {
    FakeMath::gemm(stream, wide, a_transposed, b_transposed, m, n, k - 1, a, b, add, c);
  }
};

TEST_CASE("a kernel that leaves out one product of a sum is found") {
  testing::FakeCluster cluster({1});
  GpuTables tables = cluster.process(0);
  tables.gpu->use(0);
  WrongMath wrong([](GpuStream*, const std::function<void()>& what) { what(); });
  tables.math = &wrong;
  int found = 0;
  for (const KernelCheck& check : check_kernels(tables)) {
    if (check.name.starts_with("gemm, fp")) found += check.passed() ? 0 : 1;
  }
  CHECK(found == 2);
}

}  // namespace
}  // namespace stepcast::runtime

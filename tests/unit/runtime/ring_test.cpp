// The arithmetic of collectives, by hand.

#include "runtime/cpu/ring.hpp"

#include <doctest/doctest.h>

#include "runtime/numbers.hpp"

namespace stepcast::runtime {
namespace {

template <typename Stored>
using Tensor = std::vector<Stored>;

// Runs a collective whose ranks send and receive these tensors (in place where both are the same).
template <typename Stored>
void run(const Collective& what, std::vector<Tensor<Stored>>& send,
         std::vector<Tensor<Stored>>& receive) {
  std::vector<Operands> all;
  for (std::size_t r = 0; r < send.size(); ++r) {
    all.push_back({reinterpret_cast<const std::byte*>(send[r].data()),
                   reinterpret_cast<std::byte*>(receive[r].data())});
  }
  const int ranks = static_cast<int>(all.size());
  for (int r = ranks; r-- > 0;) first_half(what, all, r);  // any order
  for (int r = 0; r < ranks; ++r) second_half(what, all, r);
}

TEST_CASE("an all-reduce sums, averages and takes the largest, in place, of uneven chunks") {
  // Three ranks, five elements: rank r holds 10 r + i.
  const auto result = [](Reduction reduction) {
    std::vector<Tensor<double>> tensors;
    for (int r = 0; r < 3; ++r) {
      tensors.push_back({});
      for (int i = 0; i < 5; ++i) tensors.back().push_back(10.0 * r + i);
    }
    run<double>({CollectiveKind::all_reduce, reduction, Dtype::fp64, 5, -1}, tensors, tensors);
    CHECK(tensors[0] == tensors[1]);
    CHECK(tensors[0] == tensors[2]);
    return tensors[0];
  };
  CHECK(result(Reduction::sum) == Tensor<double>{30, 33, 36, 39, 42});
  CHECK(result(Reduction::max) == Tensor<double>{20, 21, 22, 23, 24});
  const Tensor<double> average = result(Reduction::avg);
  for (int i = 0; i < 5; ++i)
    CHECK(average[static_cast<std::size_t>(i)] == doctest::Approx(10 + i));
}

TEST_CASE("integers are summed and averaged as integers") {
  std::vector<Tensor<std::int32_t>> tensors{{1, 7}, {2, 8}};
  run<std::int32_t>({CollectiveKind::all_reduce, Reduction::avg, Dtype::int32, 2, -1}, tensors,
                    tensors);
  CHECK(tensors[0] == Tensor<std::int32_t>{1, 7});  // 3/2 and 15/2 rounded towards zero
  std::vector<Tensor<std::int64_t>> wide{{1ll << 40}, {1ll << 40}};
  run<std::int64_t>({CollectiveKind::all_reduce, Reduction::sum, Dtype::int64, 1, -1}, wide, wide);
  CHECK(wide[1][0] == 1ll << 41);
}

TEST_CASE("an all-gather and a reduce-scatter take a rank's part") {
  std::vector<Tensor<float>> parts{{1, 2}, {3, 4}, {5, 6}};
  std::vector<Tensor<float>> whole(3, Tensor<float>(6, 0));
  run<float>({CollectiveKind::all_gather, Reduction::none, Dtype::fp32, 6, -1}, parts, whole);
  for (const Tensor<float>& each : whole) CHECK(each == Tensor<float>{1, 2, 3, 4, 5, 6});

  run<float>({CollectiveKind::reduce_scatter, Reduction::sum, Dtype::fp32, 6, -1}, whole, parts);
  CHECK(parts[0] == Tensor<float>{3, 6});
  CHECK(parts[2] == Tensor<float>{15, 18});
}

TEST_CASE("broadcast, reduce, scatter and gather have a root") {
  std::vector<Tensor<float>> in{{1, 2}, {3, 4}};
  std::vector<Tensor<float>> out(2, Tensor<float>(2, 0));
  run<float>({CollectiveKind::broadcast, Reduction::none, Dtype::fp32, 2, 1}, in, out);
  CHECK(out[0] == Tensor<float>{3, 4});
  out.assign(2, Tensor<float>(2, 0));
  run<float>({CollectiveKind::reduce, Reduction::sum, Dtype::fp32, 2, 0}, in, out);
  CHECK(out[0] == Tensor<float>{4, 6});
  CHECK(out[1] == Tensor<float>{0, 0});  // only the root receives
  std::vector<Tensor<float>> part(2, Tensor<float>(1, 0));
  run<float>({CollectiveKind::scatter, Reduction::none, Dtype::fp32, 2, 1}, in, part);
  CHECK(part[0] == Tensor<float>{3});
  CHECK(part[1] == Tensor<float>{4});
  out.assign(2, Tensor<float>(2, 0));
  run<float>({CollectiveKind::gather, Reduction::none, Dtype::fp32, 2, 0}, part, out);
  CHECK(out[0] == Tensor<float>{3, 4});
}

TEST_CASE("16-bit sums are rounded at every hop, ties to even") {
  // bf16 has 8 bits: above 256 the step is 2. 256 + 1 = 257 is a tie and rounds to 256 (even), so
  // two hops of 1 leave 256; a sum in fp32 would have been 258.
  const auto bf16 = [](float x) { return to_bf16(x); };
  std::vector<Tensor<Bf16>> tensors{{bf16(1)}, {bf16(256)}, {bf16(1)}};
  // One element is one chunk: the last rank's. It is summed along ranks 0, 1, 2.
  run<Bf16>({CollectiveKind::all_reduce, Reduction::sum, Dtype::bf16, 1, -1}, tensors, tensors);
  CHECK(to_float(tensors[0][0]) == 256.0F);
  // fp16 has 11 bits: 2048 + 1 ties to 2048.
  std::vector<Tensor<Fp16>> halves{{to_fp16(2048)}, {to_fp16(1)}};
  run<Fp16>({CollectiveKind::all_reduce, Reduction::sum, Dtype::fp16, 1, -1}, halves, halves);
  CHECK(to_float(halves[1][0]) == 2048.0F);
}

TEST_CASE("16-bit numbers round as GPUs do") {
  CHECK(to_float(to_bf16(1.00390625F)) == 1.0F);       // 1 + 2^-8: a tie, to even
  CHECK(to_float(to_bf16(1.01171875F)) == 1.015625F);  // 1 + 3 * 2^-8: a tie, up to even
  CHECK(to_float(to_fp16(65504.0F)) == 65504.0F);      // the largest
  CHECK(std::isinf(to_float(to_fp16(65520.0F))));      // rounds beyond it
  CHECK(to_float(to_fp16(0x1p-24F)) == 0x1p-24F);      // the smallest subnormal
  CHECK(to_float(to_fp16(0x1p-25F)) == 0.0F);          // a tie with zero
  CHECK(to_float(to_fp16(-0.1F)) == doctest::Approx(-0.1).epsilon(5e-4));
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {  // every fp16 number survives
    const Fp16 x{static_cast<std::uint16_t>(bits)};
    const float value = to_float(x);
    if (std::isnan(value)) continue;
    REQUIRE(to_fp16(value).bits == x.bits);
  }
}

TEST_CASE("poison reads as no number") {
  std::uint64_t ones = ~0ull;
  const auto* memory = reinterpret_cast<const std::byte*>(&ones);
  CHECK(std::isnan(load<double>(memory, 0)));
  CHECK(std::isnan(load<float>(memory, 1)));
  CHECK(std::isnan(load<Bf16>(memory, 3)));
  CHECK(std::isnan(load<Fp16>(memory, 2)));
  CHECK(load<std::int64_t>(memory, 0) == -1);
}

}  // namespace
}  // namespace stepcast::runtime

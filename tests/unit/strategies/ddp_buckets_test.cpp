// Bucket layouts, worked out by hand or run with PyTorch 1.13.1 (docs/sources.md, E-1 to E-6).

#include <doctest/doctest.h>

#include <numeric>

#include "sim/strategies/ddp/buckets.hpp"
#include "tests/unit/strategies/resnet18_tensors.hpp"
#include "tests/unit/strategies/resnet50_tensors.hpp"

namespace stepcast::ddp {
namespace {

std::vector<Tensor> tensors_of_mib(const std::vector<double>& sizes) {
  std::vector<Tensor> tensors;
  for (const double size : sizes) {
    tensors.push_back({static_cast<Bytes>(size * static_cast<double>(mib)), Dtype::fp32, false});
  }
  return tensors;
}

std::vector<int> reversed(std::size_t count) {
  std::vector<int> order(count);
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

std::vector<Bytes> sizes(const std::vector<Bucket>& buckets) {
  std::vector<Bytes> bytes;
  for (const Bucket& bucket : buckets) bytes.push_back(bucket.bytes);
  return bytes;
}

const Limits defaults = limits_for(25, false);

TEST_CASE("E-1: eight layers of 4 MiB reduce as one bucket first and as 4 + 28 MiB from then on") {
  const std::vector<Tensor> layers = tensors_of_mib({4, 4, 4, 4, 4, 4, 4, 4});
  const std::vector<int> ready = reversed(8);
  CHECK(sizes(buckets_of_iteration(Mode::standard, 0, layers, ready, defaults)) ==
        std::vector<Bytes>{33'554'432});
  const std::vector<Bucket> steady =
      buckets_of_iteration(Mode::standard, 1, layers, ready, defaults);
  REQUIRE(steady.size() == 2);
  CHECK(steady[0].tensors == std::vector<int>{7});
  CHECK(steady[0].bytes == 4 * mib);
  CHECK(steady[1].tensors == std::vector<int>{6, 5, 4, 3, 2, 1, 0});
  CHECK(steady[1].bytes == 28 * mib);
}

TEST_CASE("E-2: a tensor above the cap closes the bucket it lands in instead of standing alone") {
  const std::vector<Tensor> layers = tensors_of_mib({0.5, 0.25, 100, 0.25, 12, 12, 12});
  const std::vector<Bucket> steady = rebuilt_buckets(layers, reversed(7), defaults);
  REQUIRE(steady.size() == 3);
  CHECK(steady[0].bytes == 12 * mib);
  CHECK(steady[1].tensors == std::vector<int>{5, 4, 3, 2});
  CHECK(static_cast<double>(steady[1].bytes) == 124.25 * static_cast<double>(mib));
  CHECK(steady[2].tensors == std::vector<int>{1, 0});
}

TEST_CASE("E-3: find_unused_parameters keeps the construction layout, small bucket last") {
  const std::vector<Tensor> layers = tensors_of_mib({4, 4, 4, 4, 4, 4, 4, 4});
  for (const int iteration : {0, 1, 5}) {
    const std::vector<Bucket> buckets =
        buckets_of_iteration(Mode::find_unused, iteration, layers, reversed(8), defaults);
    REQUIRE(buckets.size() == 2);
    CHECK(buckets[0].tensors == std::vector<int>{1, 2, 3, 4, 5, 6, 7});
    CHECK(buckets[0].bytes == 28 * mib);
    CHECK(buckets[1].tensors == std::vector<int>{0});
    CHECK(buckets[1].bytes == 4 * mib);
  }
}

TEST_CASE("E-4: static_graph runs two iterations with one bucket before the rebuilt layout") {
  const std::vector<Tensor> layers = tensors_of_mib({4, 4, 4, 4, 4, 4, 4, 4});
  const auto at = [&](int iteration) {
    return sizes(
        buckets_of_iteration(Mode::static_graph, iteration, layers, reversed(8), defaults));
  };
  CHECK(at(0) == std::vector<Bytes>{32 * mib});
  CHECK(at(1) == std::vector<Bytes>{32 * mib});
  CHECK(at(2) == std::vector<Bytes>{4 * mib, 28 * mib});
}

TEST_CASE("E-5: an explicit cap of 8 MiB gives 8 8 8 8, by the older rule 4 8 8 8 4") {
  const std::vector<Tensor> layers = tensors_of_mib({4, 4, 4, 4, 4, 4, 4, 4});
  CHECK(sizes(rebuilt_buckets(layers, reversed(8), limits_for(8, true))) ==
        std::vector<Bytes>{8 * mib, 8 * mib, 8 * mib, 8 * mib});
  CHECK(sizes(rebuilt_buckets(layers, reversed(8), limits_for(8, true, true))) ==
        std::vector<Bytes>{4 * mib, 8 * mib, 8 * mib, 8 * mib, 4 * mib});
}

TEST_CASE("E-6: ResNet-50's buckets, to the byte") {
  const testing::ResNet50 model;
  REQUIRE(model.tensors.size() == 161);
  Bytes total = 0;
  for (const Tensor& tensor : model.tensors) total += tensor.bytes;
  REQUIRE(total == 102'228'128);

  using Pairs = std::vector<std::pair<std::size_t, Bytes>>;
  const auto pairs = [](const std::vector<Bucket>& buckets) {
    Pairs list;
    for (const Bucket& bucket : buckets) list.emplace_back(bucket.tensors.size(), bucket.bytes);
    return list;
  };
  CHECK(
      pairs(rebuilt_buckets(model.tensors, model.ready, defaults)) ==
      Pairs{{2, 8'196'000}, {15, 31'502'336}, {12, 26'255'360}, {51, 26'550'272}, {81, 9'724'160}});
  CHECK(
      pairs(construction_buckets(model.tensors, defaults)) ==
      Pairs{
          {7, 12'410'784}, {15, 31'502'336}, {24, 29'669'376}, {78, 27'022'336}, {37, 1'623'296}});
  CHECK(pairs(rebuilt_buckets(model.tensors, model.ready, limits_for(25, true))) ==
        Pairs{{14, 30'257'056}, {12, 26'255'360}, {39, 28'366'848}, {96, 17'348'864}});
}

TEST_CASE("PyTorch 1.4 never rebuilds: the last bucket of ResNet-50 is the 1 MiB one of the stem") {
  const testing::ResNet50 model;
  for (const int iteration : {0, 1, 3}) {
    CHECK(sizes(buckets_of_iteration(Mode::pytorch_1_4, iteration, model.tensors, model.ready,
                                     defaults)) ==
          std::vector<Bytes>{12'410'784, 31'502'336, 29'669'376, 27'022'336, 1'623'296});
  }
}

TEST_CASE(
    "V34: ResNet-18's buckets by the older rule, at 25 and at 35 MB, and by the current one") {
  const testing::ResNet18 model;
  REQUIRE(model.tensors.size() == 62);
  Bytes total = 0;
  for (const Tensor& tensor : model.tensors) total += tensor.bytes;
  REQUIRE(total == 4 * 11'689'512);
  const auto at = [&](double cap, bool older) {
    return sizes(rebuilt_buckets(model.tensors, model.ready, limits_for(cap, true, older)));
  };
  // The head alone is 2,052,000 bytes, above the 1 MiB of the older rule's first bucket.
  CHECK(at(25, true) == std::vector<Bytes>{2'052'000, 28'852'224, 15'853'824});
  CHECK(at(35, true) == std::vector<Bytes>{2'052'000, 38'297'600, 6'408'448});
  CHECK(at(35, false) == std::vector<Bytes>{37'988'256, 8'769'792});
}

TEST_CASE("bucket_cap_mb_list: each bucket has its cap, the last one repeats") {
  const std::vector<Tensor> layers = tensors_of_mib({4, 4, 4, 4, 4, 4, 4, 4});
  // 4 closes at 2; 4 + 4 at 8; then 12s: 12, and the two that are left
  CHECK(
      sizes(rebuilt_buckets(layers, reversed(8), limits_from_list(std::vector{2.0, 8.0, 12.0}))) ==
      std::vector<Bytes>{4 * mib, 8 * mib, 12 * mib, 8 * mib});
}

TEST_CASE("DDP_SET_LAST_BUCKET_CAP: the small bucket is the last, that of the first layers") {
  const std::vector<Tensor> layers = tensors_of_mib({4, 4, 4, 4, 4, 4, 4, 4});
  const std::vector<Bucket> buckets = rebuilt_buckets(layers, reversed(8), defaults, true);
  // Walked from the first layer: {0} closes at 1 MiB, {1 ... 7} at 28; then the list is reversed.
  REQUIRE(buckets.size() == 2);
  CHECK(buckets[0].tensors == std::vector<int>{1, 2, 3, 4, 5, 6, 7});
  CHECK(buckets[1].tensors == std::vector<int>{0});
}

TEST_CASE("each dtype has its own open bucket and its own place in the limits") {
  std::vector<Tensor> mixed = tensors_of_mib({2, 2, 2, 2});
  mixed[1].dtype = mixed[3].dtype = Dtype::bf16;
  const std::vector<int> order{0, 1, 2, 3};
  // Each key's first bucket closes at 1 MiB; the second ones stay open and are appended.
  const std::vector<Bucket> buckets = assign(mixed, order, defaults);
  REQUIRE(buckets.size() == 4);
  CHECK(buckets[0].tensors == std::vector<int>{0});
  CHECK(buckets[1].tensors == std::vector<int>{1});
  CHECK(buckets[2].tensors == std::vector<int>{2});
  CHECK(buckets[3].tensors == std::vector<int>{3});
}

TEST_CASE("a sparse gradient has a bucket of its own") {
  std::vector<Tensor> tensors = tensors_of_mib({4, 30, 4});
  tensors[1].sparse = true;
  const std::vector<Bucket> buckets = assign(tensors, std::vector<int>{0, 1, 2}, {25 * mib});
  REQUIRE(buckets.size() == 2);
  CHECK(buckets[0].tensors == std::vector<int>{1});
  CHECK(buckets[1].tensors == std::vector<int>{0, 2});
}

TEST_CASE("every tensor enters exactly one bucket, whatever the sizes and limits") {
  std::uint32_t state = 12345;
  const auto random = [&](int below) {
    state = state * 1664525u + 1013904223u;
    return static_cast<int>((state >> 8) % static_cast<std::uint32_t>(below));
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<Tensor> tensors;
    const int count = 1 + random(60);
    for (int i = 0; i < count; ++i) {
      tensors.push_back(
          {1 + random(1 << 22), random(4) == 0 ? Dtype::bf16 : Dtype::fp32, random(20) == 0});
    }
    const Limits limits{1 + random(1 << 20), 1 + random(1 << 23)};
    const std::vector<int> order = reversed(tensors.size());
    for (const std::vector<Bucket>& buckets :
         {rebuilt_buckets(tensors, order, limits), construction_buckets(tensors, limits)}) {
      std::vector<int> seen;
      for (const Bucket& bucket : buckets) {
        Bytes bytes = 0;
        for (const int t : bucket.tensors) {
          bytes += tensors[static_cast<std::size_t>(t)].bytes;
          CHECK(tensors[static_cast<std::size_t>(t)].dtype == bucket.dtype);
        }
        CHECK(bytes == bucket.bytes);
        seen.insert(seen.end(), bucket.tensors.begin(), bucket.tensors.end());
      }
      std::sort(seen.begin(), seen.end());
      std::vector<int> all(tensors.size());
      std::iota(all.begin(), all.end(), 0);
      CHECK(seen == all);
    }
  }
}

}  // namespace
}  // namespace stepcast::ddp

#include <doctest/doctest.h>

#include "sim/strategies/dp/chunks.hpp"
#include "sim/strategies/dp/tensor_parts.hpp"

namespace stepcast {
namespace {

std::vector<Bytes> in_mib(const std::vector<dp::Chunk>& chunks) {
  std::vector<Bytes> sizes;
  for (const dp::Chunk& chunk : chunks) sizes.push_back(chunk.bytes / mib);
  return sizes;
}

TEST_CASE("E-25: 6, 6, 3, 9 and 1 MiB are broadcast in 12, 12, 1 and reduced in 6, 9, 10") {
  const std::vector<Bytes> tensors{6 * mib, 6 * mib, 3 * mib, 9 * mib, 1 * mib};
  const std::vector<dp::Chunk> down = dp::broadcast_chunks(tensors);
  CHECK(in_mib(down) == std::vector<Bytes>{12, 12, 1});
  CHECK(down[1].first == 2);
  CHECK(down[1].count == 2);
  const std::vector<dp::Chunk> up = dp::reduce_chunks(tensors);
  CHECK(in_mib(up) == std::vector<Bytes>{6, 9, 10});
  CHECK(up[1].first == 1);
  CHECK(up[2].count == 2);
}

TEST_CASE("a tensor above 10 MiB: broadcast with those before it, reduced alone") {
  const std::vector<Bytes> tensors{1 * mib, 40 * mib, 2 * mib};
  CHECK(in_mib(dp::broadcast_chunks(tensors)) == std::vector<Bytes>{41, 2});
  CHECK(in_mib(dp::reduce_chunks(tensors)) == std::vector<Bytes>{1, 40, 2});
  CHECK(dp::broadcast_chunks({}).empty());
  CHECK(dp::reduce_chunks({}).empty());
}

TEST_CASE("exactly 10 MiB: broadcast closes there, reduce still takes nothing more") {
  const std::vector<Bytes> tensors{4 * mib, 6 * mib, 1 * mib};
  CHECK(in_mib(dp::broadcast_chunks(tensors)) == std::vector<Bytes>{10, 1});
  CHECK(in_mib(dp::reduce_chunks(tensors)) == std::vector<Bytes>{10, 1});
}

TEST_CASE("a stretch of tensors is one view a buffer") {
  // Tensors of 1, 2, 3, 4 bytes; the first two in buffer 7, the others in buffer 9.
  dp::TensorParts parts({1, 2, 3, 4});
  parts.add(0, 2, 7);
  parts.add(2, 2, 9);
  const std::vector<View> views = parts.views(1, 2);
  REQUIRE(views.size() == 2);
  CHECK(views[0].buffer == 7);
  CHECK(views[0].offset == 1);
  CHECK(views[0].bytes == 2);
  CHECK(views[1].buffer == 9);
  CHECK(views[1].offset == 0);
  CHECK(views[1].bytes == 3);
}

}  // namespace
}  // namespace stepcast

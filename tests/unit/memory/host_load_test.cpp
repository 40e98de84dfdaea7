// Host memory at load, by hand: 70e9 parameters in fp32 are 280 GB.

#include "sim/memory/host_load.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"

namespace stepcast {
namespace {

TEST_CASE("280 GB times eight ranks: what loading 70e9 parameters takes of a node") {
  HostLoadQuestion q;
  q.parameters = 70'000'000'000;
  q.ranks_per_node = 8;
  q.shards = 64;
  const HostLoad every = host_bytes_at_load(q, LoadMode::every);
  CHECK(every.reading_rank == 280'000'000'000);
  CHECK(every.first_node == 2'240'000'000'000);
  CHECK(every.other_node == 2'240'000'000'000);
  const HostLoad rank0 = host_bytes_at_load(q, LoadMode::rank0);
  CHECK(rank0.first_node == 280'000'000'000);
  CHECK(rank0.other_node == 0);
  const HostLoad meta = host_bytes_at_load(q, LoadMode::meta);  // a 64th: 4.375 GB a rank
  CHECK(meta.reading_rank == 4'375'000'000);
  CHECK(meta.first_node == 35'000'000'000);
  CHECK(meta.other_node == 35'000'000'000);
  CHECK(host_bytes_at_load(q).size() == 3);
}

TEST_CASE("ways of loading by name") {
  CHECK(parse_load_mode("rank0") == LoadMode::rank0);
  CHECK_THROWS_WITH_AS(parse_load_mode("all"), doctest::Contains("every, rank0, meta"), InputError);
}

}  // namespace
}  // namespace stepcast

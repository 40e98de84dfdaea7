// DDP's bucket size on three networks: small buckets pay launches and latency call by call, large
// ones begin late. BERT large, 335 M parameters in fp32 buckets, 8 sequences a GPU.
#include <doctest/doctest.h>

#include <algorithm>

#include "sim/forecast/forecast.hpp"

using namespace stepcast;

namespace {

struct Point {
  Seconds step = 0;
  Seconds communication = 0;  // all calls as they ran
  Seconds exposed = 0;
  int calls = 0;
};

Point with_buckets(const std::string& network, double mib) {
  const Report r = forecast(parse_scenario("model = \"bert-large\"\nstrategy = \"ddp\"\n"
                                           "micro_batch = 8\nbucket_cap_mb = " +
                                               std::to_string(mib) + "\n" + network,
                                           "test"))
                       .report;
  Point p;
  p.step = r.step_time;
  for (const ExposedPart& part : r.split.exposed) p.exposed += part.seconds;
  for (const CollectiveRow& row : r.collectives) {
    p.calls += row.calls;
    p.communication += row.calls * row.mean_seconds;
  }
  return p;
}

const std::string ethernet =
    "cluster = \"dgx-a100\"\nnodes = 4\nnic_gbps = 1.25\nnetwork = \"ethernet\"\n";
const std::string infiniband = "cluster = \"dgx-h100\"\nnodes = 16\n";
const std::string nvlink = "cluster = \"dgx-h100\"\n";

}  // namespace

TEST_CASE("between nodes both ends lose: small buckets by latency, large ones by lost overlap") {
  for (const std::string& network : {ethernet, infiniband}) {
    CAPTURE(network);
    const Point small = with_buckets(network, 0.25);
    const Point best = with_buckets(network, 100);
    const Point large = with_buckets(network, 1000);
    CHECK(small.step > 1.05 * best.step);
    CHECK(large.step > 1.05 * best.step);
    // The small side: the same bytes in 148 calls of a tensor or a few take longer.
    CHECK(small.calls > 10 * best.calls);
    CHECK(small.communication > 1.1 * best.communication);
    // The large side: less communication than at the best size, and more of it exposed.
    CHECK(large.calls == 2);
    CHECK(large.communication < best.communication);
    CHECK(large.exposed > best.exposed + 0.05 * best.step);
  }
}

TEST_CASE("InfiniBand, 16 nodes: what small buckets lose is their calls' latency") {
  // The bytes are the same, so a call more costs what a call costs beside its bytes. NCCL's tables
  // have 71 us for 8 bytes (LL), 127 for 256 KiB and 172 for 2 MiB (LL128): between 100 and 300.
  const Point small = with_buckets(infiniband, 0.25);
  const Point best = with_buckets(infiniband, 100);
  const double each = (small.communication - best.communication) / (small.calls - best.calls);
  CHECK(each > 100e-6);
  CHECK(each < 300e-6);
}

TEST_CASE("on NVLink the bucket size hardly matters") {
  Seconds least = 1e9, most = 0;
  for (const double mib : {0.25, 1.0, 5.0, 25.0, 100.0, 250.0, 1000.0}) {
    const Point p = with_buckets(nvlink, mib);
    least = std::min(least, p.step);
    most = std::max(most, p.step);
  }
  CHECK(most < 1.02 * least);
}

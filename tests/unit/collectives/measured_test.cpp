// What was measured goes before the model, and is marked by how it was found.

#include "sim/collectives/measured.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.hpp"
#include "sim/collectives/collective_cost.hpp"

using namespace stepcast;

namespace {

const std::string text =
    "[[measured]]\nop = \"all_reduce\"\nranks = 16\nnodes = 2\nsource = \"test\"\n"
    "bytes = [1048576, 4194304]\ntime_us = [100, 400]\n";

std::string refusal(const std::string& toml) {
  try {
    MeasuredTable::from_text(toml, "m.toml");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

bool contains(const std::string& all, const std::string& part) {
  return all.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("between two sizes the time is interpolated in log-log, outside it is extrapolated") {
  const MeasuredTable table = MeasuredTable::from_text(text, "m.toml");
  const auto at = [&](Bytes bytes) { return table.find(CollectiveKind::all_reduce, 16, 2, bytes); };
  CHECK(at(1 << 20)->seconds == doctest::Approx(100e-6));
  CHECK(at(1 << 20)->how == MeasuredHow::measured);
  // Half way on the logarithm from 1 to 4 MiB is 2 MiB; from 100 to 400 us is 200.
  CHECK(at(2 << 20)->seconds == doctest::Approx(200e-6));
  CHECK(at(2 << 20)->how == MeasuredHow::interpolated);
  CHECK(at(8 << 20)->seconds == doctest::Approx(800e-6));  // twice the size, twice the time
  CHECK(at(8 << 20)->how == MeasuredHow::extrapolated);
  CHECK(at(8 << 20)->provenance() == Provenance::extrapolated);
  CHECK(at(1024)->seconds == doctest::Approx(100e-6));
  CHECK(at(1024)->how == MeasuredHow::extrapolated);
  CHECK_FALSE(table.find(CollectiveKind::all_gather, 16, 2, 1 << 20));
  CHECK_FALSE(table.find(CollectiveKind::all_reduce, 16, 4, 1 << 20));
  CHECK_FALSE(table.find(CollectiveKind::all_reduce, 8, 2, 1 << 20));
}

TEST_CASE("two logs become one series, what is written reads back") {
  MeasuredTable table;
  NcclTestsLog log;
  log.file = "dir/a.log";
  log.op = CollectiveKind::all_gather;
  log.ranks = 8;
  log.nodes = 1;
  log.rows = {{1024, 32, 20, 19}, {4096, 128, 30, 0}};
  table.add(log);
  log.file = "b.log";
  log.rows = {{2048, 64, 25, 0}, {4096, 128, 28, 40}};
  table.add(log);
  const MeasuredTable again = MeasuredTable::from_text(table.to_toml(), "m.toml");
  REQUIRE(again.series().size() == 1);
  CHECK(again.series()[0].bytes == std::vector<Bytes>{1024, 2048, 4096});
  CHECK(again.series()[0].time_us == std::vector<double>{19, 25, 28});
  CHECK(again.series()[0].source == "a.log; b.log");
}

TEST_CASE("a wrong table is refused with the key") {
  CHECK(contains(refusal(""), "[[measured]]"));
  CHECK(contains(refusal(text + text), "there twice"));
  std::string falling = text;
  falling.replace(falling.find("4194304"), 7, "1048576");
  CHECK(contains(refusal(falling), "rising sizes"));
  std::string short_one = text;
  short_one.replace(short_one.find("100, 400"), 8, "100");
  CHECK(contains(refusal(short_one), "1 times for 2 sizes"));
  std::string unknown = text;
  unknown.replace(unknown.find("all_reduce"), 10, "all_redcue");
  CHECK(contains(refusal(unknown), "did you mean 'all_reduce'"));
}

TEST_CASE("a collective takes the measured time where there is one") {
  CollectiveOptions options;
  options.measured =
      std::make_shared<const MeasuredTable>(MeasuredTable::from_text(text, "m.toml"));
  const Cluster cluster = make_cluster(load_machine("dgx-h100"), {.nodes = 2});
  const Collectives collectives(cluster, {.replicate = 16, .shard = 1}, options);
  const CollectiveCost hit = collectives.cost(Axis::world, CollectiveKind::all_reduce, 2 << 20,
                                              Dtype::fp32, Reduction::sum);
  CHECK(hit.seconds == doctest::Approx(200e-6));
  CHECK(hit.provenance == Provenance::measured);
  CHECK(hit.measured->how == MeasuredHow::interpolated);
  for (const LinkLoad& load : hit.loads) CHECK(load.seconds <= hit.seconds);
  const CollectiveCost miss = collectives.cost(Axis::world, CollectiveKind::all_gather, 2 << 20,
                                               Dtype::fp32, Reduction::none);
  CHECK_FALSE(miss.measured.has_value());
  CHECK(miss.provenance == Provenance::modelled);
}

TEST_CASE("a link is full at the highest rate that was measured on it, not at its label") {
  CollectiveOptions options;
  std::string slower = text;
  slower.replace(slower.find("100, 400"), 8, "200, 400");
  options.measured =
      std::make_shared<const MeasuredTable>(MeasuredTable::from_text(slower, "m.toml"));
  const Cluster cluster = make_cluster(load_machine("dgx-h100"), {.nodes = 2});
  const Collectives collectives(cluster, {.replicate = 16, .shard = 1}, options);
  const auto fullest = [&](Bytes bytes) {
    const CollectiveCost cost = collectives.cost(Axis::world, CollectiveKind::all_reduce, bytes,
                                                 Dtype::fp32, Reduction::sum);
    double most = 0;
    for (const LinkLoad& load : cost.loads) most = std::max(most, load.seconds);
    return most;
  };
  // 4 MiB in 400 us is the best rate, so nothing else fits beside it, whatever the NIC's label says
  // (20 us); a quarter of the bytes in half of the time leaves half of the link.
  CHECK(fullest(4 << 20) == doctest::Approx(400e-6));
  CHECK(fullest(1 << 20) == doctest::Approx(100e-6));
}

TEST_CASE(
    "eight replica groups on a node share its NICs, whatever one of them was measured to take") {
  // Two nodes, shards of 8: each axis has 8 communicators of 2 ranks on 2 nodes.
  CollectiveOptions options;
  std::string fast = text;
  fast.replace(fast.find("16"), 2, "2");
  fast.replace(fast.find("100, 400"), 8, "1, 2");
  options.measured =
      std::make_shared<const MeasuredTable>(MeasuredTable::from_text(fast, "m.toml"));
  const Cluster cluster = make_cluster(load_machine("dgx-h100"), {.nodes = 2});
  const Collectives collectives(cluster, {.replicate = 2, .shard = 8}, options);
  const CollectiveCost cost = collectives.cost(Axis::replicate, CollectiveKind::all_reduce, 4 << 20,
                                               Dtype::fp32, Reduction::sum);
  CHECK(cost.measured->seconds == doctest::Approx(2e-6));
  CHECK(cost.seconds > cost.measured->seconds);  // 4 MiB through a 50 GB/s NIC take 84 us
}

TEST_CASE("a series measured with as many siblings at work, and of the very dtype, goes first") {
  MeasuredTable table;
  const auto series = [](int siblings, std::optional<Dtype> dtype, double us) {
    return MeasuredTable::Series{
        CollectiveKind::all_reduce, 2, 2, "s", {1 << 20}, {us}, siblings, dtype, {}};
  };
  CHECK(table.add(series(1, std::nullopt, 100)));
  CHECK(table.add(series(4, std::nullopt, 380)));
  CHECK(table.add(series(4, Dtype::bf16, 390)));
  CHECK_FALSE(table.add(series(4, Dtype::bf16, 1)));  // is there already
  const auto find = [&](int siblings, Dtype dtype) {
    return table.find(CollectiveKind::all_reduce, 2, 2, 1 << 20, siblings, dtype);
  };
  CHECK(find(4, Dtype::fp32)->seconds == doctest::Approx(380e-6));
  CHECK(find(4, Dtype::fp32)->siblings == 4);
  CHECK(find(4, Dtype::bf16)->seconds == doctest::Approx(390e-6));
  // Nobody measured eight at a time: of one alone, and the caller bounds it by the shared links.
  CHECK(find(8, Dtype::bf16)->seconds == doctest::Approx(100e-6));
  CHECK(find(8, Dtype::bf16)->siblings == 1);
}

// One key varied, and whether the order is right.
#include "validate/sweep.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"

using namespace stepcast;

namespace {

const Where flag{.file = "--sweep", .line = 0, .key = ""};

Scenario base() {
  return parse_scenario(
      "model = \"gpt2\"\ncluster = \"dgx-h100\"\nstrategy = \"ddp\"\nbucket_cap_mb = 7\n",
      "base.toml");
}

std::string refusal(const std::string& sweep) {
  try {
    sweep_points(base(), sweep, flag);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

Comparison point(Seconds forecast, Seconds measured, double spread) {
  Comparison c;
  c.step = {"step time", forecast, measured};
  c.spread = spread;
  return c;
}

}  // namespace

TEST_CASE("a swept key replaces the base's") {
  const auto points = sweep_points(base(), "bucket-cap-mb=1,5,25", flag);
  REQUIRE(points.size() == 3);
  CHECK(*points[1].scenario.bucket_cap_mb == 5);
  CHECK(*points[1].scenario.strategy == "ddp");
  CHECK(points[2].value == "25");
}

TEST_CASE("a swept strategy takes its sharding after a colon and drops the base's options") {
  const auto points = sweep_points(base(), "strategy=ddp,fsdp1:SHARD_GRAD_OP,hsdp:2", flag);
  REQUIRE(points.size() == 3);
  CHECK_FALSE(points[0].scenario.bucket_cap_mb);
  CHECK(*points[1].scenario.strategy == "fsdp1");
  CHECK(*points[1].scenario.sharding_strategy == "SHARD_GRAD_OP");
  CHECK_FALSE(points[2].scenario.sharding_strategy);
  CHECK(*points[2].scenario.shard_group == 2);
  CHECK(*points[2].scenario.model == "gpt2");
}

TEST_CASE("a sweep that is none is refused at its flag") {
  CHECK(refusal("bucket_cap_mb").starts_with("--sweep: "));
  CHECK(refusal("bucket_cap_mb=1,,2").starts_with("--sweep: an empty value"));
  CHECK(refusal("bucket_cap=1").find("bucket_cap_mb") != std::string::npos);  // the nearest key
  CHECK(refusal("strategy=ddp,dpp").find("ddp") != std::string::npos);
  CHECK(refusal("bucket_cap_mb=big").starts_with("--sweep: "));
}

TEST_CASE("order counts where the measurement tells two values apart") {
  Sweep sweep;
  sweep.key = "bucket_cap_mb";
  sweep.values = {"1", "5", "25"};
  // 1 and 5: 10 and 12 measured with a spread of 10 % each, 0.5 + 0.6 = 1.1 < 2: apart, and
  // forecast so. 5 and 25: 12 and 12.5: 0.6 + 0.625 > 0.5, not apart. 1 and 25: apart, forecast the
  // other way.
  sweep.points = {point(11, 10, 0.1), point(12, 12, 0.1), point(10, 12.5, 0.1)};
  CHECK(sweep.told_apart() == 2);
  CHECK(sweep.in_order() == 1);
  // Errors +10 %, 0, -20 %: the median without sign is 10 %.
  CHECK(sweep.median_error() == doctest::Approx(0.1));
}

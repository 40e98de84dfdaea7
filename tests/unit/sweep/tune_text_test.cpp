// What `stepcast tune` prints of a tuning that was made by hand.
#include <doctest/doctest.h>

#include "sim/sweep/tune.hpp"

using namespace stepcast;

TEST_CASE("sizes have separators, as the other numbers of the text") {
  Tuned t;
  t.best.scenario.strategy = "zero2";
  t.best.scenario.micro_batch = 2;
  t.best.scenario.reduce_bucket_size = 22'659'202;
  t.given.scenario.bucket_cap_mb = 12.5;
  const std::string text = to_text(t);
  CHECK(text.find("best:  strategy zero2, micro_batch 2, reduce_bucket_size 22,659,202\n") !=
        std::string::npos);
  CHECK(text.find("given: bucket_cap_mb 12.5\n") != std::string::npos);
}

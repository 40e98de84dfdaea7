// What kernels and collectives do to each other, by hand and as others measured.

#include "validate/interference/overlap.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/kernels/profile.hpp"

namespace stepcast::validate {

TEST_CASE("in turn, each product meets one all-reduce and loses its SMs while that runs") {
  // 4 products of 10 us, 20 all-reduces of 4 us, a quarter of the SMs. Each product does 3 us of
  // its 10 in the 4 us of an all-reduce, so it takes 4 + 7 = 11; the 16 other all-reduces follow.
  OverlapSample s;
  s.sms = 100;
  s.channels = 25;
  s.products = 4;
  s.all_reduces = 20;
  s.product = 10e-6;
  s.all_reduce = 4e-6;
  const OverlapForecast in_turn = forecast_overlap(s, 1, BlockOrder::in_turn);
  CHECK(in_turn.product == doctest::Approx(11e-6));
  CHECK(in_turn.all_reduce == doctest::Approx((4 * 11e-6 + 16 * 4e-6) / 20));
  // At once all-reduces follow each other: 10 / 0.75 for each product until they are done.
  const OverlapForecast at_once = forecast_overlap(s, 1, BlockOrder::at_once);
  CHECK(at_once.product == doctest::Approx(10e-6 / 0.75));
  CHECK(at_once.all_reduce == doctest::Approx(4e-6));
}

TEST_CASE("the factor is the one with which the fitted product comes out, whatever the others do") {
  const Overlaps published = published_overlaps();
  REQUIRE(published.samples.size() == 2);
  REQUIRE(published.samples[0].fitted_on);
  const double factor = fit_interference(published);
  // By hand: 4314 - 3716 = 598 us lost while an all-reduce of 1944 us holds 24 f of 108 SMs.
  CHECK(factor == doctest::Approx(598.0 / 1944 * 108 / 24).epsilon(1e-4));
  const OverlapForecast a100 = forecast_overlap(published.samples[0], factor, BlockOrder::in_turn);
  CHECK(a100.product == doctest::Approx(published.samples[0].product_beside).epsilon(1e-6));
  Overlaps without = published;
  without.samples.pop_back();
  without.kernels.clear();
  CHECK(fit_interference(without) == doctest::Approx(factor));
}

TEST_CASE("the example profile holds the factor that is fitted") {
  const SoftwareProfile profile =
      load_profile(std::string(STEPCAST_SOURCE_DIR) + "/examples/profiles/a100-overlap.toml");
  CHECK(profile.overlap_interference ==
        doctest::Approx(fit_interference(published_overlaps())).epsilon(5e-4));
}

TEST_CASE("fitted on A100 alone, products and all-reduces on GH200 come out within 15 %") {
  const Overlaps published = published_overlaps();
  const OverlapSample& gh200 = published.samples[1];
  REQUIRE_FALSE(gh200.fitted_on);
  const OverlapForecast f =
      forecast_overlap(gh200, fit_interference(published), BlockOrder::in_turn);
  CHECK(f.product == doctest::Approx(gh200.product_beside).epsilon(0.15));
  CHECK(f.all_reduce == doctest::Approx(gh200.all_reduce_beside).epsilon(0.15));
}

TEST_CASE("kernels of a training step beside all-gathers come out within 30 %, all too fast") {
  const Overlaps published = published_overlaps();
  const double factor = fit_interference(published);
  for (const KernelBeside& kernel : published.kernels) {
    CAPTURE(kernel.name);
    const double ratio = forecast_beside(published, kernel, factor) / kernel.beside;
    CHECK(ratio > 0.7);
    CHECK(ratio < 1);
  }
}

}  // namespace stepcast::validate

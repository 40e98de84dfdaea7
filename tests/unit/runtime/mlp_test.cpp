// The gradients of the residual MLP against finite differences.

#include <doctest/doctest.h>

#include "runtime/train/reference.hpp"

namespace stepcast::runtime {
namespace {

TEST_CASE("every gradient is the slope of the loss, tied or not") {
  for (const bool tied : {false, true}) {
    const MlpShape shape{5, 3, 4, 2, tied};
    const std::vector<std::int64_t> samples{0, 1, 2};
    Tensors p = initial_parameters(shape, 3);
    const LossAndGradient at = loss_and_gradient(shape, p, samples, 2);
    constexpr double h = 1e-5;
    for (std::size_t t = 0; t < p.size(); ++t) {
      for (std::size_t i = 0; i < p[t].size(); ++i) {
        const double before = p[t][i];
        p[t][i] = before + h;
        const double up = loss_and_gradient(shape, p, samples, 2).loss;
        p[t][i] = before - h;
        const double down = loss_and_gradient(shape, p, samples, 2).loss;
        p[t][i] = before;
        CAPTURE(t);
        CAPTURE(i);
        CHECK(at.gradient[t][i] == doctest::Approx((up - down) / (2 * h)).epsilon(1e-6).scale(1));
      }
    }
  }
}

TEST_CASE("training lowers the loss") {
  const MlpShape shape{13, 7, 10, 2, false};
  std::vector<std::vector<std::int64_t>> batches(60, {0, 1, 2, 3, 4, 5, 6, 7});
  const Trained trained = train_on_one_rank(shape, AdamW{}, 1, batches, 2);
  CHECK(trained.losses.back() < 0.3 * trained.losses.front());
}

}  // namespace
}  // namespace stepcast::runtime

#pragma once
// Fits a software profile's factors to measured steps: robust non-linear least squares on the
// simulator itself.
//
//   minimise  sum over rows  H( log(simulated(x) / measured) / s )  +  sum  (x_k / prior_k)^2
//
// The fit begins where one factor alone at three times its time is best, if that is better: a bound
// that does not bind yet has no slope. x_k is the logarithm of factor k, H Huber's loss (quadratic
// to s, linear beyond: an outlier of the source pulls no harder than a row that is s off), s = 3 %.
// Each round linearises the simulator by one simulation a row and factor (a step of 4 %), solves
// the linear problem within bounds by NLopt's SLSQP, and keeps the answer if the simulated sum
// fell, else half of it. A schedule is built once a row; only its costs are bound anew, so 24 rows
// and 5 factors take some seconds.
//
// What the rows say about each factor is read from the last linearisation: posterior covariance
// C = (J'J/s^2 + 1/prior^2)^-1. A factor whose posterior deviation is more than 0.7 of its prior is
// one that these rows cannot determine; pairs that move together have a correlation near 1.
//
// Example: one row, t = 80 ms of products + 20 ms that no factor governs, measured 110 ms: the
// product's factor wants 90/80 = 1.125, and its prior of 0.3 leaves 1.124.
// Tested by tests/unit/validate/fit_test.cpp.

#include <functional>
#include <string>
#include <vector>

#include "validate/published/factors.hpp"
#include "validate/published/rows.hpp"

namespace stepcast {

struct FittedFactor {
  const Factor* factor = nullptr;
  double value = 1;      // on the time of what it governs
  double deviation = 0;  // posterior, of the logarithm
  bool determined = false;
};

struct FitResult {
  std::vector<FittedFactor> factors;
  std::vector<std::vector<double>> correlation;  // a row and column a factor
  std::vector<double> before, after;             // simulated / measured - 1 of each row
  int rounds = 0;
  int simulations = 0;
  // Standard deviation that the next row is expected to have: within 1.28 of it lie 8 of 10 of the
  // fitted rows (tails are long: a median would say too little), more where few rows are left over
  // by the factors that they determine (Student's t).
  double residual() const;
};

// seconds(row, factors): the simulator, or in tests a formula.
using Simulated = std::function<double(std::size_t row, const std::vector<double>& factors)>;

FitResult fit_factors(const std::vector<const Factor*>& factors,
                      const std::vector<double>& measured, const Simulated& seconds);

// The same on scenarios, each with `base` (a catalog name or a path) as its profile.
struct ProfileFit {
  FitResult result;
  SoftwareProfile profile;
};
ProfileFit fit_profile(const std::vector<MeasuredRow>& rows, const std::string& base,
                       const std::vector<const Factor*>& factors);

std::string to_text(const ProfileFit& fit, const std::vector<MeasuredRow>& rows);

}  // namespace stepcast

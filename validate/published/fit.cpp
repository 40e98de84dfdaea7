#include "validate/published/fit.hpp"

#include <nlopt.h>

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <memory>

#include "base/error.hpp"
#include "validate/published/quantile.hpp"

namespace stepcast {

namespace {

constexpr double scale = 0.03;       // s: an error that counts as ordinary
constexpr double difference = 0.04;  // step of the logarithm for the linearisation
constexpr double bound = 1.4;        // of a logarithm: a factor of 4 either way
constexpr double stride = 0.5;       // the most that a round moves a logarithm
constexpr int most_rounds = 8;
constexpr double undetermined = 0.7;  // posterior over prior deviation

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;

double huber(double z) { return std::abs(z) <= 1 ? z * z : 2 * std::abs(z) - 1; }
double huber_slope(double z) { return std::abs(z) <= 1 ? 2 * z : (z > 0 ? 2.0 : -2.0); }

// Gauss-Jordan with the largest pivot; at most 9 x 9, positive definite by its priors.
Matrix inverse(Matrix a) {
  const std::size_t n = a.size();
  Matrix b(n, Vector(n, 0.0));
  for (std::size_t i = 0; i < n; ++i) b[i][i] = 1;
  for (std::size_t c = 0; c < n; ++c) {
    std::size_t pivot = c;
    for (std::size_t r = c; r < n; ++r) {
      if (std::abs(a[r][c]) > std::abs(a[pivot][c])) pivot = r;
    }
    std::swap(a[c], a[pivot]);
    std::swap(b[c], b[pivot]);
    STEPCAST_ASSERT(a[c][c] != 0, "priors make the matrix regular");
    for (std::size_t r = 0; r < n; ++r) {
      if (r == c) continue;
      const double by = a[r][c] / a[c][c];
      for (std::size_t k = 0; k < n; ++k) {
        a[r][k] -= by * a[c][k];
        b[r][k] -= by * b[c][k];
      }
    }
  }
  for (std::size_t r = 0; r < n; ++r) {
    for (double& value : b[r]) value /= a[r][r];
  }
  return b;
}

class Fit {
 public:
  Fit(const std::vector<const Factor*>& factors, const Vector& measured, const Simulated& seconds)
      : factors_(factors), measured_(measured), seconds_(seconds), at_(factors.size(), 0.0) {}

  FitResult run() {
    residuals_ = residuals(at_);
    result_.before = relative(residuals_);
    scan();
    for (result_.rounds = 0; result_.rounds < most_rounds; ++result_.rounds) {
      linearise();
      if (!advance()) break;
    }
    linearise();
    describe();
    return std::move(result_);
  }

 private:
  Vector residuals(const Vector& logs) {
    Vector factors(logs.size());
    for (std::size_t k = 0; k < logs.size(); ++k) factors[k] = std::exp(logs[k]);
    Vector out(measured_.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = std::log(seconds_(i, factors) / measured_[i]);
    }
    result_.simulations += static_cast<int>(out.size());
    return out;
  }

  // A bound that does not bind yet has no slope (a host that is fast enough): each factor is tried
  // at three times its time, and the best of them is where the fit begins, if it is better.
  void scan() {
    const Vector start = at_;
    for (std::size_t k = 0; k < start.size(); ++k) {
      Vector there = start;
      there[k] += std::log(3.0);
      Vector residuals_there = residuals(there);
      if (cost(residuals_there, there) < cost(residuals_, at_)) {
        at_ = std::move(there);
        residuals_ = std::move(residuals_there);
      }
    }
  }

  static Vector relative(const Vector& residuals) {
    Vector out;
    for (const double r : residuals) out.push_back(std::expm1(r));
    return out;
  }

  double cost(const Vector& residuals, const Vector& logs) const {
    double sum = 0;
    for (const double r : residuals) sum += huber(r / scale);
    for (std::size_t k = 0; k < logs.size(); ++k) {
      sum += std::pow(logs[k] / factors_[k]->prior, 2);
    }
    return sum;
  }

  void linearise() {
    jacobian_.assign(factors_.size(), {});
    for (std::size_t k = 0; k < factors_.size(); ++k) {
      Vector there = at_;
      there[k] += difference;
      jacobian_[k] = residuals(there);
      for (std::size_t i = 0; i < residuals_.size(); ++i) {
        jacobian_[k][i] = (jacobian_[k][i] - residuals_[i]) / difference;
      }
    }
  }

  // The linear problem's own cost and slope at `logs`.
  double linear_cost(const Vector& logs, Vector& slope) const {
    Vector r = residuals_;
    for (std::size_t k = 0; k < logs.size(); ++k) {
      for (std::size_t i = 0; i < r.size(); ++i) r[i] += jacobian_[k][i] * (logs[k] - at_[k]);
    }
    if (!slope.empty()) {
      for (std::size_t k = 0; k < logs.size(); ++k) {
        slope[k] = 2 * logs[k] / (factors_[k]->prior * factors_[k]->prior);
        for (std::size_t i = 0; i < r.size(); ++i) {
          slope[k] += huber_slope(r[i] / scale) * jacobian_[k][i] / scale;
        }
      }
    }
    return cost(r, logs);
  }

  Vector solve() {
    const auto n = static_cast<unsigned>(factors_.size());
    const std::unique_ptr<nlopt_opt_s, void (*)(nlopt_opt)> solver(nlopt_create(NLOPT_LD_SLSQP, n),
                                                                   nlopt_destroy);
    STEPCAST_ASSERT(solver != nullptr, "NLopt has no SLSQP");
    Vector low(at_), high(at_);
    for (double& value : low) value = std::max(-bound, value - stride);
    for (double& value : high) value = std::min(bound, value + stride);
    nlopt_set_lower_bounds(solver.get(), low.data());
    nlopt_set_upper_bounds(solver.get(), high.data());
    nlopt_set_min_objective(
        solver.get(),
        [](unsigned count, const double* logs, double* slope, void* self) {
          Vector out(slope == nullptr ? 0 : count);
          const double cost =
              static_cast<const Fit*>(self)->linear_cost(Vector(logs, logs + count), out);
          std::copy(out.begin(), out.end(), slope);
          return cost;
        },
        this);
    nlopt_set_xtol_abs1(solver.get(), 1e-5);
    nlopt_set_maxeval(solver.get(), 500);
    Vector logs = at_;
    double least = 0;
    nlopt_optimize(solver.get(), logs.data(), &least);  // limited by roundoff: as good as it gets
    return logs;
  }

  // False when it stays.
  bool advance() {
    const Vector target = solve();
    const double now = cost(residuals_, at_);
    for (double part = 1; part > 0.1; part /= 2) {
      Vector there = at_;
      double moved = 0;
      for (std::size_t k = 0; k < there.size(); ++k) {
        there[k] += part * (target[k] - at_[k]);
        moved = std::max(moved, std::abs(there[k] - at_[k]));
      }
      if (moved < 1e-3) return false;
      Vector residuals_there = residuals(there);
      if (cost(residuals_there, there) < now) {
        at_ = std::move(there);
        residuals_ = std::move(residuals_there);
        return true;
      }
    }
    return false;
  }

  void describe() {
    const std::size_t n = factors_.size();
    Matrix information(n, Vector(n, 0.0));
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < n; ++b) {
        for (std::size_t i = 0; i < residuals_.size(); ++i) {
          information[a][b] += jacobian_[a][i] * jacobian_[b][i] / (scale * scale);
        }
      }
      information[a][a] += 1 / std::pow(factors_[a]->prior, 2);
    }
    const Matrix covariance = inverse(information);
    result_.correlation.assign(n, Vector(n, 0.0));
    for (std::size_t a = 0; a < n; ++a) {
      FittedFactor& f = result_.factors.emplace_back();
      f.factor = factors_[a];
      f.value = std::exp(at_[a]);
      f.deviation = std::sqrt(covariance[a][a]);
      f.determined = f.deviation < undetermined * factors_[a]->prior;
      for (std::size_t b = 0; b < n; ++b) {
        result_.correlation[a][b] =
            covariance[a][b] / std::sqrt(covariance[a][a] * covariance[b][b]);
      }
    }
    result_.after = relative(residuals_);
  }

  const std::vector<const Factor*>& factors_;
  const Vector& measured_;
  const Simulated& seconds_;
  Vector at_;         // logarithms
  Vector residuals_;  // there
  Matrix jacobian_;   // [factor][row]
  FitResult result_;
};

}  // namespace

double FitResult::residual() const {
  std::vector<double> sizes;
  for (const double r : after) sizes.push_back(std::abs(r));
  constexpr double one_in_ten = 1.2816;  // of a normal distribution
  const auto rows = static_cast<double>(sizes.size());
  const auto determined = static_cast<double>(std::count_if(
      factors.begin(), factors.end(), [](const FittedFactor& f) { return f.determined; }));
  const double left = std::max(1.0, rows - determined);
  const double few = boost::math::quantile(boost::math::students_t(left), 0.9) / one_in_ten;
  return quantile(sizes, 0.8) / one_in_ten * std::sqrt(rows / left) * few;
}

FitResult fit_factors(const std::vector<const Factor*>& factors, const Vector& measured,
                      const Simulated& seconds) {
  return Fit(factors, measured, seconds).run();
}

}  // namespace stepcast

#include "runtime/train/mlp.hpp"

#include <algorithm>
#include <cmath>

namespace stepcast::runtime {

template <typename Real>
double cross_entropy(Values<Real>& logits, const std::vector<std::int64_t>& labels,
                     std::int64_t vocabulary) {
  double loss = 0;
  const auto columns = static_cast<std::size_t>(vocabulary);
  const auto counted =
      static_cast<double>(labels.size() - static_cast<std::size_t>(std::count(
                                              labels.begin(), labels.end(), ignored_label)));
  const Real weight = static_cast<Real>(static_cast<double>(labels.size()) / counted);
  for (std::size_t t = 0; t < labels.size(); ++t) {
    Real* row = logits.data() + t * columns;
    if (labels[t] == ignored_label) {
      std::fill(row, row + columns, Real(0));
      continue;
    }
    const Real top = *std::max_element(row, row + columns);
    Real sum = 0;
    for (std::size_t v = 0; v < columns; ++v) sum += std::exp(row[v] - top);
    const auto label = static_cast<std::size_t>(labels[t]);
    loss += static_cast<double>(std::log(sum) - (row[label] - top));
    for (std::size_t v = 0; v < columns; ++v) row[v] = std::exp(row[v] - top) / sum;
    row[label] -= Real(1);
    if (weight != Real(1)) {
      for (std::size_t v = 0; v < columns; ++v) row[v] *= weight;
    }
  }
  return loss / counted;
}

template <typename Real>
void activate(Values<Real>& z) {
  for (Real& x : z) x = std::tanh(x);
}

template <typename Real>
Values<Real> activation_gradient(const Values<Real>& da, const Values<Real>& a) {
  Values<Real> dz(da.size());
  for (std::size_t i = 0; i < da.size(); ++i) dz[i] = da[i] * (Real(1) - a[i] * a[i]);
  return dz;
}

template double cross_entropy(Values<float>&, const std::vector<std::int64_t>&, std::int64_t);
template double cross_entropy(Values<double>&, const std::vector<std::int64_t>&, std::int64_t);
template void activate(Values<float>&);
template void activate(Values<double>&);
template Values<float> activation_gradient(const Values<float>&, const Values<float>&);
template Values<double> activation_gradient(const Values<double>&, const Values<double>&);

}  // namespace stepcast::runtime

#pragma once
// The mathematics of the residual MLP, layer by layer: plain loops over tokens, in float or double.
// Matrices are row-major [out, in]; T tokens. Checked against finite differences by
// tests/unit/runtime/mlp_test.cpp.

#include <cstdint>
#include <vector>

#include "runtime/train/shape.hpp"

namespace stepcast::runtime {

template <typename Real>
using Values = std::vector<Real>;

// y[T,out] = x[T,in] W^T (+ b)
template <typename Real>
Values<Real> linear(const Values<Real>& x, const Values<Real>& w, const Values<Real>* b,
                    std::int64_t in, std::int64_t out) {
  const auto tokens = static_cast<std::int64_t>(x.size()) / in;
  Values<Real> y(static_cast<std::size_t>(tokens * out));
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t o = 0; o < out; ++o) {
      Real sum = b == nullptr ? Real(0) : (*b)[static_cast<std::size_t>(o)];
      const Real* row = w.data() + o * in;
      const Real* input = x.data() + t * in;
      for (std::int64_t i = 0; i < in; ++i) sum += row[i] * input[i];
      y[static_cast<std::size_t>(t * out + o)] = sum;
    }
  }
  return y;
}

// dx[T,in] = dy[T,out] W
template <typename Real>
Values<Real> input_gradient(const Values<Real>& dy, const Values<Real>& w, std::int64_t in,
                            std::int64_t out) {
  const auto tokens = static_cast<std::int64_t>(dy.size()) / out;
  Values<Real> dx(static_cast<std::size_t>(tokens * in), Real(0));
  for (std::int64_t t = 0; t < tokens; ++t) {
    Real* row = dx.data() + t * in;
    for (std::int64_t o = 0; o < out; ++o) {
      const Real g = dy[static_cast<std::size_t>(t * out + o)];
      const Real* weights = w.data() + o * in;
      for (std::int64_t i = 0; i < in; ++i) row[i] += g * weights[i];
    }
  }
  return dx;
}

// dW[out,in] = dy^T x
template <typename Real>
Values<Real> weight_gradient(const Values<Real>& dy, const Values<Real>& x, std::int64_t in,
                             std::int64_t out) {
  const auto tokens = static_cast<std::int64_t>(dy.size()) / out;
  Values<Real> dw(static_cast<std::size_t>(out * in), Real(0));
  for (std::int64_t t = 0; t < tokens; ++t) {
    const Real* input = x.data() + t * in;
    for (std::int64_t o = 0; o < out; ++o) {
      const Real g = dy[static_cast<std::size_t>(t * out + o)];
      Real* row = dw.data() + o * in;
      for (std::int64_t i = 0; i < in; ++i) row[i] += g * input[i];
    }
  }
  return dw;
}

// db[out] = sum over tokens of dy
template <typename Real>
Values<Real> bias_gradient(const Values<Real>& dy, std::int64_t out) {
  Values<Real> db(static_cast<std::size_t>(out), Real(0));
  for (std::size_t i = 0; i < dy.size(); ++i) db[i % static_cast<std::size_t>(out)] += dy[i];
  return db;
}

template <typename Real>
Values<Real> embed(const Values<Real>& table, const std::vector<std::int64_t>& tokens,
                   std::int64_t width) {
  Values<Real> h;
  h.reserve(tokens.size() * static_cast<std::size_t>(width));
  for (const std::int64_t token : tokens) {
    const auto row = table.begin() + token * width;
    h.insert(h.end(), row, row + width);
  }
  return h;
}

template <typename Real>
Values<Real> table_gradient(const Values<Real>& dh, const std::vector<std::int64_t>& tokens,
                            std::int64_t vocabulary, std::int64_t width) {
  Values<Real> dt(static_cast<std::size_t>(vocabulary * width), Real(0));
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    for (std::int64_t i = 0; i < width; ++i) {
      dt[static_cast<std::size_t>(tokens[t] * width + i)] +=
          dh[t * static_cast<std::size_t>(width) + static_cast<std::size_t>(i)];
    }
  }
  return dt;
}

// Turns logits into the gradient of the summed loss, softmax minus one-hot per token; returns the
// mean loss. Tokens with ignored_label (shape.hpp) have none of either; so that the gradient of the
// mean is still the result over the number of tokens, the others' is as much larger.
template <typename Real>
double cross_entropy(Values<Real>& logits, const std::vector<std::int64_t>& labels,
                     std::int64_t vocabulary);

// tanh in place, and dz = da (1 - a^2).
template <typename Real>
void activate(Values<Real>& z);
template <typename Real>
Values<Real> activation_gradient(const Values<Real>& da, const Values<Real>& a);

extern template double cross_entropy(Values<float>&, const std::vector<std::int64_t>&,
                                     std::int64_t);
extern template double cross_entropy(Values<double>&, const std::vector<std::int64_t>&,
                                     std::int64_t);
extern template void activate(Values<float>&);
extern template void activate(Values<double>&);
extern template Values<float> activation_gradient(const Values<float>&, const Values<float>&);
extern template Values<double> activation_gradient(const Values<double>&, const Values<double>&);

}  // namespace stepcast::runtime

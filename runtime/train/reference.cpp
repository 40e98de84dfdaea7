#include "runtime/train/reference.hpp"

#include <cmath>

#include "runtime/train/mlp.hpp"

namespace stepcast::runtime {

LossAndGradient loss_and_gradient(const MlpShape& shape, const Tensors& p,
                                  const std::vector<std::int64_t>& samples, std::int64_t seq_len) {
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> labels;
  for (const std::int64_t sample : samples) {
    for (std::int64_t i = 0; i < seq_len; ++i) {
      tokens.push_back(token_of(shape, sample, i));
      labels.push_back(label_of(shape, sample, i));
    }
  }
  const std::int64_t d = shape.width;
  const std::int64_t f = shape.inner;
  const auto at = [](int tensor) { return static_cast<std::size_t>(tensor); };
  std::vector<Values<double>> h{embed(p[at(shape.table())], tokens, d)};
  std::vector<Values<double>> a;
  for (int b = 0; b < shape.blocks; ++b) {
    const std::size_t w = at(shape.up_weight(b));
    a.push_back(linear(h.back(), p[w], &p[w + 1], d, f));
    activate(a.back());
    Values<double> out = linear(a.back(), p[w + 2], &p[w + 3], f, d);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += h.back()[i];
    h.push_back(std::move(out));
  }
  Values<double> g = linear<double>(h.back(), p[at(shape.head())], nullptr, d, shape.vocabulary);
  LossAndGradient result;
  result.loss = cross_entropy(g, labels, shape.vocabulary);
  for (double& x : g) x /= static_cast<double>(tokens.size());

  result.gradient.resize(p.size());
  Tensors& grad = result.gradient;
  grad[at(shape.head())] = weight_gradient(g, h.back(), d, shape.vocabulary);
  g = input_gradient(g, p[at(shape.head())], d, shape.vocabulary);
  for (int b = shape.blocks; b-- > 0;) {
    const std::size_t w = at(shape.up_weight(b));
    const Values<double>& input = h[at(b)];
    grad[w + 3] = bias_gradient(g, d);
    grad[w + 2] = weight_gradient(g, a[at(b)], f, d);
    const Values<double> dz = activation_gradient(input_gradient(g, p[w + 2], f, d), a[at(b)]);
    grad[w + 1] = bias_gradient(dz, f);
    grad[w] = weight_gradient(dz, input, d, f);
    const Values<double> through = input_gradient(dz, p[w], d, f);
    for (std::size_t i = 0; i < g.size(); ++i) g[i] += through[i];
  }
  const Values<double> table = table_gradient(g, tokens, shape.vocabulary, d);
  if (shape.tied) {
    for (std::size_t i = 0; i < table.size(); ++i) grad[0][i] += table[i];
  } else {
    grad[0] = table;
  }
  return result;
}

Trained train_on_one_rank(const MlpShape& shape, const AdamW& adam, std::uint64_t seed,
                          const std::vector<std::vector<std::int64_t>>& batches,
                          std::int64_t seq_len) {
  Trained trained;
  trained.parameters = initial_parameters(shape, seed);
  Tensors m(trained.parameters.size());
  Tensors v(trained.parameters.size());
  for (std::size_t step = 0; step < batches.size(); ++step) {
    const LossAndGradient now =
        loss_and_gradient(shape, trained.parameters, batches[step], seq_len);
    trained.losses.push_back(now.loss);
    trained.norms.push_back(0);
    for (const std::vector<double>& g : now.gradient) {
      for (const double x : g) trained.norms.back() += x * x;
    }
    const double t = static_cast<double>(step) + 1;
    const double correct1 = 1 - std::pow(adam.beta1, t);
    const double correct2 = 1 - std::pow(adam.beta2, t);
    for (std::size_t k = 0; k < m.size(); ++k) {
      std::vector<double>& p = trained.parameters[k];
      m[k].resize(p.size(), 0);
      v[k].resize(p.size(), 0);
      for (std::size_t i = 0; i < p.size(); ++i) {
        const double g = now.gradient[k][i];
        p[i] -= adam.rate * adam.decay * p[i];
        m[k][i] = adam.beta1 * m[k][i] + (1 - adam.beta1) * g;
        v[k][i] = adam.beta2 * v[k][i] + (1 - adam.beta2) * g * g;
        p[i] -= adam.rate * (m[k][i] / correct1) / (std::sqrt(v[k][i] / correct2) + adam.epsilon);
      }
    }
  }
  return trained;
}

}  // namespace stepcast::runtime

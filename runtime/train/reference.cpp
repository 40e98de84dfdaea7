#include "runtime/train/reference.hpp"

#include <algorithm>
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

namespace {

void add(Tensors& sum, const Tensors& more, double weight, const std::vector<bool>& skips) {
  sum.resize(more.size());
  for (std::size_t t = 0; t < more.size(); ++t) {
    if (!skips.empty() && skips[t]) continue;
    sum[t].resize(more[t].size(), 0);
    for (std::size_t i = 0; i < more[t].size(); ++i) sum[t][i] += weight * more[t][i];
  }
}

// One tensor in one step, counted from 1.
class Optimizer {
 public:
  Optimizer(const TrainingData& data, UpdateRule rule, std::size_t tensors)
      : adam_(data.adam), sgd_(data.sgd), rule_(rule), first_(tensors), second_(tensors) {}

  void update(std::size_t tensor, std::vector<double>& p, const std::vector<double>& gradient,
              double step) {
    std::vector<double>& m = first_[tensor];
    std::vector<double>& v = second_[tensor];
    m.resize(p.size(), 0);
    v.resize(p.size(), 0);
    const double correct1 = 1 - std::pow(adam_.beta1, step);
    const double correct2 = 1 - std::pow(adam_.beta2, step);
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double g = gradient[i];
      switch (rule_) {
        case UpdateRule::adamw:
          p[i] -= adam_.rate * adam_.decay * p[i];
          m[i] = adam_.beta1 * m[i] + (1 - adam_.beta1) * g;
          v[i] = adam_.beta2 * v[i] + (1 - adam_.beta2) * g * g;
          p[i] -= adam_.rate * (m[i] / correct1) / (std::sqrt(v[i] / correct2) + adam_.epsilon);
          break;
        case UpdateRule::sgd_momentum:
          m[i] = sgd_.momentum * m[i] + g;
          p[i] -= sgd_.rate * m[i];
          break;
        case UpdateRule::sgd: p[i] -= sgd_.rate * g; break;
      }
    }
  }

 private:
  AdamW adam_;
  Sgd sgd_;
  UpdateRule rule_;
  Tensors first_, second_;
};

}  // namespace

Trained train_on_one_rank(const MlpShape& shape, const AdamW& adam, std::uint64_t seed,
                          const std::vector<std::vector<std::int64_t>>& batches,
                          std::int64_t seq_len) {
  TrainingData data;
  data.steps = static_cast<int>(batches.size());
  data.micro_batch = batches.empty() ? 1 : static_cast<std::int64_t>(batches.front().size());
  data.seq_len = seq_len;
  data.seed = seed;
  data.adam = adam;
  data.of_rank.resize(1);
  for (const std::vector<std::int64_t>& batch : batches) {
    data.of_rank[0].insert(data.of_rank[0].end(), batch.begin(), batch.end());
  }
  return train_on_one_rank(shape, data, UpdateRule::adamw, equal_shares(1));
}

std::vector<RankShare> equal_shares(int ranks) {
  return std::vector<RankShare>(static_cast<std::size_t>(ranks), {1.0 / ranks, {}});
}

Trained train_on_one_rank(const MlpShape& shape, const TrainingData& data, UpdateRule rule,
                          const std::vector<RankShare>& shares) {
  Trained trained;
  trained.parameters = initial_parameters(shape, data.seed);
  Optimizer optimizer(data, rule, trained.parameters.size());
  double weights = 0;
  for (const RankShare& share : shares) weights += share.weight;
  for (int step = 0; step < data.steps; ++step) {
    Tensors gradient;
    double loss = 0;
    for (std::size_t r = 0; r < shares.size(); ++r) {
      if (shares[r].weight == 0) continue;
      const double weight = shares[r].weight / data.micro_batches;
      for (int m = 0; m < data.micro_batches; ++m) {
        const LossAndGradient now = loss_and_gradient(
            shape, trained.parameters, data.samples(static_cast<int>(r), step, m), data.seq_len);
        loss += weight / weights * now.loss;
        add(gradient, now.gradient, weight, shares[r].skips);
      }
    }
    trained.losses.push_back(loss);
    double squares = 0;
    for (const std::vector<double>& g : gradient) {
      for (const double x : g) squares += x * x;
    }
    trained.norms.push_back(squares);
    const double coefficient =
        data.max_norm > 0 ? std::min(1.0, data.max_norm / (std::sqrt(squares) + 1e-6)) : 1;
    for (std::size_t k = 0; k < gradient.size(); ++k) {
      if (gradient[k].empty()) continue;
      for (double& x : gradient[k]) x *= coefficient;
      optimizer.update(k, trained.parameters[k], gradient[k], step + 1);
    }
  }
  return trained;
}

}  // namespace stepcast::runtime

#include "runtime/train/loss_run.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "runtime/numbers.hpp"
#include "runtime/train/mlp.hpp"

namespace stepcast::runtime {
namespace {

class Loss {
 public:
  Loss(const LossPlan& plan, const LossRun& run) : plan_(plan), run_(run), labels_(read_labels()) {
    for (const Activation& a : plan.scratch) {
      std::memset(run.memory[a.view] + a.at * bytes_per_element(a.dtype), poison_byte,
                  static_cast<std::size_t>(a.bytes));
    }
    if (!fused()) return;
    saved_.dtype = bytes_per_element(saved_.dtype) < 4 ? Dtype::fp32 : saved_.dtype;
  }

  double forward() {
    Values<double> logits = fetch(plan_.logits, elements(), plan_.logits.dtype);
    if (fused()) keep(saved_, log_sums(logits), saved_.dtype);
    const double loss = cross_entropy(logits, labels_, run_.vocabulary);
    if (!fused()) keep(plan_.saved, logits, stored(plan_.saved));
    return loss;
  }

  void backward() {
    Values<double> g =
        fused() ? from_logits() : fetch(plan_.saved, elements(), stored(plan_.saved));
    double scale = run_.scale;
    if (plan_.upstream.view >= 0) {
      read(&scale, run_.memory[plan_.upstream.view], plan_.upstream.dtype, plan_.upstream.at, 1,
           run_.name);
    }
    for (double& x : g) x *= scale / static_cast<double>(labels_.size());
    keep(plan_.gradient, g, plan_.gradient.dtype);
  }

 private:
  std::vector<std::int64_t> read_labels() const {
    const Activation& from = plan_.labels;
    if (from.view < 0) throw std::runtime_error(run_.name + " does not read the labels");
    std::vector<std::int64_t> list(static_cast<std::size_t>(from.bytes / 8));
    for (std::size_t i = 0; i < list.size(); ++i) {
      list[i] = load<std::int64_t>(run_.memory[from.view], from.at + static_cast<std::int64_t>(i));
      if (list[i] != ignored_label && (list[i] < 0 || list[i] >= run_.vocabulary)) {
        throw PoisonRead(run_.name + " reads labels that nobody wrote");
      }
    }
    return list;
  }
  std::int64_t elements() const {
    return static_cast<std::int64_t>(labels_.size()) * run_.vocabulary;
  }
  // A number a token is all that a fused loss keeps.
  bool fused() const { return plan_.saved.bytes < 2 * elements(); }
  // log-probabilities are fp32, whatever the buffer is declared as.
  Dtype stored(const Activation& a) const {
    return bytes_per_element(a.dtype) == 2 && a.bytes >= 4 * elements() ? Dtype::fp32 : a.dtype;
  }
  Values<double> fetch(const Activation& a, std::int64_t count, Dtype dtype) const {
    if (a.view < 0) throw std::runtime_error(run_.name + " lacks a tensor that it computes with");
    if (a.bytes < count * bytes_per_element(dtype)) too_small();
    Values<double> x(static_cast<std::size_t>(count));
    read(x.data(), run_.memory[a.view], dtype, a.at, count, run_.name);
    return x;
  }
  void keep(const Activation& a, const Values<double>& x, Dtype dtype) const {
    if (a.view < 0) throw std::runtime_error(run_.name + " has nowhere to write its result");
    const auto count = static_cast<std::int64_t>(x.size());
    if (a.bytes < count * bytes_per_element(dtype)) too_small();
    write(run_.memory[a.view], dtype, a.at, x.data(), count);
  }
  [[noreturn]] void too_small() const {
    throw std::runtime_error(run_.name + " has a view that is too small for what it holds");
  }

  Values<double> log_sums(const Values<double>& logits) const {
    Values<double> sums;
    for (std::size_t t = 0; t < labels_.size(); ++t) {
      const double* row = logits.data() + static_cast<std::int64_t>(t) * run_.vocabulary;
      const double top = *std::max_element(row, row + run_.vocabulary);
      double sum = 0;
      for (std::int64_t v = 0; v < run_.vocabulary; ++v) sum += std::exp(row[v] - top);
      sums.push_back(top + std::log(sum));
    }
    return sums;
  }
  // softmax - one-hot, from the logits and their log-sum-exp.
  Values<double> from_logits() const {
    const Values<double> sums =
        fetch(saved_, static_cast<std::int64_t>(labels_.size()), saved_.dtype);
    Values<double> g = fetch(plan_.logits, elements(), plan_.logits.dtype);
    const auto ignored = std::count(labels_.begin(), labels_.end(), ignored_label);
    const double weight = static_cast<double>(labels_.size()) /
                          static_cast<double>(labels_.size() - static_cast<std::size_t>(ignored));
    for (std::size_t t = 0; t < labels_.size(); ++t) {
      double* row = g.data() + static_cast<std::int64_t>(t) * run_.vocabulary;
      for (std::int64_t v = 0; v < run_.vocabulary; ++v) {
        const double one_hot = v == labels_[t] ? 1 : 0;
        row[v] = labels_[t] == ignored_label ? 0 : weight * (std::exp(row[v] - sums[t]) - one_hot);
      }
    }
    return g;
  }

  const LossPlan& plan_;
  const LossRun& run_;
  std::vector<std::int64_t> labels_;
  Activation saved_ = plan_.saved;
};

}  // namespace

double run_loss(const LossPlan& plan, const LossRun& run) {
  Loss loss(plan, run);
  if (!plan.backward) return loss.forward();
  loss.backward();
  return 0;
}

}  // namespace stepcast::runtime

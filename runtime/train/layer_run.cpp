#include "runtime/train/layer_run.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "runtime/numbers.hpp"
#include "runtime/train/mlp.hpp"

namespace stepcast::runtime {
namespace {

template <typename Real>
class Layer {
 public:
  Layer(const LayerPlan& plan, const LayerRun& run) : plan_(plan), run_(run), s_(run.shape) {}

  double go() {
    if (plan_.layer == 0) return embedding();
    if (plan_.layer == s_.blocks + 1) return head();
    return block(plan_.layer - 1);
  }

 private:
  // Under autocast the residual stream is fp32 in buffers that are declared with the 16-bit dtype.
  Dtype stored(const Activation& a, std::size_t count) const {
    const auto elements = static_cast<Bytes>(count);
    const bool wider = !a.exact && bytes_per_element(a.dtype) == 2 && a.bytes >= 4 * elements;
    if (a.bytes < elements * bytes_per_element(a.dtype)) {
      throw std::runtime_error(run_.name + " has a view that is too small for what it holds");
    }
    return wider ? Dtype::fp32 : a.dtype;
  }
  Values<Real> fetch(const Activation& a, std::int64_t count) const {
    if (a.view < 0) throw std::runtime_error(run_.name + " lacks a tensor that it computes with");
    Values<Real> x(static_cast<std::size_t>(count));
    read(x.data(), run_.memory[a.view], stored(a, x.size()), a.at, count, run_.name);
    return x;
  }
  void keep(const Activation& a, const Values<Real>& x) const {
    if (a.view < 0) throw std::runtime_error(run_.name + " has nowhere to write its result");
    write(run_.memory[a.view], stored(a, x.size()), a.at, x.data(),
          static_cast<std::int64_t>(x.size()));
  }
  std::vector<std::int64_t> ids(bool labels) const {
    const Activation& t = plan_.tokens;
    if (t.view < 0) throw std::runtime_error(run_.name + " does not read the tokens");
    const std::int64_t count = run_.tokens;
    if (t.bytes < (labels ? 16 : 8) * count) {
      throw std::runtime_error(run_.name + " has a view that is too small for what it holds");
    }
    std::vector<std::int64_t> list(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::int64_t at = t.at + static_cast<std::int64_t>(i) + (labels ? count : 0);
      list[i] = load<std::int64_t>(run_.memory[t.view], at);
      const bool ignored = labels && list[i] == ignored_label;
      if (!ignored && (list[i] < 0 || list[i] >= s_.vocabulary)) {
        throw PoisonRead(run_.name + " reads tokens that nobody wrote");
      }
    }
    return list;
  }

  bool has(int tensor) const {
    return std::any_of(plan_.weights.begin(), plan_.weights.end(),
                       [&](const TensorParts& w) { return w.tensor == tensor; });
  }
  Values<Real> weight(int tensor) const {
    for (const TensorParts& w : plan_.weights) {
      if (w.tensor != tensor) continue;
      Values<Real> x(static_cast<std::size_t>(s_.elements(tensor)));
      for (const Part& part : w.parts) {
        read(x.data() + part.first, run_.memory[part.place.view], part.place.dtype, part.place.at,
             part.count, run_.name);
      }
      cast(x);
      return x;
    }
    throw std::runtime_error(run_.name + " computes with a tensor that is not there");
  }
  // Autocast: fp32 weights meet 16-bit activations.
  void cast(Values<Real>& x) const {
    const Dtype dtype = plan_.hidden.view >= 0 ? plan_.hidden.dtype : plan_.input.dtype;
    for (Real& value : x) {
      if (dtype == Dtype::bf16) {
        value = static_cast<Real>(to_float(to_bf16(static_cast<float>(value))));
      } else if (dtype == Dtype::fp16) {
        value = static_cast<Real>(to_float(to_fp16(static_cast<float>(value))));
      }
    }
  }
  // Computes each wanted gradient once, by `of`, and writes its parts.
  template <typename Of>
  void gradients(Of&& of) const {
    for (const TensorParts& wanted : plan_.gradients) {
      const Values<Real> g = of(wanted.tensor);
      if (g.empty()) continue;  // another piece's
      for (const Part& part : wanted.parts) {
        write(run_.memory[part.place.view], part.place.dtype, part.place.at, g.data() + part.first,
              part.count);
      }
    }
  }

  // The first piece of a layer finds nothing in its workspace.
  void spoil_scratch() const {
    for (const Activation& a : plan_.scratch) {
      std::memset(run_.memory[a.view] + a.at * bytes_per_element(a.dtype), poison_byte,
                  static_cast<std::size_t>(a.bytes));
    }
  }

  double embedding() const {
    spoil_scratch();
    const std::vector<std::int64_t> tokens = ids(false);
    const auto count = static_cast<std::int64_t>(tokens.size()) * s_.width;
    if (plan_.pass != LayerPass::backward) {
      keep(plan_.hidden, embed(weight(s_.table()), tokens, s_.width));
      return 0;
    }
    const Values<Real> g = fetch(plan_.grad_in, count);
    gradients([&](int) {
      Values<Real> table = table_gradient(g, tokens, s_.vocabulary, s_.width);
      for (const Part& part : plan_.tied) {
        Values<Real> share(static_cast<std::size_t>(part.count));
        read(share.data(), run_.memory[part.place.view], part.place.dtype, part.place.at,
             part.count, run_.name);
        for (std::size_t i = 0; i < share.size(); ++i) {
          table[static_cast<std::size_t>(part.first) + i] += share[i];
        }
      }
      return table;
    });
    return 0;
  }

  // The head keeps softmax minus one-hot from forward to backward; where the loss is apart, it
  // hands on the logits and gets their gradient.
  double head() const {
    spoil_scratch();
    const Values<Real> w = weight(s_.head());
    if (plan_.pass != LayerPass::backward) {
      const Values<Real> h = fetch(plan_.input, run_.tokens * s_.width);
      Values<Real> logits = linear<Real>(h, w, nullptr, s_.width, s_.vocabulary);
      if (plan_.hidden.view >= 0) {
        keep(plan_.hidden, logits);
        return 0;
      }
      const std::vector<std::int64_t> labels = ids(true);
      const double loss = cross_entropy(logits, labels, s_.vocabulary);
      keep(plan_.saved, logits);
      return loss;
    }
    const std::int64_t tokens = run_.tokens;
    const Values<Real> h = fetch(plan_.input, tokens * s_.width);
    const bool loss_apart = plan_.grad_in.view >= 0;
    Values<Real> g = fetch(loss_apart ? plan_.grad_in : plan_.saved, tokens * s_.vocabulary);
    if (!loss_apart) {
      const Real scale = static_cast<Real>(run_.loss_scale / static_cast<double>(tokens));
      for (Real& x : g) x *= scale;
    }
    gradients([&](int) { return weight_gradient(g, h, s_.width, s_.vocabulary); });
    keep(plan_.grad_out, input_gradient(g, w, s_.width, s_.vocabulary));
    return 0;
  }

  double block(int b) const {
    const int up = s_.up_weight(b);
    const int down = up + 2;
    const bool first_half = has(up) && has(up + 1);
    const bool second_half = has(down) && has(down + 1);
    if (!first_half && !second_half) {
      throw std::runtime_error(run_.name + " computes with tensors that are not there");
    }
    if (plan_.pass == LayerPass::backward ? second_half : first_half) spoil_scratch();
    const std::int64_t tokens = run_.tokens;
    const Values<Real> h = fetch(plan_.input, tokens * s_.width);
    if (plan_.pass == LayerPass::backward) {
      block_backward(b, h, tokens, first_half, second_half);
      return 0;
    }
    const Activation& kept = plan_.pass == LayerPass::recompute ? plan_.recomputed
                             : plan_.saved.view >= 0            ? plan_.saved
                                                                : plan_.workspace;
    Values<Real> a;
    if (first_half) {
      const Values<Real> bias = weight(up + 1);
      a = linear(h, weight(up), &bias, s_.width, s_.inner);
      activate(a);
      keep(kept, a);
    } else {
      a = fetch(kept, tokens * s_.inner);
    }
    if (second_half && plan_.pass == LayerPass::forward) {
      const Values<Real> bias = weight(down + 1);
      Values<Real> out = linear(a, weight(down), &bias, s_.inner, s_.width);
      for (std::size_t i = 0; i < out.size(); ++i) out[i] += h[i];
      keep(plan_.hidden, out);
    }
    return 0;
  }

  void block_backward(int b, const Values<Real>& h, std::int64_t tokens, bool first_half,
                      bool second_half) const {
    const int up = s_.up_weight(b);
    const int down = up + 2;
    const Values<Real> g = fetch(plan_.grad_in, tokens * s_.width);
    const Activation& kept = plan_.recomputed.view >= 0 ? plan_.recomputed : plan_.saved;
    const Values<Real> a = fetch(kept, tokens * s_.inner);
    Values<Real> dz;
    if (second_half) {
      dz = activation_gradient(input_gradient(g, weight(down), s_.inner, s_.width), a);
      keep(plan_.workspace, dz);
    } else {
      dz = fetch(plan_.workspace, tokens * s_.inner);
    }
    gradients([&](int tensor) -> Values<Real> {
      if (tensor == up) return weight_gradient(dz, h, s_.width, s_.inner);
      if (tensor == up + 1) return bias_gradient(dz, s_.inner);
      if (tensor == down) return weight_gradient(g, a, s_.inner, s_.width);
      return bias_gradient(g, s_.width);
    });
    if (!first_half) return;
    Values<Real> out = input_gradient(dz, weight(up), s_.width, s_.inner);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += g[i];
    keep(plan_.grad_out, out);
  }

  const LayerPlan& plan_;
  const LayerRun& run_;
  const MlpShape& s_;
};

}  // namespace

double run_layer(const LayerPlan& plan, const LayerRun& run) {
  const bool wide = plan.hidden.dtype == Dtype::fp64 || plan.input.dtype == Dtype::fp64 ||
                    plan.grad_in.dtype == Dtype::fp64;
  return wide ? Layer<double>(plan, run).go() : Layer<float>(plan, run).go();
}

}  // namespace stepcast::runtime

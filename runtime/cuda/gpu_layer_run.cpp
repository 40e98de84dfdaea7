#include "runtime/cuda/gpu_layer_run.hpp"

#include <algorithm>
#include <stdexcept>

#include "runtime/numbers.hpp"

namespace stepcast::runtime {
namespace {

class Layer {
 public:
  Layer(const LayerPlan& plan, const GpuLayerRun& run, bool wide)
      : plan_(plan),
        run_(run),
        s_(run.shape),
        wide_(wide),
        real_(wide ? Dtype::fp64 : Dtype::fp32) {}

  void go() {
    if (plan_.layer == 0) return embedding();
    if (plan_.layer == s_.blocks + 1) return head();
    block(plan_.layer - 1);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(run_.name + " " + what);
  }
  // Under autocast the residual stream is fp32 in buffers that are declared with the 16-bit dtype.
  GpuPlace place(const Activation& a, std::int64_t count) const {
    if (a.view < 0) fail("lacks a tensor that it computes with");
    if (a.bytes < count * bytes_per_element(a.dtype)) {
      fail("has a view that is too small for what it holds");
    }
    const bool wider = !a.exact && bytes_per_element(a.dtype) == 2 && a.bytes >= 4 * count;
    return {run_.memory[a.view], wider ? Dtype::fp32 : a.dtype, a.at};
  }
  GpuArray fresh(std::int64_t count) const { return run_.scratch.array(count, wide_); }
  GpuPlace real(const GpuArray& x, std::int64_t at = 0) const { return {x.memory, real_, at}; }

  GpuArray fetch(const Activation& a, std::int64_t count) const {
    const GpuArray x = fresh(count);
    run_.math.move(run_.stream, place(a, count), real(x), count, 1, false, run_.fault);
    return x;
  }
  void keep(const Activation& a, const GpuArray& x) const {
    run_.math.move(run_.stream, real(x), place(a, x.count), x.count, 1, false, {});
  }
  const std::int64_t* ids(bool labels) const {
    const Activation& t = plan_.tokens;
    if (t.view < 0) fail("does not read the tokens");
    if (t.bytes < (labels ? 16 : 8) * run_.tokens) {
      fail("has a view that is too small for what it holds");
    }
    const std::int64_t first = t.at + (labels ? run_.tokens : 0);
    return reinterpret_cast<const std::int64_t*>(run_.memory[t.view]) + first;
  }

  bool has(int tensor) const {
    return std::any_of(plan_.weights.begin(), plan_.weights.end(),
                       [&](const TensorParts& w) { return w.tensor == tensor; });
  }
  GpuArray weight(int tensor) const {
    for (const TensorParts& w : plan_.weights) {
      if (w.tensor != tensor) continue;
      const GpuArray x = fresh(s_.elements(tensor));
      for (const Part& part : w.parts) {
        run_.math.move(run_.stream, {run_.memory[part.place.view], part.place.dtype, part.place.at},
                       real(x, part.first), part.count, 1, false, run_.fault);
      }
      // Autocast: fp32 weights meet 16-bit activations.
      const Dtype dtype = plan_.hidden.view >= 0 ? plan_.hidden.dtype : plan_.input.dtype;
      if (dtype == Dtype::bf16 || dtype == Dtype::fp16) {
        run_.math.round(run_.stream, wide_, x, dtype);
      }
      return x;
    }
    fail("computes with a tensor that is not there");
  }
  template <typename Of>
  void gradients(Of&& of) const {
    for (const TensorParts& wanted : plan_.gradients) {
      const GpuArray g = of(wanted.tensor);
      if (g.memory == nullptr) continue;  // another piece's
      for (const Part& part : wanted.parts) {
        run_.math.move(run_.stream, real(g, part.first),
                       {run_.memory[part.place.view], part.place.dtype, part.place.at}, part.count,
                       1, false, {});
      }
    }
  }

  // y[T,out] = x[T,in] W^T (+ b)
  GpuArray linear(const GpuArray& x, const GpuArray& w, const GpuArray* bias, std::int64_t in,
                  std::int64_t out) const {
    const std::int64_t tokens = x.count / in;
    const GpuArray y = fresh(tokens * out);
    run_.math.gemm(run_.stream, wide_, false, true, tokens, out, in, x.memory, w.memory, false,
                   y.memory);
    if (bias != nullptr) run_.math.add_bias(run_.stream, wide_, y, *bias);
    return y;
  }
  // dx[T,in] = dy[T,out] W
  GpuArray input_gradient(const GpuArray& dy, const GpuArray& w, std::int64_t in,
                          std::int64_t out) const {
    const std::int64_t tokens = dy.count / out;
    const GpuArray dx = fresh(tokens * in);
    run_.math.gemm(run_.stream, wide_, false, false, tokens, in, out, dy.memory, w.memory, false,
                   dx.memory);
    return dx;
  }
  // dW[out,in] = dy^T x
  GpuArray weight_gradient(const GpuArray& dy, const GpuArray& x, std::int64_t in,
                           std::int64_t out) const {
    const GpuArray dw = fresh(in * out);
    run_.math.gemm(run_.stream, wide_, true, false, out, in, dy.count / out, dy.memory, x.memory,
                   false, dw.memory);
    return dw;
  }
  GpuArray bias_gradient(const GpuArray& dy, std::int64_t out) const {
    const GpuArray db = fresh(out);
    run_.math.column_sums(run_.stream, wide_, dy, db);
    return db;
  }

  // The first piece of a layer finds nothing in its workspace.
  void spoil_scratch() const {
    for (const Activation& a : plan_.scratch) {
      run_.gpu.fill(run_.stream, run_.memory[a.view] + a.at * bytes_per_element(a.dtype),
                    poison_byte, a.bytes);
    }
  }

  void embedding() const {
    spoil_scratch();
    const std::int64_t tokens = run_.tokens;
    if (plan_.pass != LayerPass::backward) {
      const GpuArray h = fresh(tokens * s_.width);
      run_.math.embed(run_.stream, wide_, weight(s_.table()).memory, s_.vocabulary, s_.width,
                      ids(false), tokens, h.memory, run_.fault);
      return keep(plan_.hidden, h);
    }
    const GpuArray g = fetch(plan_.grad_in, tokens * s_.width);
    gradients([&](int) {
      const GpuArray table = fresh(s_.vocabulary * s_.width);
      run_.math.table_gradient(run_.stream, wide_, g.memory, ids(false), tokens, s_.vocabulary,
                               s_.width, table.memory, run_.fault);
      for (const Part& part : plan_.tied) {
        run_.math.move(run_.stream, {run_.memory[part.place.view], part.place.dtype, part.place.at},
                       real(table, part.first), part.count, 1, true, run_.fault);
      }
      return table;
    });
  }

  // The head keeps softmax minus one-hot from forward to backward; where the loss is apart, it
  // hands on the logits and gets their gradient.
  void head() const {
    spoil_scratch();
    const GpuArray w = weight(s_.head());
    const GpuArray h = fetch(plan_.input, run_.tokens * s_.width);
    if (plan_.pass != LayerPass::backward) {
      const GpuArray logits = linear(h, w, nullptr, s_.width, s_.vocabulary);
      if (plan_.hidden.view >= 0) return keep(plan_.hidden, logits);
      run_.math.cross_entropy(run_.stream, wide_, logits.memory, ids(true), run_.tokens,
                              s_.vocabulary, run_.loss, run_.fault);
      return keep(plan_.saved, logits);
    }
    const bool loss_apart = plan_.grad_in.view >= 0;
    const GpuArray g = fetch(loss_apart ? plan_.grad_in : plan_.saved, run_.tokens * s_.vocabulary);
    if (!loss_apart) {
      run_.math.scale(run_.stream, wide_, g, run_.loss_scale / static_cast<double>(run_.tokens));
    }
    gradients([&](int) { return weight_gradient(g, h, s_.width, s_.vocabulary); });
    keep(plan_.grad_out, input_gradient(g, w, s_.width, s_.vocabulary));
  }

  void block(int b) const {
    const int up = s_.up_weight(b);
    const int down = up + 2;
    const bool first_half = has(up) && has(up + 1);
    const bool second_half = has(down) && has(down + 1);
    if (!first_half && !second_half) fail("computes with tensors that are not there");
    if (plan_.pass == LayerPass::backward ? second_half : first_half) spoil_scratch();
    const GpuArray h = fetch(plan_.input, run_.tokens * s_.width);
    if (plan_.pass == LayerPass::backward) return block_backward(b, h, first_half, second_half);
    const Activation& kept = plan_.pass == LayerPass::recompute ? plan_.recomputed
                             : plan_.saved.view >= 0            ? plan_.saved
                                                                : plan_.workspace;
    GpuArray a;
    if (first_half) {
      const GpuArray bias = weight(up + 1);
      a = linear(h, weight(up), &bias, s_.width, s_.inner);
      run_.math.tanh(run_.stream, wide_, a);
      keep(kept, a);
    } else {
      a = fetch(kept, run_.tokens * s_.inner);
    }
    if (!second_half || plan_.pass != LayerPass::forward) return;
    const GpuArray bias = weight(down + 1);
    const GpuArray out = linear(a, weight(down), &bias, s_.inner, s_.width);
    run_.math.add(run_.stream, wide_, out, h.memory);
    keep(plan_.hidden, out);
  }

  void block_backward(int b, const GpuArray& h, bool first_half, bool second_half) const {
    const int up = s_.up_weight(b);
    const int down = up + 2;
    const GpuArray g = fetch(plan_.grad_in, run_.tokens * s_.width);
    const Activation& kept = plan_.recomputed.view >= 0 ? plan_.recomputed : plan_.saved;
    const GpuArray a = fetch(kept, run_.tokens * s_.inner);
    GpuArray dz;
    if (second_half) {
      dz = input_gradient(g, weight(down), s_.inner, s_.width);
      run_.math.tanh_gradient(run_.stream, wide_, dz, a.memory);
      keep(plan_.workspace, dz);
    } else {
      dz = fetch(plan_.workspace, run_.tokens * s_.inner);
    }
    gradients([&](int tensor) -> GpuArray {
      if (tensor == up) return weight_gradient(dz, h, s_.width, s_.inner);
      if (tensor == up + 1) return bias_gradient(dz, s_.inner);
      if (tensor == down) return weight_gradient(g, a, s_.inner, s_.width);
      return bias_gradient(g, s_.width);
    });
    if (!first_half) return;
    const GpuArray out = input_gradient(dz, weight(up), s_.width, s_.inner);
    run_.math.add(run_.stream, wide_, out, g.memory);
    keep(plan_.grad_out, out);
  }

  const LayerPlan& plan_;
  const GpuLayerRun& run_;
  const MlpShape& s_;
  bool wide_;
  Dtype real_;
};

}  // namespace

void run_layer(const LayerPlan& plan, const GpuLayerRun& run) {
  const bool wide = plan.hidden.dtype == Dtype::fp64 || plan.input.dtype == Dtype::fp64 ||
                    plan.grad_in.dtype == Dtype::fp64;
  Layer(plan, run, wide).go();
}

}  // namespace stepcast::runtime

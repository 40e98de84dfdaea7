#include "runtime/cuda/gpu_loss_run.hpp"

#include <stdexcept>

#include "runtime/numbers.hpp"

namespace stepcast::runtime {
namespace {

class Loss {
 public:
  Loss(const LossPlan& plan, const GpuLossRun& run)
      : plan_(plan), run_(run), tokens_(plan.labels.bytes / 8), saved_(plan.saved) {
    if (plan.labels.view < 0) throw std::runtime_error(run.name + " does not read the labels");
    for (const Activation& a : plan.scratch) {  // what was in it is gone
      run.gpu.fill(run.stream, run.memory[a.view] + a.at * bytes_per_element(a.dtype), poison_byte,
                   a.bytes);
    }
    if (fused()) saved_.dtype = bytes_per_element(saved_.dtype) < 4 ? Dtype::fp32 : saved_.dtype;
  }

  void forward() const {
    const GpuArray logits = fetch(plan_.logits, elements(), plan_.logits.dtype);
    if (fused()) {
      const GpuArray sums = run_.scratch.array(tokens_, wide);
      run_.math.log_sums(run_.stream, wide, logits.memory, tokens_, run_.vocabulary, sums.memory);
      keep(saved_, sums, saved_.dtype, 1);
    }
    run_.gpu.fill(run_.stream, reinterpret_cast<std::byte*>(run_.loss), 0, 8);
    run_.math.cross_entropy(run_.stream, wide, logits.memory, labels(), tokens_, run_.vocabulary,
                            run_.loss, run_.fault);
    if (!fused()) keep(plan_.saved, logits, stored(plan_.saved), 1);
  }

  void backward() const {
    GpuArray g;
    if (fused()) {
      const GpuArray sums = fetch(saved_, tokens_, saved_.dtype);
      g = fetch(plan_.logits, elements(), plan_.logits.dtype);
      run_.math.cross_entropy_gradient(run_.stream, wide, g.memory, sums.memory, labels(), tokens_,
                                       run_.vocabulary, run_.fault);
    } else {
      g = fetch(plan_.saved, elements(), stored(plan_.saved));
    }
    const double one = 1 / static_cast<double>(tokens_);
    const Place& upstream = plan_.upstream;
    const GpuFactor factor =
        upstream.view < 0
            ? GpuFactor(run_.scale * one)
            : GpuFactor(one, {run_.memory[upstream.view], upstream.dtype, upstream.at});
    keep(plan_.gradient, g, plan_.gradient.dtype, factor);
  }

 private:
  static constexpr bool wide = true;

  std::int64_t elements() const { return tokens_ * run_.vocabulary; }
  const std::int64_t* labels() const {
    return reinterpret_cast<const std::int64_t*>(run_.memory[plan_.labels.view]) + plan_.labels.at;
  }
  // A number a token is all that a fused loss keeps.
  bool fused() const { return plan_.saved.bytes < 2 * elements(); }
  // log-probabilities are fp32, whatever the buffer is declared as.
  Dtype stored(const Activation& a) const {
    return bytes_per_element(a.dtype) == 2 && a.bytes >= 4 * elements() ? Dtype::fp32 : a.dtype;
  }
  GpuPlace place(const Activation& a, std::int64_t count, Dtype dtype) const {
    if (a.view < 0) throw std::runtime_error(run_.name + " lacks a tensor that it computes with");
    if (a.bytes < count * bytes_per_element(dtype)) {
      throw std::runtime_error(run_.name + " has a view that is too small for what it holds");
    }
    return {run_.memory[a.view], dtype, a.at};
  }
  GpuArray fetch(const Activation& a, std::int64_t count, Dtype dtype) const {
    const GpuArray x = run_.scratch.array(count, wide);
    run_.math.move(run_.stream, place(a, count, dtype), {x.memory, Dtype::fp64, 0}, count, 1, false,
                   run_.fault);
    return x;
  }
  void keep(const Activation& a, const GpuArray& x, Dtype dtype, const GpuFactor& factor) const {
    run_.math.move(run_.stream, {x.memory, Dtype::fp64, 0}, place(a, x.count, dtype), x.count,
                   factor, false, run_.fault);
  }

  const LossPlan& plan_;
  const GpuLossRun& run_;
  std::int64_t tokens_;
  Activation saved_;
};

}  // namespace

void run_loss(const LossPlan& plan, const GpuLossRun& run) {
  const Loss loss(plan, run);
  if (plan.backward) {
    loss.backward();
  } else {
    loss.forward();
  }
}

}  // namespace stepcast::runtime

#pragma once
// GpuMath by plain loops: what the plugin's kernels compute, said as simply as it can be.

#include <functional>

#include "runtime/cuda/math.hpp"

namespace stepcast::testing {

class FakeMath : public runtime::GpuMath {
 public:
  using Push = std::function<void(runtime::GpuStream*, std::function<void()>)>;
  explicit FakeMath(Push push) : push_(std::move(push)) {}

  void move(runtime::GpuStream*, runtime::GpuPlace from, runtime::GpuPlace to, std::int64_t count,
            runtime::GpuFactor factor, bool add, runtime::FaultCell fault) override;
  void set(runtime::GpuStream*, runtime::GpuPlace to, std::int64_t count, double value) override;
  void expect(runtime::GpuStream*, runtime::GpuPlace from, std::int64_t count, double least,
              double most, runtime::FaultCell fault) override;
  void add_squares(runtime::GpuStream*, runtime::GpuPlace from, std::int64_t count, double* to,
                   runtime::FaultCell fault) override;
  void square_roots(runtime::GpuStream*, double* x, std::int64_t count) override;
  void clip_coefficient(runtime::GpuStream*, runtime::GpuPlace squares, double max_norm,
                        runtime::FaultCell fault) override;
  void adamw(runtime::GpuStream*, std::int64_t count, runtime::GpuPlace gradient,
             runtime::GpuPlace parameter, runtime::GpuPlace first, runtime::GpuPlace second,
             runtime::GpuPlace master, const runtime::AdamStep& step,
             runtime::FaultCell fault) override;
  void sgd(runtime::GpuStream*, std::int64_t count, runtime::GpuPlace gradient,
           runtime::GpuPlace parameter, runtime::GpuPlace momenta, runtime::GpuPlace master,
           const runtime::SgdStep& step, runtime::FaultCell fault) override;
  void gemm(runtime::GpuStream*, bool wide, bool a_transposed, bool b_transposed, std::int64_t m,
            std::int64_t n, std::int64_t k, const std::byte* a, const std::byte* b, bool add,
            std::byte* c) override;
  void add_bias(runtime::GpuStream*, bool wide, runtime::GpuArray x,
                runtime::GpuArray bias) override;
  void column_sums(runtime::GpuStream*, bool wide, runtime::GpuArray x,
                   runtime::GpuArray sums) override;
  void tanh(runtime::GpuStream*, bool wide, runtime::GpuArray x) override;
  void tanh_gradient(runtime::GpuStream*, bool wide, runtime::GpuArray da,
                     const std::byte* a) override;
  void scale(runtime::GpuStream*, bool wide, runtime::GpuArray x, double factor) override;
  void add(runtime::GpuStream*, bool wide, runtime::GpuArray x, const std::byte* y) override;
  void round(runtime::GpuStream*, bool wide, runtime::GpuArray x, Dtype dtype) override;
  void embed(runtime::GpuStream*, bool wide, const std::byte* table, std::int64_t vocabulary,
             std::int64_t width, const std::int64_t* ids, std::int64_t tokens, std::byte* h,
             runtime::FaultCell fault) override;
  void table_gradient(runtime::GpuStream*, bool wide, const std::byte* dh, const std::int64_t* ids,
                      std::int64_t tokens, std::int64_t vocabulary, std::int64_t width,
                      std::byte* table, runtime::FaultCell fault) override;
  void cross_entropy(runtime::GpuStream*, bool wide, std::byte* logits, const std::int64_t* labels,
                     std::int64_t tokens, std::int64_t vocabulary, double* loss,
                     runtime::FaultCell fault) override;
  void log_sums(runtime::GpuStream*, bool wide, const std::byte* logits, std::int64_t tokens,
                std::int64_t vocabulary, std::byte* sums) override;
  void cross_entropy_gradient(runtime::GpuStream*, bool wide, std::byte* logits,
                              const std::byte* sums, const std::int64_t* labels,
                              std::int64_t tokens, std::int64_t vocabulary,
                              runtime::FaultCell fault) override;

 private:
  Push push_;
};

}  // namespace stepcast::testing

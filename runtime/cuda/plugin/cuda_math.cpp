#include "runtime/cuda/plugin/cuda_math.hpp"

#include "runtime/cuda/plugin/check.hpp"
#include "runtime/cuda/plugin/types.hpp"

namespace stepcast::cuda {
namespace {

using runtime::AdamStep;
using runtime::FaultCell;
using runtime::GpuArray;
using runtime::GpuFactor;
using runtime::GpuPlace;
using runtime::GpuStream;
using runtime::SgdStep;

class CudaMath : public runtime::GpuMath {
 public:
  explicit CudaMath(std::shared_ptr<Cublas> cublas) : cublas_(std::move(cublas)) {}

  void move(GpuStream* s, GpuPlace from, GpuPlace to, std::int64_t count, GpuFactor factor,
            bool add, FaultCell fault) override {
    cuda::move(stream_of(s), at(from), at(to), count, factor_of(factor), add, fault_of(fault));
    launched("move");
  }
  void set(GpuStream* s, GpuPlace to, std::int64_t count, double value) override {
    cuda::set(stream_of(s), at(to), count, value);
    launched("set");
  }
  void expect(GpuStream* s, GpuPlace from, std::int64_t count, double least, double most,
              FaultCell fault) override {
    cuda::expect(stream_of(s), at(from), count, least, most, fault_of(fault));
    launched("expect");
  }
  void add_squares(GpuStream* s, GpuPlace from, std::int64_t count, double* to,
                   FaultCell fault) override {
    cuda::add_squares(stream_of(s), at(from), count, to, fault_of(fault));
    launched("add_squares");
  }
  void square_roots(GpuStream* s, double* x, std::int64_t count) override {
    cuda::square_roots(stream_of(s), x, count);
    launched("square_roots");
  }
  void clip_coefficient(GpuStream* s, GpuPlace squares, double max_norm, FaultCell fault) override {
    cuda::clip_coefficient(stream_of(s), at(squares), max_norm, fault_of(fault));
    launched("clip_coefficient");
  }
  void adamw(GpuStream* s, std::int64_t count, GpuPlace gradient, GpuPlace parameter,
             GpuPlace first, GpuPlace second, GpuPlace master, const AdamStep& step,
             FaultCell fault) override {
    cuda::adamw(
        stream_of(s), count, at(gradient), at(parameter), at(first), at(second), at(master),
        {step.rate, step.beta1, step.beta2, step.epsilon, step.decay, step.correct1, step.correct2},
        fault_of(fault));
    launched("adamw");
  }
  void sgd(GpuStream* s, std::int64_t count, GpuPlace gradient, GpuPlace parameter,
           GpuPlace momenta, GpuPlace master, const SgdStep& step, FaultCell fault) override {
    cuda::sgd(stream_of(s), count, at(gradient), at(parameter), at(momenta), at(master), step.rate,
              step.momentum, fault_of(fault));
    launched("sgd");
  }
  void gemm(GpuStream* s, bool wide, bool a_transposed, bool b_transposed, std::int64_t m,
            std::int64_t n, std::int64_t k, const std::byte* a, const std::byte* b, bool add,
            std::byte* c) override {
    cublas_->gemm(stream_of(s), wide, a_transposed, b_transposed, m, n, k, a, b, add, c);
  }
  void add_bias(GpuStream* s, bool wide, GpuArray x, GpuArray bias) override {
    cuda::add_bias(stream_of(s), wide, x.memory, x.count, bias.memory, bias.count);
    launched("add_bias");
  }
  void column_sums(GpuStream* s, bool wide, GpuArray x, GpuArray sums) override {
    cuda::column_sums(stream_of(s), wide, x.memory, x.count / sums.count, sums.count, sums.memory);
    launched("column_sums");
  }
  void tanh(GpuStream* s, bool wide, GpuArray x) override {
    cuda::tanh(stream_of(s), wide, x.memory, x.count);
    launched("tanh");
  }
  void tanh_gradient(GpuStream* s, bool wide, GpuArray da, const std::byte* a) override {
    cuda::tanh_gradient(stream_of(s), wide, da.memory, a, da.count);
    launched("tanh_gradient");
  }
  void scale(GpuStream* s, bool wide, GpuArray x, double factor) override {
    cuda::scale(stream_of(s), wide, x.memory, x.count, factor);
    launched("scale");
  }
  void add(GpuStream* s, bool wide, GpuArray x, const std::byte* y) override {
    cuda::add(stream_of(s), wide, x.memory, y, x.count);
    launched("add");
  }
  void round(GpuStream* s, bool wide, GpuArray x, Dtype dtype) override {
    cuda::round(stream_of(s), wide, x.memory, x.count, type_of(dtype));
    launched("round");
  }
  void embed(GpuStream* s, bool wide, const std::byte* table, std::int64_t vocabulary,
             std::int64_t width, const std::int64_t* ids, std::int64_t tokens, std::byte* h,
             FaultCell fault) override {
    cuda::embed(stream_of(s), wide, table, vocabulary, width, ids, tokens, h, fault_of(fault));
    launched("embed");
  }
  void table_gradient(GpuStream* s, bool wide, const std::byte* dh, const std::int64_t* ids,
                      std::int64_t tokens, std::int64_t vocabulary, std::int64_t width,
                      std::byte* table, FaultCell fault) override {
    cuda::table_gradient(stream_of(s), wide, dh, ids, tokens, vocabulary, width, table,
                         fault_of(fault));
    launched("table_gradient");
  }
  void cross_entropy(GpuStream* s, bool wide, std::byte* logits, const std::int64_t* labels,
                     std::int64_t tokens, std::int64_t vocabulary, double* loss,
                     FaultCell fault) override {
    cuda::cross_entropy(stream_of(s), wide, logits, labels, tokens, vocabulary, loss,
                        fault_of(fault));
    launched("cross_entropy");
  }
  void log_sums(GpuStream* s, bool wide, const std::byte* logits, std::int64_t tokens,
                std::int64_t vocabulary, std::byte* sums) override {
    cuda::log_sums(stream_of(s), wide, logits, tokens, vocabulary, sums);
    launched("log_sums");
  }
  void cross_entropy_gradient(GpuStream* s, bool wide, std::byte* logits, const std::byte* sums,
                              const std::int64_t* labels, std::int64_t tokens,
                              std::int64_t vocabulary, FaultCell fault) override {
    cuda::cross_entropy_gradient(stream_of(s), wide, logits, sums, labels, tokens, vocabulary,
                                 fault_of(fault));
    launched("cross_entropy_gradient");
  }

 private:
  static void launched(const char* kernel) { check(cudaGetLastError(), kernel); }
  std::shared_ptr<Cublas> cublas_;
};

}  // namespace

std::unique_ptr<runtime::GpuMath> make_math(std::shared_ptr<Cublas> cublas) {
  return std::make_unique<CudaMath>(std::move(cublas));
}

}  // namespace stepcast::cuda

#pragma once
// The arithmetic that training on a GPU needs, as calls that enqueue on a stream: a matrix product
// (cuBLAS) and small kernels. `wide` is float64, else float32; arrays are contiguous.
// The plugin's kernels and the fake's loops are checked against the same float64 reference
// (kernel_check.hpp).

#include "runtime/cuda/gpu.hpp"

namespace stepcast::runtime {

// `count` elements in device memory from element `at` on.
struct GpuPlace {
  std::byte* memory = nullptr;
  Dtype dtype = Dtype::fp32;
  std::int64_t at = 0;
};

// An array of floats or doubles.
struct GpuArray {
  std::byte* memory = nullptr;
  std::int64_t count = 0;
};

// Who reads poison (numbers.hpp) or a token beyond the vocabulary leaves its number here, the first
// one to come; 0 while nobody did.
struct FaultCell {
  std::int64_t* cell = nullptr;
  std::int64_t number = 0;
};

// What elements are multiplied by: a number, and one that lies on the device (a clip coefficient,
// the gradient of a loss), where there is one.
struct GpuFactor {
  GpuFactor(double by) : number(by) {}  // NOLINT(google-explicit-constructor): nearly all are
  GpuFactor(double by, GpuPlace on_device) : number(by), times(on_device) {}
  double number = 1;
  GpuPlace times = {};
};

struct AdamStep {
  double rate = 0, beta1 = 0, beta2 = 0, epsilon = 0, decay = 0;
  double correct1 = 1, correct2 = 1;  // 1 - beta^t
};
struct SgdStep {
  double rate = 0, momentum = 0;
};

class GpuMath {
 public:
  virtual ~GpuMath() = default;

  // to[i] = factor * from[i] (+ to[i]), converted; 16-bit types rounded to nearest even.
  virtual void move(GpuStream* stream, GpuPlace from, GpuPlace to, std::int64_t count,
                    GpuFactor factor, bool add, FaultCell fault) = 0;
  // to[i] = value
  virtual void set(GpuStream* stream, GpuPlace to, std::int64_t count, double value) = 0;
  // A number outside [least, most] is a fault, as poison is.
  virtual void expect(GpuStream* stream, GpuPlace from, std::int64_t count, double least,
                      double most, FaultCell fault) = 0;
  // *to += the sum of squares.
  virtual void add_squares(GpuStream* stream, GpuPlace from, std::int64_t count, double* to,
                           FaultCell fault) = 0;
  virtual void square_roots(GpuStream* stream, double* x, std::int64_t count) = 0;
  // The sum of squares of a gradient becomes what clip_grad_norm_ multiplies it by:
  // min(1, max_norm / (norm + 1e-6)).
  virtual void clip_coefficient(GpuStream* stream, GpuPlace squares, double max_norm,
                                FaultCell fault) = 0;
  // master and parameter may be absent (memory null), not both.
  virtual void adamw(GpuStream* stream, std::int64_t count, GpuPlace gradient, GpuPlace parameter,
                     GpuPlace first, GpuPlace second, GpuPlace master, const AdamStep& step,
                     FaultCell fault) = 0;
  // The same of master and parameter; without a buffer of momenta each step's is the gradient.
  virtual void sgd(GpuStream* stream, std::int64_t count, GpuPlace gradient, GpuPlace parameter,
                   GpuPlace momenta, GpuPlace master, const SgdStep& step, FaultCell fault) = 0;

  // Row-major: c[m,n] = a[m,k] b[k,n] (+ c), with a or b stored transposed.
  virtual void gemm(GpuStream* stream, bool wide, bool a_transposed, bool b_transposed,
                    std::int64_t m, std::int64_t n, std::int64_t k, const std::byte* a,
                    const std::byte* b, bool add, std::byte* c) = 0;
  virtual void add_bias(GpuStream* stream, bool wide, GpuArray x, GpuArray bias) = 0;
  virtual void column_sums(GpuStream* stream, bool wide, GpuArray x, GpuArray sums) = 0;
  virtual void tanh(GpuStream* stream, bool wide, GpuArray x) = 0;
  // da *= 1 - a^2
  virtual void tanh_gradient(GpuStream* stream, bool wide, GpuArray da, const std::byte* a) = 0;
  virtual void scale(GpuStream* stream, bool wide, GpuArray x, double factor) = 0;
  virtual void add(GpuStream* stream, bool wide, GpuArray x, const std::byte* y) = 0;
  // Rounded to a 16-bit type and back: what autocast does to weights.
  virtual void round(GpuStream* stream, bool wide, GpuArray x, Dtype dtype) = 0;
  // h[t] = table[ids[t]]
  virtual void embed(GpuStream* stream, bool wide, const std::byte* table, std::int64_t vocabulary,
                     std::int64_t width, const std::int64_t* ids, std::int64_t tokens, std::byte* h,
                     FaultCell fault) = 0;
  // table[v] = sum of dh[t] over ids[t] = v
  virtual void table_gradient(GpuStream* stream, bool wide, const std::byte* dh,
                              const std::int64_t* ids, std::int64_t tokens, std::int64_t vocabulary,
                              std::int64_t width, std::byte* table, FaultCell fault) = 0;
  // logits[t] becomes softmax minus one-hot; *loss += the mean over tokens. Tokens with
  // ignored_label (train/shape.hpp) count in neither, and the others as much more (train/mlp.hpp).
  virtual void cross_entropy(GpuStream* stream, bool wide, std::byte* logits,
                             const std::int64_t* labels, std::int64_t tokens,
                             std::int64_t vocabulary, double* loss, FaultCell fault) = 0;
  // The same in two: what a fused loss keeps of each token, log(sum of exp), and from that and the
  // logits softmax minus one-hot.
  virtual void log_sums(GpuStream* stream, bool wide, const std::byte* logits, std::int64_t tokens,
                        std::int64_t vocabulary, std::byte* sums) = 0;
  virtual void cross_entropy_gradient(GpuStream* stream, bool wide, std::byte* logits,
                                      const std::byte* sums, const std::int64_t* labels,
                                      std::int64_t tokens, std::int64_t vocabulary,
                                      FaultCell fault) = 0;
};

}  // namespace stepcast::runtime

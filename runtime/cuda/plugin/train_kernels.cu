// Small kernels that training needs besides matrix products: written to be right, not fast. One
// thread an element, dtypes switched at run time, sums by one thread a column or one block a row,
// in a fixed order, so that two runs give the same bits.

#include "runtime/cuda/plugin/device_numbers.cuh"

namespace stepcast::cuda {
namespace {

__global__ void move_kernel(At from, At to, std::int64_t count, Factor factor, bool add,
                            Fault fault) {
  const double by =
      factor.number * (factor.times.memory == nullptr ? 1.0 : load(factor.times, 0, fault));
  for (std::int64_t i = first_index(); i < count; i += stride()) {
    double x = load(from, i, fault) * by;
    if (add) x += load(to, i, fault);
    store(to, i, x);
  }
}
__global__ void set_kernel(At to, std::int64_t count, double value) {
  for (std::int64_t i = first_index(); i < count; i += stride()) store(to, i, value);
}
__global__ void expect_kernel(At from, std::int64_t count, double least, double most, Fault fault) {
  for (std::int64_t i = first_index(); i < count; i += stride()) {
    const double x = load(from, i, fault);
    if (!(x >= least && x <= most)) leave(fault);
  }
}

__global__ void squares_kernel(At from, std::int64_t count, double* to, Fault fault) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    const double x = load(from, i, fault);
    sum += x * x;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) *to += sum;
}

__global__ void roots_kernel(double* x, std::int64_t count) {
  for (std::int64_t i = first_index(); i < count; i += stride()) x[i] = sqrt(x[i]);
}
// One thread.
__global__ void coefficient_kernel(At squares, double max_norm, Fault fault) {
  store(squares, 0, fmin(1.0, max_norm / (sqrt(load(squares, 0, fault)) + 1e-6)));
}

__global__ void adamw_kernel(std::int64_t count, At gradient, At parameter, At first, At second,
                             At master, Adam s, Fault fault) {
  for (std::int64_t i = first_index(); i < count; i += stride()) {
    const double g = load(gradient, i, fault);
    double p = load(master.memory != nullptr ? master : parameter, i, fault);
    p -= s.rate * s.decay * p;
    const double m = s.beta1 * load(first, i, fault) + (1 - s.beta1) * g;
    const double v = s.beta2 * load(second, i, fault) + (1 - s.beta2) * g * g;
    p -= s.rate * (m / s.correct1) / (sqrt(v / s.correct2) + s.epsilon);
    store(first, i, m);
    store(second, i, v);
    if (master.memory != nullptr) store(master, i, p);
    if (parameter.memory != nullptr) store(parameter, i, p);
  }
}

__global__ void sgd_kernel(std::int64_t count, At gradient, At parameter, At momenta, At master,
                           double rate, double momentum, Fault fault) {
  for (std::int64_t i = first_index(); i < count; i += stride()) {
    double m = load(gradient, i, fault);
    if (momenta.memory != nullptr) {
      m += momentum * load(momenta, i, fault);
      store(momenta, i, m);
    }
    const double p = load(master.memory != nullptr ? master : parameter, i, fault) - rate * m;
    if (master.memory != nullptr) store(master, i, p);
    if (parameter.memory != nullptr) store(parameter, i, p);
  }
}

template <typename Real>
__global__ void add_bias_kernel(Real* x, std::int64_t count, const Real* bias,
                                std::int64_t columns) {
  for (std::int64_t i = first_index(); i < count; i += stride()) x[i] += bias[i % columns];
}

template <typename Real>
__global__ void column_sums_kernel(const Real* x, std::int64_t rows, std::int64_t columns,
                                   Real* sums) {
  for (std::int64_t c = first_index(); c < columns; c += stride()) {
    Real sum = 0;
    for (std::int64_t r = 0; r < rows; ++r) sum += x[r * columns + c];
    sums[c] = sum;
  }
}

__device__ float hyperbolic(float x) { return tanhf(x); }
__device__ double hyperbolic(double x) { return ::tanh(x); }

template <typename Real>
__global__ void tanh_kernel(Real* x, std::int64_t count) {
  for (std::int64_t i = first_index(); i < count; i += stride()) x[i] = hyperbolic(x[i]);
}
template <typename Real>
__global__ void tanh_gradient_kernel(Real* da, const Real* a, std::int64_t count) {
  for (std::int64_t i = first_index(); i < count; i += stride()) da[i] *= Real(1) - a[i] * a[i];
}
template <typename Real>
__global__ void scale_kernel(Real* x, std::int64_t count, Real factor) {
  for (std::int64_t i = first_index(); i < count; i += stride()) x[i] *= factor;
}
template <typename Real>
__global__ void add_kernel(Real* x, const Real* y, std::int64_t count) {
  for (std::int64_t i = first_index(); i < count; i += stride()) x[i] += y[i];
}
template <typename Real>
__global__ void round_kernel(Real* x, std::int64_t count, bool bf16) {
  for (std::int64_t i = first_index(); i < count; i += stride()) {
    const auto value = static_cast<float>(x[i]);
    x[i] =
        bf16 ? __bfloat162float(__float2bfloat16_rn(value)) : __half2float(__float2half_rn(value));
  }
}

template <typename Real>
__global__ void embed_kernel(const Real* table, std::int64_t vocabulary, std::int64_t width,
                             const std::int64_t* ids, std::int64_t tokens, Real* h, Fault fault) {
  for (std::int64_t i = first_index(); i < tokens * width; i += stride()) {
    std::int64_t id = ids[i / width];
    if (id < 0 || id >= vocabulary) {
      leave(fault);
      id = 0;
    }
    h[i] = table[id * width + i % width];
  }
}

template <typename Real>
__global__ void table_gradient_kernel(const Real* dh, const std::int64_t* ids, std::int64_t tokens,
                                      std::int64_t vocabulary, std::int64_t width, Real* table,
                                      Fault fault) {
  for (std::int64_t i = first_index(); i < vocabulary * width; i += stride()) {
    Real sum = 0;
    for (std::int64_t t = 0; t < tokens; ++t) {
      if (ids[t] < 0 || ids[t] >= vocabulary) leave(fault);
      if (ids[t] == i / width) sum += dh[t * width + i % width];
    }
    table[i] = sum;
  }
}

__device__ float exponential(float x) { return expf(x); }
__device__ double exponential(double x) { return ::exp(x); }

constexpr std::int64_t ignored_label = -100;  // train/shape.hpp

// The label of a token, or ignored_label. What is neither is a fault.
__device__ std::int64_t label_at(const std::int64_t* labels, std::int64_t t,
                                 std::int64_t vocabulary, Fault fault) {
  const std::int64_t label = labels[t];
  if (label == ignored_label || (label >= 0 && label < vocabulary)) return label;
  leave(fault);
  return 0;
}
// What a token that counts counts for: all of them over those that are not ignored.
__device__ double weight_of_a_token(const std::int64_t* labels, std::int64_t tokens) {
  double mine = 0;
  for (std::int64_t t = threadIdx.x; t < tokens; t += blockDim.x) {
    mine += labels[t] == ignored_label ? 0 : 1;
  }
  return static_cast<double>(tokens) / block_sum(mine);
}

template <typename Real>
__device__ double log_sum_of_row(const Real* row, std::int64_t vocabulary, double& top) {
  double mine = -INFINITY;
  for (std::int64_t v = threadIdx.x; v < vocabulary; v += blockDim.x) {
    mine = fmax(mine, static_cast<double>(row[v]));
  }
  top = block_max(mine);
  double sum = 0;
  for (std::int64_t v = threadIdx.x; v < vocabulary; v += blockDim.x) {
    sum += static_cast<double>(exponential(row[v] - static_cast<Real>(top)));
  }
  return block_sum(sum);
}

// One block does all rows, so that the loss is added in one order.
template <typename Real>
__global__ void cross_entropy_kernel(Real* logits, const std::int64_t* labels, std::int64_t tokens,
                                     std::int64_t vocabulary, double* loss, Fault fault) {
  const double weight = weight_of_a_token(labels, tokens);
  double total = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    Real* row = logits + t * vocabulary;
    const std::int64_t label = label_at(labels, t, vocabulary, fault);
    if (label == ignored_label) {
      for (std::int64_t v = threadIdx.x; v < vocabulary; v += blockDim.x) row[v] = Real(0);
      continue;
    }
    double top = 0;
    const double sum = log_sum_of_row(row, vocabulary, top);
    total += log(sum) - (static_cast<double>(row[label]) - top);
    __syncthreads();  // the label's logit has been read by all
    for (std::int64_t v = threadIdx.x; v < vocabulary; v += blockDim.x) {
      const Real p = exponential(row[v] - static_cast<Real>(top)) / static_cast<Real>(sum);
      row[v] = (v == label ? p - Real(1) : p) * static_cast<Real>(weight);
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) *loss += weight * total / static_cast<double>(tokens);
}

// A block a row.
template <typename Real>
__global__ void log_sums_kernel(const Real* logits, std::int64_t tokens, std::int64_t vocabulary,
                                Real* sums) {
  for (std::int64_t t = blockIdx.x; t < tokens; t += gridDim.x) {
    double top = 0;
    const double sum = log_sum_of_row(logits + t * vocabulary, vocabulary, top);
    if (threadIdx.x == 0) sums[t] = static_cast<Real>(top + log(sum));
  }
}
template <typename Real>
__global__ void cross_entropy_gradient_kernel(Real* logits, const Real* sums,
                                              const std::int64_t* labels, std::int64_t tokens,
                                              std::int64_t vocabulary, Fault fault) {
  const double weight = weight_of_a_token(labels, tokens);
  for (std::int64_t t = blockIdx.x; t < tokens; t += gridDim.x) {
    Real* row = logits + t * vocabulary;
    const std::int64_t label = label_at(labels, t, vocabulary, fault);
    for (std::int64_t v = threadIdx.x; v < vocabulary; v += blockDim.x) {
      const Real p = exponential(row[v] - sums[t]) - Real(v == label ? 1 : 0);
      row[v] = label == ignored_label ? Real(0) : p * static_cast<Real>(weight);
    }
  }
}

}  // namespace

void move(cudaStream_t s, At from, At to, std::int64_t count, Factor factor, bool add,
          Fault fault) {
  if (count > 0)
    move_kernel<<<blocks_for(count), threads, 0, s>>>(from, to, count, factor, add, fault);
}
void set(cudaStream_t s, At to, std::int64_t count, double value) {
  if (count > 0) set_kernel<<<blocks_for(count), threads, 0, s>>>(to, count, value);
}
void expect(cudaStream_t s, At from, std::int64_t count, double least, double most, Fault fault) {
  if (count <= 0) return;
  expect_kernel<<<blocks_for(count), threads, 0, s>>>(from, count, least, most, fault);
}
void square_roots(cudaStream_t s, double* x, std::int64_t count) {
  if (count > 0) roots_kernel<<<blocks_for(count), threads, 0, s>>>(x, count);
}
void clip_coefficient(cudaStream_t s, At squares, double max_norm, Fault fault) {
  coefficient_kernel<<<1, 1, 0, s>>>(squares, max_norm, fault);
}
void add_squares(cudaStream_t s, At from, std::int64_t count, double* to, Fault fault) {
  if (count > 0) squares_kernel<<<1, threads, 0, s>>>(from, count, to, fault);
}
void adamw(cudaStream_t s, std::int64_t count, At gradient, At parameter, At first, At second,
           At master, Adam step, Fault fault) {
  if (count <= 0) return;
  adamw_kernel<<<blocks_for(count), threads, 0, s>>>(count, gradient, parameter, first, second,
                                                     master, step, fault);
}
void sgd(cudaStream_t s, std::int64_t count, At gradient, At parameter, At momenta, At master,
         double rate, double momentum, Fault fault) {
  if (count <= 0) return;
  sgd_kernel<<<blocks_for(count), threads, 0, s>>>(count, gradient, parameter, momenta, master,
                                                   rate, momentum, fault);
}

// Calls KERNEL<Real> with pointers of that type.
#define STEPCAST_LAUNCH(kernel, grid, ...)                \
  do {                                                    \
    if (wide) {                                           \
      using Real = double;                                \
      kernel<Real><<<grid, threads, 0, s>>>(__VA_ARGS__); \
    } else {                                              \
      using Real = float;                                 \
      kernel<Real><<<grid, threads, 0, s>>>(__VA_ARGS__); \
    }                                                     \
  } while (false)

void add_bias(cudaStream_t s, bool wide, void* x, std::int64_t count, const void* bias,
              std::int64_t columns) {
  STEPCAST_LAUNCH(add_bias_kernel, blocks_for(count), static_cast<Real*>(x), count,
                  static_cast<const Real*>(bias), columns);
}
void column_sums(cudaStream_t s, bool wide, const void* x, std::int64_t rows, std::int64_t columns,
                 void* sums) {
  STEPCAST_LAUNCH(column_sums_kernel, blocks_for(columns), static_cast<const Real*>(x), rows,
                  columns, static_cast<Real*>(sums));
}
void tanh(cudaStream_t s, bool wide, void* x, std::int64_t count) {
  STEPCAST_LAUNCH(tanh_kernel, blocks_for(count), static_cast<Real*>(x), count);
}
void tanh_gradient(cudaStream_t s, bool wide, void* da, const void* a, std::int64_t count) {
  STEPCAST_LAUNCH(tanh_gradient_kernel, blocks_for(count), static_cast<Real*>(da),
                  static_cast<const Real*>(a), count);
}
void scale(cudaStream_t s, bool wide, void* x, std::int64_t count, double factor) {
  STEPCAST_LAUNCH(scale_kernel, blocks_for(count), static_cast<Real*>(x), count,
                  static_cast<Real>(factor));
}
void add(cudaStream_t s, bool wide, void* x, const void* y, std::int64_t count) {
  STEPCAST_LAUNCH(add_kernel, blocks_for(count), static_cast<Real*>(x), static_cast<const Real*>(y),
                  count);
}
void round(cudaStream_t s, bool wide, void* x, std::int64_t count, Type type) {
  STEPCAST_LAUNCH(round_kernel, blocks_for(count), static_cast<Real*>(x), count,
                  type == Type::bf16);
}
void embed(cudaStream_t s, bool wide, const void* table, std::int64_t vocabulary,
           std::int64_t width, const std::int64_t* ids, std::int64_t tokens, void* h, Fault fault) {
  STEPCAST_LAUNCH(embed_kernel, blocks_for(tokens * width), static_cast<const Real*>(table),
                  vocabulary, width, ids, tokens, static_cast<Real*>(h), fault);
}
void table_gradient(cudaStream_t s, bool wide, const void* dh, const std::int64_t* ids,
                    std::int64_t tokens, std::int64_t vocabulary, std::int64_t width, void* table,
                    Fault fault) {
  STEPCAST_LAUNCH(table_gradient_kernel, blocks_for(vocabulary * width),
                  static_cast<const Real*>(dh), ids, tokens, vocabulary, width,
                  static_cast<Real*>(table), fault);
}
void cross_entropy(cudaStream_t s, bool wide, void* logits, const std::int64_t* labels,
                   std::int64_t tokens, std::int64_t vocabulary, double* loss, Fault fault) {
  STEPCAST_LAUNCH(cross_entropy_kernel, 1, static_cast<Real*>(logits), labels, tokens, vocabulary,
                  loss, fault);
}
void log_sums(cudaStream_t s, bool wide, const void* logits, std::int64_t tokens,
              std::int64_t vocabulary, void* sums) {
  STEPCAST_LAUNCH(log_sums_kernel, a_block_a_row(tokens), static_cast<const Real*>(logits), tokens,
                  vocabulary, static_cast<Real*>(sums));
}
void cross_entropy_gradient(cudaStream_t s, bool wide, void* logits, const void* sums,
                            const std::int64_t* labels, std::int64_t tokens,
                            std::int64_t vocabulary, Fault fault) {
  STEPCAST_LAUNCH(cross_entropy_gradient_kernel, a_block_a_row(tokens), static_cast<Real*>(logits),
                  static_cast<const Real*>(sums), labels, tokens, vocabulary, fault);
}

}  // namespace stepcast::cuda

// Small kernels: what training needs besides matrix products, and what replay streams through HBM.
//
// The training kernels are written to be right, not fast: one thread an element, dtypes switched at
// run time, sums by one thread a column or one block a row, in a fixed order, so that two runs give
// the same bits. Arithmetic is double where the dtype is not known at compile time.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "runtime/cuda/plugin/small_kernels.hpp"

namespace stepcast::cuda {
namespace {

constexpr int threads = 256;

unsigned blocks_for(std::int64_t count) {
  const std::int64_t blocks = (count + threads - 1) / threads;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks > 65535 ? 65535 : blocks);
}

__device__ std::int64_t first_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ std::int64_t stride() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

__device__ void leave(Fault fault) {
  if (fault.cell != nullptr) atomicCAS(fault.cell, 0ull, fault.number);
}

// Poison is all ones (numbers.hpp): NaN in every floating-point type, -1 in integers.
__device__ double load(At p, std::int64_t i, Fault fault) {
  const std::int64_t at = p.at + i;
  switch (p.type) {
    case Type::fp64: {
      const auto bits = static_cast<const unsigned long long*>(p.memory)[at];
      if (bits == ~0ull) leave(fault);
      return __longlong_as_double(static_cast<long long>(bits));
    }
    case Type::fp32: {
      const auto bits = static_cast<const unsigned*>(p.memory)[at];
      if (bits == ~0u) leave(fault);
      return __uint_as_float(bits);
    }
    case Type::fp16: {
      const auto bits = static_cast<const unsigned short*>(p.memory)[at];
      if (bits == 0xffffu) leave(fault);
      return __half2float(__ushort_as_half(bits));
    }
    case Type::bf16: {
      const auto bits = static_cast<const unsigned short*>(p.memory)[at];
      if (bits == 0xffffu) leave(fault);
      return __bfloat162float(__ushort_as_bfloat16(bits));
    }
    case Type::int64: {
      const auto value = static_cast<const long long*>(p.memory)[at];
      if (value == -1) leave(fault);
      return static_cast<double>(value);
    }
    case Type::int32: {
      const auto value = static_cast<const int*>(p.memory)[at];
      if (value == -1) leave(fault);
      return value;
    }
    case Type::int8: {
      const auto value = static_cast<const signed char*>(p.memory)[at];
      if (value == -1) leave(fault);
      return value;
    }
  }
  return 0;
}

__device__ void store(At p, std::int64_t i, double value) {
  const std::int64_t at = p.at + i;
  switch (p.type) {
    case Type::fp64: static_cast<double*>(p.memory)[at] = value; break;
    case Type::fp32: static_cast<float*>(p.memory)[at] = static_cast<float>(value); break;
    // By way of float, as the CPU executor rounds.
    case Type::fp16:
      static_cast<__half*>(p.memory)[at] = __float2half_rn(static_cast<float>(value));
      break;
    case Type::bf16:
      static_cast<__nv_bfloat16*>(p.memory)[at] = __float2bfloat16_rn(static_cast<float>(value));
      break;
    case Type::int64: static_cast<long long*>(p.memory)[at] = static_cast<long long>(value); break;
    case Type::int32: static_cast<int*>(p.memory)[at] = static_cast<int>(value); break;
    case Type::int8:
      static_cast<signed char*>(p.memory)[at] = static_cast<signed char>(value);
      break;
  }
}

__global__ void move_kernel(At from, At to, std::int64_t count, double factor, bool add,
                            Fault fault) {
  for (std::int64_t i = first_index(); i < count; i += stride()) {
    double x = load(from, i, fault) * factor;
    if (add) x += load(to, i, fault);
    store(to, i, x);
  }
}

// One block; a tree in shared memory.
__device__ double block_sum(double mine) {
  __shared__ double parts[threads];
  parts[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  const double sum = parts[0];
  __syncthreads();
  return sum;
}
__device__ double block_max(double mine) {
  __shared__ double parts[threads];
  parts[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] = fmax(parts[threadIdx.x], parts[threadIdx.x + half]);
    __syncthreads();
  }
  const double top = parts[0];
  __syncthreads();
  return top;
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
    x[i] = bf16 ? __bfloat162float(__float2bfloat16_rn(value))
                : __half2float(__float2half_rn(value));
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

// One block does all rows, so that the loss is added in one order.
template <typename Real>
__global__ void cross_entropy_kernel(Real* logits, const std::int64_t* labels, std::int64_t tokens,
                                     std::int64_t vocabulary, double* loss, Fault fault) {
  double total = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    Real* row = logits + t * vocabulary;
    double top = -INFINITY;
    for (std::int64_t v = threadIdx.x; v < vocabulary; v += blockDim.x) {
      top = fmax(top, static_cast<double>(row[v]));
    }
    top = block_max(top);
    double sum = 0;
    for (std::int64_t v = threadIdx.x; v < vocabulary; v += blockDim.x) {
      sum += static_cast<double>(exponential(row[v] - static_cast<Real>(top)));
    }
    sum = block_sum(sum);
    std::int64_t label = labels[t];
    if (label < 0 || label >= vocabulary) {
      leave(fault);
      label = 0;
    }
    total += log(sum) - (static_cast<double>(row[label]) - top);
    __syncthreads();  // the label's logit has been read by all
    for (std::int64_t v = threadIdx.x; v < vocabulary; v += blockDim.x) {
      const Real p = exponential(row[v] - static_cast<Real>(top)) / static_cast<Real>(sum);
      row[v] = v == label ? p - Real(1) : p;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) *loss += total / static_cast<double>(tokens);
}

// Every thread moves 16 bytes at a time; reads that are not written are kept alive by a condition
// that is never true.
__global__ void stream_kernel(const uint4* from, std::int64_t read, uint4* to, std::int64_t written) {
  uint4 kept = {0, 0, 0, 0};
  const std::int64_t both = read < written ? read : written;
  for (std::int64_t i = first_index(); i < both; i += stride()) to[i] = from[i];
  for (std::int64_t i = both + first_index(); i < read; i += stride()) {
    const uint4 x = from[i];
    kept.x ^= x.x;
    kept.y ^= x.y;
    kept.z ^= x.z;
    kept.w ^= x.w;
  }
  for (std::int64_t i = both + first_index(); i < written; i += stride()) to[i] = kept;
  if ((kept.x & kept.y & kept.z & kept.w) == 0xffffffffu && read > both && written > 0) to[0] = kept;
}

__global__ void random_kernel(At to, std::int64_t count, std::uint64_t seed) {
  for (std::int64_t i = first_index(); i < count; i += stride()) {
    std::uint64_t z = seed + 0x9e3779b97f4a7c15ull * static_cast<std::uint64_t>(i + 1);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    store(to, i, static_cast<double>(z >> 11) * 0x1p-52 - 1.0);
  }
}

__global__ void softmax_kernel(At scores, std::int64_t rows, std::int64_t columns, bool causal,
                               std::int64_t rows_of_a_square) {
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const std::int64_t seen =
        causal ? min(columns, r % rows_of_a_square + 1 + columns - rows_of_a_square) : columns;
    double top = -INFINITY;
    for (std::int64_t c = threadIdx.x; c < seen; c += blockDim.x) {
      top = fmax(top, load(scores, r * columns + c, Fault{nullptr, 0}));
    }
    top = block_max(top);
    double sum = 0;
    for (std::int64_t c = threadIdx.x; c < seen; c += blockDim.x) {
      sum += expf(static_cast<float>(load(scores, r * columns + c, Fault{nullptr, 0}) - top));
    }
    sum = block_sum(sum);
    for (std::int64_t c = threadIdx.x; c < columns; c += blockDim.x) {
      const double x = load(scores, r * columns + c, Fault{nullptr, 0});
      store(scores, r * columns + c, c < seen ? expf(static_cast<float>(x - top)) / sum : 0.0);
    }
    __syncthreads();
  }
}

}  // namespace

void move(cudaStream_t s, At from, At to, std::int64_t count, double factor, bool add, Fault fault) {
  if (count > 0) move_kernel<<<blocks_for(count), threads, 0, s>>>(from, to, count, factor, add, fault);
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

// Calls KERNEL<Real> with pointers of that type.
#define STEPCAST_LAUNCH(kernel, grid, ...)             \
  do {                                                 \
    if (wide) {                                        \
      using Real = double;                             \
      kernel<Real><<<grid, threads, 0, s>>>(__VA_ARGS__); \
    } else {                                           \
      using Real = float;                              \
      kernel<Real><<<grid, threads, 0, s>>>(__VA_ARGS__); \
    }                                                  \
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
  STEPCAST_LAUNCH(add_kernel, blocks_for(count), static_cast<Real*>(x),
                  static_cast<const Real*>(y), count);
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

void stream_bytes(cudaStream_t s, const void* from, std::int64_t read, void* to,
                  std::int64_t written) {
  const std::int64_t most = (read > written ? read : written) / 16;
  // Four 16-byte pieces a thread: enough in flight, and few enough blocks to start quickly.
  stream_kernel<<<blocks_for((most + 3) / 4), threads, 0, s>>>(
      static_cast<const uint4*>(from), read / 16, static_cast<uint4*>(to), written / 16);
}
void random_numbers(cudaStream_t s, void* to, std::int64_t count, Type type, std::uint64_t seed) {
  random_kernel<<<blocks_for(count), threads, 0, s>>>(At{to, type, 0}, count, seed);
}
void softmax_rows(cudaStream_t s, void* scores, std::int64_t rows, std::int64_t columns, Type type,
                  bool causal, std::int64_t rows_of_a_square) {
  const auto blocks = static_cast<unsigned>(rows < 65535 ? rows : 65535);
  softmax_kernel<<<blocks, threads, 0, s>>>(At{scores, type, 0}, rows, columns, causal,
                                            rows_of_a_square);
}

}  // namespace stepcast::cuda

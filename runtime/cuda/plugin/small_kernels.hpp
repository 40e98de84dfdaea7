#pragma once
// The launch wrappers of train_kernels.cu and replay_kernels.cu: C++17 and plain types on both
// sides, since nvcc reads the one and g++ as C++20 the other. Errors of a launch are
// cudaGetLastError()'s.

#include <cuda_runtime_api.h>

#include <cstdint>

namespace stepcast::cuda {

// As Dtype (base/units.hpp), which stays out of device code.
enum class Type : int { fp64, fp32, fp16, bf16, int64, int32, int8 };

struct At {  // element `at` of memory of a type
  void* memory;
  Type type;
  std::int64_t at;
};

struct Fault {  // the first to find one leaves its number
  unsigned long long* cell;
  unsigned long long number;
};

struct Factor {
  double number;
  At times;  // memory null: 1
};

struct Adam {
  double rate, beta1, beta2, epsilon, decay, correct1, correct2;
};

void move(cudaStream_t, At from, At to, std::int64_t count, Factor factor, bool add, Fault);
void set(cudaStream_t, At to, std::int64_t count, double value);
void expect(cudaStream_t, At from, std::int64_t count, double least, double most, Fault);
void add_squares(cudaStream_t, At from, std::int64_t count, double* to, Fault);
void square_roots(cudaStream_t, double* x, std::int64_t count);
void clip_coefficient(cudaStream_t, At squares, double max_norm, Fault);
void adamw(cudaStream_t, std::int64_t count, At gradient, At parameter, At first, At second,
           At master, Adam, Fault);
void sgd(cudaStream_t, std::int64_t count, At gradient, At parameter, At momenta, At master,
         double rate, double momentum, Fault);

void add_bias(cudaStream_t, bool wide, void* x, std::int64_t count, const void* bias,
              std::int64_t columns);
void column_sums(cudaStream_t, bool wide, const void* x, std::int64_t rows, std::int64_t columns,
                 void* sums);
void tanh(cudaStream_t, bool wide, void* x, std::int64_t count);
void tanh_gradient(cudaStream_t, bool wide, void* da, const void* a, std::int64_t count);
void scale(cudaStream_t, bool wide, void* x, std::int64_t count, double factor);
void add(cudaStream_t, bool wide, void* x, const void* y, std::int64_t count);
void round(cudaStream_t, bool wide, void* x, std::int64_t count, Type type);
void embed(cudaStream_t, bool wide, const void* table, std::int64_t vocabulary, std::int64_t width,
           const std::int64_t* ids, std::int64_t tokens, void* h, Fault);
void table_gradient(cudaStream_t, bool wide, const void* dh, const std::int64_t* ids,
                    std::int64_t tokens, std::int64_t vocabulary, std::int64_t width, void* table,
                    Fault);
void cross_entropy(cudaStream_t, bool wide, void* logits, const std::int64_t* labels,
                   std::int64_t tokens, std::int64_t vocabulary, double* loss, Fault);
void log_sums(cudaStream_t, bool wide, const void* logits, std::int64_t tokens,
              std::int64_t vocabulary, void* sums);
void cross_entropy_gradient(cudaStream_t, bool wide, void* logits, const void* sums,
                            const std::int64_t* labels, std::int64_t tokens,
                            std::int64_t vocabulary, Fault);

// For replay: reads and writes so many bytes of HBM (multiples of 16) in one pass.
void stream_bytes(cudaStream_t, const void* from, std::int64_t read, void* to,
                  std::int64_t written);
// 2 * count random bytes that are finite numbers in every dtype: bf16 in [-1, 1), whose last bit is
// 0, so that no byte is fp8's NaN.
void random_operands(cudaStream_t, void* to, std::int64_t count, std::uint64_t seed);
// Rows of fp16, bf16 or fp32 scores become their softmax; causal: row r of a square sees columns
// up to r.
void softmax_rows(cudaStream_t, void* scores, std::int64_t rows, std::int64_t columns, Type type,
                  bool causal, std::int64_t rows_of_a_square);

}  // namespace stepcast::cuda

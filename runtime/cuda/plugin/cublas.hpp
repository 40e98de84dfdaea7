#pragma once
// cuBLAS and cuBLASLt, opened where they are, and a handle a device.

#include <cublasLt.h>
#include <cublas_v2.h>

#include <map>
#include <mutex>
#include <string>

#include "runtime/cuda/library.hpp"

namespace stepcast::cuda {

class Cublas {
 public:
  Cublas();  // throws GpuError where it is not found

  // Row-major c[m,n] = a[m,k] b[k,n] (+ c) in float or double; see GpuMath::gemm.
  void gemm(cudaStream_t stream, bool wide, bool a_transposed, bool b_transposed, std::int64_t m,
            std::int64_t n, std::int64_t k, const void* a, const void* b, bool add, void* c);
  std::string version();

 private:
  cublasHandle_t handle();
  void check(cublasStatus_t status, const char* call);

  runtime::Library library_;
  std::mutex mutex_;
  std::map<int, cublasHandle_t> handles_;  // by device
  decltype(&cublasCreate_v2) create_ = nullptr;
  decltype(&cublasSetStream_v2) set_stream_ = nullptr;
  decltype(&cublasSgemm_v2) sgemm_ = nullptr;
  decltype(&cublasDgemm_v2) dgemm_ = nullptr;
  decltype(&cublasGetVersion_v2) get_version_ = nullptr;
};

// A matrix product of one shape, planned once: cuBLASLt's first heuristic for it.
struct LtProduct {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
};

class CublasLt {
 public:
  CublasLt();

  // Row-major C[m,n] = A[m,k] B[k,n], `batch` times, one after another in memory; b_transposed: B
  // is stored [n,k].
  LtProduct plan(Dtype dtype, bool b_transposed, std::int64_t m, std::int64_t n, std::int64_t k,
                 std::int64_t batch);
  void launch(const LtProduct& product, cudaStream_t stream, const void* a, const void* b, void* c,
              void* workspace);

  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

 private:
  cublasLtHandle_t handle();
  void check(cublasStatus_t status, const char* call);

  runtime::Library library_;
  std::mutex mutex_;
  std::map<int, cublasLtHandle_t> handles_;
  decltype(&cublasLtCreate) create_ = nullptr;
  decltype(&cublasLtMatmulDescCreate) operation_create_ = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) operation_set_ = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create_ = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set_ = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create_ = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set_ = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy_ = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic_ = nullptr;
  decltype(&cublasLtMatmul) matmul_ = nullptr;
};

}  // namespace stepcast::cuda

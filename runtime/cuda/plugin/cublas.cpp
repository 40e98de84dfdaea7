#include "runtime/cuda/plugin/cublas.hpp"

#include "runtime/cuda/plugin/check.hpp"

namespace stepcast::cuda {

using runtime::GpuError;
using runtime::Library;

namespace {

// The plugin is built for one major version of CUDA; its cuBLAS comes first.
std::vector<std::string> names(const std::string& stem) {
  return {stem + ".so." + std::to_string(CUDART_VERSION / 1000), stem + ".so"};
}

int device() {
  int current = 0;
  CUDA_CHECK(cudaGetDevice(&current));
  return current;
}

std::string failed(cublasStatus_t status, const char* call) {
  return std::string(call) + ": cuBLAS status " + std::to_string(static_cast<int>(status));
}

}  // namespace

// ---- cuBLAS -------------------------------------------------------------------------------------

Cublas::Cublas() : library_(Library::open(names("libcublas"), "STEPCAST_CUBLAS")) {
  library_.get("cublasCreate_v2", create_);
  library_.get("cublasSetStream_v2", set_stream_);
  library_.get("cublasSgemm_v2", sgemm_);
  library_.get("cublasDgemm_v2", dgemm_);
  library_.get("cublasGetVersion_v2", get_version_);
}

void Cublas::check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) throw GpuError(failed(status, call));
}

cublasHandle_t Cublas::handle() {
  cublasHandle_t& mine = handles_[device()];
  if (mine == nullptr) check(create_(&mine), "cublasCreate");
  return mine;
}

std::string Cublas::version() {
  int version = 0;
  get_version_(nullptr, &version);
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100);
}

// cuBLAS counts columns first: the row-major product is b^T a^T there.
void Cublas::gemm(cudaStream_t stream, bool wide, bool a_transposed, bool b_transposed,
                  std::int64_t m, std::int64_t n, std::int64_t k, const void* a, const void* b,
                  bool add, void* c) {
  const std::lock_guard<std::mutex> lock(mutex_);  // one stream a handle at a time
  const cublasHandle_t h = handle();
  check(set_stream_(h, stream), "cublasSetStream");
  const auto op_b = b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const auto op_a = a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const int rows = static_cast<int>(n);
  const int columns = static_cast<int>(m);
  const int inner = static_cast<int>(k);
  const int lead_b = b_transposed ? inner : rows;
  const int lead_a = a_transposed ? columns : inner;
  if (wide) {
    const double one = 1;
    const double kept = add ? 1 : 0;
    check(dgemm_(h, op_b, op_a, rows, columns, inner, &one, static_cast<const double*>(b), lead_b,
                 static_cast<const double*>(a), lead_a, &kept, static_cast<double*>(c), rows),
          "cublasDgemm");
  } else {
    const float one = 1;
    const float kept = add ? 1 : 0;
    check(sgemm_(h, op_b, op_a, rows, columns, inner, &one, static_cast<const float*>(b), lead_b,
                 static_cast<const float*>(a), lead_a, &kept, static_cast<float*>(c), rows),
          "cublasSgemm");
  }
}

// ---- cuBLASLt -----------------------------------------------------------------------------------

CublasLt::CublasLt() : library_(Library::open(names("libcublasLt"), "STEPCAST_CUBLASLT")) {
  library_.get("cublasLtCreate", create_);
  library_.get("cublasLtMatmulDescCreate", operation_create_);
  library_.get("cublasLtMatmulDescSetAttribute", operation_set_);
  library_.get("cublasLtMatrixLayoutCreate", layout_create_);
  library_.get("cublasLtMatrixLayoutSetAttribute", layout_set_);
  library_.get("cublasLtMatmulPreferenceCreate", preference_create_);
  library_.get("cublasLtMatmulPreferenceSetAttribute", preference_set_);
  library_.get("cublasLtMatmulPreferenceDestroy", preference_destroy_);
  library_.get("cublasLtMatmulAlgoGetHeuristic", heuristic_);
  library_.get("cublasLtMatmul", matmul_);
}

void CublasLt::check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) throw GpuError(failed(status, call));
}

cublasLtHandle_t CublasLt::handle() {
  const std::lock_guard<std::mutex> lock(mutex_);
  cublasLtHandle_t& mine = handles_[device()];
  if (mine == nullptr) check(create_(&mine), "cublasLtCreate");
  return mine;
}

LtProduct CublasLt::plan(Dtype dtype, bool b_transposed, std::int64_t m, std::int64_t n,
                         std::int64_t k, std::int64_t batch) {
  cudaDataType_t type = CUDA_R_32F;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  switch (dtype) {
    case Dtype::fp64:
      type = scale = CUDA_R_64F;
      compute = CUBLAS_COMPUTE_64F;
      break;
    case Dtype::tf32: compute = CUBLAS_COMPUTE_32F_FAST_TF32; break;
    case Dtype::fp16: type = CUDA_R_16F; break;
    case Dtype::bf16: type = CUDA_R_16BF; break;
    case Dtype::fp8: type = CUDA_R_8F_E4M3; break;
    default: break;
  }
  LtProduct p;
  p.compute = compute;
  check(operation_create_(&p.operation, compute, scale), "cublasLtMatmulDescCreate");
  // FP8 has only this form: B transposed in memory, output in bf16.
  const bool fp8 = dtype == Dtype::fp8;
  const cublasOperation_t transposed = CUBLAS_OP_T;
  if (b_transposed || fp8) {
    check(operation_set_(p.operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed)),
          "cublasLtMatmulDescSetAttribute");
  }
  const auto layout = [&](cublasLtMatrixLayout_t& to, cudaDataType_t of, std::int64_t rows,
                          std::int64_t columns) {
    check(layout_create_(&to, of, static_cast<std::uint64_t>(rows),
                         static_cast<std::uint64_t>(columns), rows),
          "cublasLtMatrixLayoutCreate");
    if (batch == 1) return;
    const auto count = static_cast<std::int32_t>(batch);
    const std::int64_t step = rows * columns;
    check(layout_set_(to, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)),
          "cublasLtMatrixLayoutSetAttribute");
    check(layout_set_(to, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof(step)),
          "cublasLtMatrixLayoutSetAttribute");
  };
  // Columns first, so C^T = B^T A^T: cuBLASLt's a is B, its b is A.
  if (b_transposed || fp8) {
    layout(p.a, type, k, n);
  } else {
    layout(p.a, type, n, k);
  }
  layout(p.b, type, k, m);
  layout(p.c, fp8 ? CUDA_R_16BF : type, n, m);

  cublasLtMatmulPreference_t preference = nullptr;
  check(preference_create_(&preference), "cublasLtMatmulPreferenceCreate");
  const std::size_t most = workspace_bytes;
  check(preference_set_(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof(most)),
        "cublasLtMatmulPreferenceSetAttribute");
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  const cublasStatus_t status =
      heuristic_(handle(), p.operation, p.a, p.b, p.c, p.c, preference, 1, &best, &found);
  preference_destroy_(preference);
  if (status != CUBLAS_STATUS_SUCCESS || found == 0) {
    throw GpuError("cuBLASLt has no algorithm for a product of " + std::to_string(m) + " x " +
                   std::to_string(n) + " x " + std::to_string(k) + " in " +
                   std::string(dtype == Dtype::fp8 ? "fp8" : "this dtype") + " on this GPU");
  }
  p.algorithm = best.algo;
  return p;
}

void CublasLt::launch(const LtProduct& p, cudaStream_t stream, const void* a, const void* b,
                      void* c, void* workspace) {
  const double one_wide = 1;
  const double zero_wide = 0;
  const float one = 1;
  const float zero = 0;
  const bool wide = p.compute == CUBLAS_COMPUTE_64F;
  check(matmul_(handle(), p.operation, wide ? static_cast<const void*>(&one_wide) : &one, b, p.a, a,
                p.b, wide ? static_cast<const void*>(&zero_wide) : &zero, c, p.c, c, p.c,
                &p.algorithm, workspace, workspace_bytes, stream),
        "cublasLtMatmul");
}

}  // namespace stepcast::cuda

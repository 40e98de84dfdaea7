#pragma once
// Fused attention by cuDNN's graph API: one SDPA operation, forward or backward (cuDNN 9.13 and
// later have its descriptors).
//
// The operation has no causal mask. A causal kernel works on half of the square, so it is stood for
// by all queries on the first half of the keys: the same products and exponentials by the same
// fused kernels, the label says so. (What is different: the ragged tiles on the diagonal, and half
// the bytes of K and V, which do not bound it.)
//
// Where cuDNN is not found, is older, or has no engine for a shape on this GPU, plan() says why and
// the caller does it otherwise.

#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/kernel.hpp"
#include "runtime/cuda/kernels.hpp"
#include "runtime/cuda/library.hpp"

#if __has_include(<cudnn.h>)
#include <cudnn.h>
#endif

namespace stepcast::cuda {

struct SdpaPlan {
  bool backward = false;
  void* plan = nullptr;  // cudnnBackendDescriptor_t
  std::int64_t workspace = 0;
  // Sizes in bytes of q, k, v, o, statistics.
  std::int64_t queries = 0, keys = 0, statistics = 0;
};

#if __has_include(<cudnn.h>)
class Cudnn {
 public:
  Cudnn();  // throws GpuError

  std::string version() const;
  // Throws GpuError where it cannot.
  SdpaPlan plan(const Kernel& attention);
  // What is read and what is written lie in two memories, each tensor at a multiple of 256 bytes:
  // forward q, k, v and o, statistics; backward q, k, v, o, do, statistics and dq, dk, dv. The
  // workspace follows the results.
  void launch(const SdpaPlan& plan, cudaStream_t stream, std::byte* read, std::byte* written);
  static runtime::GpuKernels::Room room_of(const SdpaPlan& plan);

 private:
  using Descriptor = cudnnBackendDescriptor_t;
  Descriptor make(cudnnBackendDescriptorType_t type, const char* what);
  void set(Descriptor to, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           std::int64_t count, const void* values);
  Descriptor tensor(std::int64_t id, cudnnDataType_t type, const std::vector<std::int64_t>& sizes,
                    bool by_value = false);
  void check(cudnnStatus_t status, const char* call) const;
  cudnnHandle_t handle();

  runtime::Library library_;
  mutable std::mutex mutex_;
  std::map<int, cudnnHandle_t> handles_;
  decltype(&cudnnGetVersion) get_version_ = nullptr;
  decltype(&cudnnCreate) create_ = nullptr;
  decltype(&cudnnSetStream) set_stream_ = nullptr;
  decltype(&cudnnBackendCreateDescriptor) make_ = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) destroy_ = nullptr;
  decltype(&cudnnBackendSetAttribute) set_ = nullptr;
  decltype(&cudnnBackendGetAttribute) get_ = nullptr;
  decltype(&cudnnBackendFinalize) finalize_ = nullptr;
  decltype(&cudnnBackendExecute) execute_ = nullptr;
  decltype(&cudnnGetErrorString) error_string_ = nullptr;
};
#else  // built where its headers are not
class Cudnn {
 public:
  Cudnn() { throw runtime::GpuError("this build is without it"); }
  std::string version() const { return {}; }
  SdpaPlan plan(const Kernel&) { return {}; }
  void launch(const SdpaPlan&, cudaStream_t, std::byte*, std::byte*) {}
  static runtime::GpuKernels::Room room_of(const SdpaPlan&) { return {}; }
};
#endif

}  // namespace stepcast::cuda

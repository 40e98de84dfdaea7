#include "runtime/cuda/plugin/device.hpp"

#include <nvtx3/nvToolsExt.h>

#include <array>

#include "runtime/cuda/plugin/check.hpp"

namespace stepcast::cuda {

using runtime::GpuEvent;
using runtime::GpuStream;

namespace {

cudaEvent_t event_of(GpuEvent* event) { return reinterpret_cast<cudaEvent_t>(event); }

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  CUDA_CHECK(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

}  // namespace

int CudaGpu::count() {
  int devices = 0;
  CUDA_CHECK(cudaGetDeviceCount(&devices));
  return devices;
}

runtime::GpuInfo CudaGpu::info(int device) {
  runtime::GpuInfo info;
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  info.name = properties.name;
  std::array<char, 32> bus{};
  CUDA_CHECK(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device));
  info.bus_id = bus.data();
  info.major = attribute(cudaDevAttrComputeCapabilityMajor, device);
  info.minor = attribute(cudaDevAttrComputeCapabilityMinor, device);
  info.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, device);
  int before = 0;
  CUDA_CHECK(cudaGetDevice(&before));
  CUDA_CHECK(cudaSetDevice(device));
  std::size_t free = 0;
  std::size_t total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  CUDA_CHECK(cudaSetDevice(before));
  info.memory = static_cast<Bytes>(total);
  info.free_memory = static_cast<Bytes>(free);
  return info;
}

void CudaGpu::use(int device) { CUDA_CHECK(cudaSetDevice(device)); }

int CudaGpu::most_urgent() {
  int least = 0;
  int most = 0;
  CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &most));
  return most;
}

GpuStream* CudaGpu::new_stream(int priority) {
  cudaStream_t stream = nullptr;
  CUDA_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority));
  return reinterpret_cast<GpuStream*>(stream);
}
void CudaGpu::end_stream(GpuStream* stream) { CUDA_CHECK(cudaStreamDestroy(stream_of(stream))); }

GpuEvent* CudaGpu::new_event() {
  cudaEvent_t event = nullptr;
  CUDA_CHECK(cudaEventCreate(&event));
  return reinterpret_cast<GpuEvent*>(event);
}
void CudaGpu::end_event(GpuEvent* event) { CUDA_CHECK(cudaEventDestroy(event_of(event))); }
void CudaGpu::record(GpuEvent* event, GpuStream* stream) {
  CUDA_CHECK(cudaEventRecord(event_of(event), stream_of(stream)));
}
void CudaGpu::wait(GpuStream* stream, GpuEvent* event) {
  CUDA_CHECK(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0));
}
bool CudaGpu::done(GpuEvent* event) {
  const cudaError_t code = cudaEventQuery(event_of(event));
  if (code == cudaErrorNotReady) {
    cudaGetLastError();  // not an error: a later check must not see it
    return false;
  }
  check(code, "cudaEventQuery");
  return true;
}
Seconds CudaGpu::between(GpuEvent* begin, GpuEvent* end) {
  float milliseconds = 0;
  CUDA_CHECK(cudaEventElapsedTime(&milliseconds, event_of(begin), event_of(end)));
  return 1e-3 * static_cast<double>(milliseconds);
}

std::byte* CudaGpu::allocate(Bytes size) {
  void* memory = nullptr;
  const std::string call = "cudaMalloc of " + std::to_string(size) + " bytes";
  check(cudaMalloc(&memory, static_cast<std::size_t>(size)), call.c_str());
  return static_cast<std::byte*>(memory);
}
void CudaGpu::release(std::byte* memory) { CUDA_CHECK(cudaFree(memory)); }

std::byte* CudaGpu::allocate_pinned(Bytes size) {
  void* memory = nullptr;
  CUDA_CHECK(cudaHostAlloc(&memory, static_cast<std::size_t>(size), cudaHostAllocPortable));
  return static_cast<std::byte*>(memory);
}
void CudaGpu::release_pinned(std::byte* memory) { CUDA_CHECK(cudaFreeHost(memory)); }

void CudaGpu::fill(GpuStream* stream, std::byte* to, int byte, Bytes size) {
  CUDA_CHECK(cudaMemsetAsync(to, byte, static_cast<std::size_t>(size), stream_of(stream)));
}
void CudaGpu::copy(GpuStream* stream, std::byte* to, const std::byte* from, Bytes size) {
  CUDA_CHECK(cudaMemcpyAsync(to, from, static_cast<std::size_t>(size), cudaMemcpyDefault,
                             stream_of(stream)));
}
void CudaGpu::synchronize(GpuStream* stream) {
  CUDA_CHECK(cudaStreamSynchronize(stream_of(stream)));
}

void CudaGpu::push_range(const char* name) { nvtxRangePushA(name); }
void CudaGpu::pop_range() { nvtxRangePop(); }

}  // namespace stepcast::cuda

#pragma once
// Gpu by the CUDA runtime, which is linked into the plugin and opens the driver itself.

#include "runtime/cuda/gpu.hpp"

namespace stepcast::cuda {

class CudaGpu : public runtime::Gpu {
 public:
  int count() override;
  runtime::GpuInfo info(int device) override;
  void use(int device) override;
  int most_urgent() override;
  runtime::GpuStream* new_stream(int priority) override;
  void end_stream(runtime::GpuStream* stream) override;
  runtime::GpuEvent* new_event() override;
  void end_event(runtime::GpuEvent* event) override;
  void record(runtime::GpuEvent* event, runtime::GpuStream* stream) override;
  void wait(runtime::GpuStream* stream, runtime::GpuEvent* event) override;
  bool done(runtime::GpuEvent* event) override;
  Seconds between(runtime::GpuEvent* begin, runtime::GpuEvent* end) override;
  std::byte* allocate(Bytes size) override;
  void release(std::byte* memory) override;
  std::byte* allocate_pinned(Bytes size) override;
  void release_pinned(std::byte* memory) override;
  void fill(runtime::GpuStream* stream, std::byte* to, int byte, Bytes size) override;
  void copy(runtime::GpuStream* stream, std::byte* to, const std::byte* from, Bytes size) override;
  void synchronize(runtime::GpuStream* stream) override;
  void push_range(const char* name) override;
  void pop_range() override;
};

}  // namespace stepcast::cuda

#pragma once
// Replay on GPUs: every op runs the kernels that its schedule names, in their true shapes on random
// data (kernels.hpp); copies move their bytes; collectives are NCCL's on the true sizes; the lanes
// take the host time of the cost table, since nobody runs Python here. Buffers are really there, so
// a model that does not fit ends with OutOfGpuMemory.
// Tested by tests/unit/cuda/gpu_executor_test.cpp, on the fake.

#include <mutex>
#include <set>
#include <unordered_map>

#include "runtime/cuda/gpu_work.hpp"
#include "runtime/cuda/plugin.hpp"
#include "runtime/replay.hpp"

namespace stepcast::runtime {

class GpuReplay : public GpuWork {
 public:
  GpuReplay(const Schedule& schedule, Durations durations, const GpuTables& tables);
  ~GpuReplay() override;

  bool poisons() const override { return false; }
  void start(int rank, std::byte* const* memory, GpuStream* stream) override;
  void end(int, std::byte* const*, GpuStream*) override {}
  void run(const OpContext& context, GpuStream* stream) override;
  Operands operands(const OpContext& context, GpuStream* stream) override;
  void after(const OpContext&, GpuStream*) override {}
  void done(const OpContext&) override {}
  Seconds host_duration(const OpContext& context) const override;
  std::string summary(int) const override { return {}; }

  // What ran for each kind of kernel: "attention: cuDNN SDPA", sorted. After start().
  std::vector<std::string> labels() const;

 private:
  struct Shape {
    std::size_t operator()(const Kernel& kernel) const;
  };
  struct RankState {
    std::unordered_map<Kernel, GpuKernel*, Shape> kernels;
    std::byte* spare = nullptr;  // for operands whose views are smaller than the tensor
    std::byte* host = nullptr;   // pinned: the other end of copies from and to the host
  };

  const Schedule& schedule_;
  Gpu& gpu_;
  GpuKernels& kernels_;
  Replay costs_;
  std::vector<RankState> ranks_;
  mutable std::mutex mutex_;
  std::set<std::string> labels_;
};

}  // namespace stepcast::runtime

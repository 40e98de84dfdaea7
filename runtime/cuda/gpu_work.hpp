#pragma once
// What the ops of a schedule do on a GPU; the counterpart of Work (runtime/work.hpp), which does
// them at once. Here they are enqueued: run() returns before they are done.
//
//   GpuReplay   kernels of the true shapes (gpu_replay.hpp)
//   GpuTrainer  real numbers (gpu_trainer.hpp)

#include "runtime/cuda/gpu.hpp"
#include "runtime/work.hpp"

namespace stepcast::runtime {

class GpuWork {
 public:
  virtual ~GpuWork() = default;

  // Whether freed memory is filled with poison (device_memory.hpp).
  virtual bool poisons() const = 0;
  // Persistent buffers get their first content, on this stream; `memory` by buffer, null for those
  // that are not there. Called on every rank's own thread, and may take its time.
  virtual void start(int rank, std::byte* const* memory, GpuStream* stream) = 0;
  // Everything is done; the persistent buffers once more.
  virtual void end(int rank, std::byte* const* memory, GpuStream* stream) = 0;

  // compute, copy: enqueues it. storage: does it, on the thread of the rank.
  virtual void run(const OpContext& context, GpuStream* stream) = 0;
  // Where the tensors of a collective lie; what it must do to them before is enqueued.
  virtual Operands operands(const OpContext& context, GpuStream* stream) = 0;
  // The collective has been enqueued: what is to happen to its result.
  virtual void after(const OpContext& context, GpuStream* stream) = 0;
  // The op is done on the GPU.
  virtual void done(const OpContext& context) = 0;

  // How long the lane has with issuing an op, with host work or with storage, at least.
  virtual Seconds host_duration(const OpContext& context) const = 0;

  // After end(): what the other processes are to know of this rank.
  virtual std::string summary(int rank) const = 0;
};

}  // namespace stepcast::runtime

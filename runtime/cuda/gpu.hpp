#pragma once
// What the GPU executor asks of CUDA and NCCL: two small tables of calls, without a header of
// either.
//
//   Gpu              devices, streams, events, memory
//   GpuCollectives   communicators
//
// The tables are filled by the plugin libstepcast_cuda.so (runtime/cuda/plugin/), which opens CUDA,
// cuBLAS, cuDNN and NCCL where they are, so that one program serves a laptop and a GPU node; and by
// a fake (tests/unit/cuda/fake_gpu.hpp), whose streams are queues, so that order, watchdog and
// abort are tested where there is no GPU.
//
// Every call is for the device that the calling thread uses. What fails throws GpuError.

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "runtime/cpu/ring.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast::runtime {

// A call of CUDA, cuBLAS, cuDNN or NCCL failed: "cudaMalloc(2.1 GB): out of memory".
class GpuError : public std::runtime_error {
 public:
  explicit GpuError(const std::string& message) : std::runtime_error(message) {}
};
class OutOfGpuMemory : public GpuError {
 public:
  using GpuError::GpuError;
};

// Handles; what they point to is the table's business.
struct GpuStream;
struct GpuEvent;
struct GpuComm;

struct GpuInfo {
  std::string name;    // "NVIDIA H100 80GB HBM3"
  std::string bus_id;  // "0000:18:00.0": the same in every process of a host
  int major = 0;       // compute capability
  int minor = 0;
  int multiprocessors = 0;
  Bytes memory = 0;
  Bytes free_memory = 0;
};

class Gpu {
 public:
  virtual ~Gpu() = default;

  virtual int count() = 0;
  virtual GpuInfo info(int device) = 0;
  virtual void use(int device) = 0;

  // The most urgent priority that a stream can have (CUDA counts down from 0).
  virtual int most_urgent() = 0;
  virtual GpuStream* new_stream(int priority) = 0;
  virtual void end_stream(GpuStream* stream) = 0;
  virtual GpuEvent* new_event() = 0;
  virtual void end_event(GpuEvent* event) = 0;
  virtual void record(GpuEvent* event, GpuStream* stream) = 0;
  virtual void wait(GpuStream* stream, GpuEvent* event) = 0;
  virtual bool done(GpuEvent* event) = 0;
  // Both must be done.
  virtual Seconds between(GpuEvent* begin, GpuEvent* end) = 0;

  // Throws OutOfGpuMemory.
  virtual std::byte* allocate(Bytes size) = 0;
  virtual void release(std::byte* memory) = 0;
  virtual std::byte* allocate_pinned(Bytes size) = 0;
  virtual void release_pinned(std::byte* memory) = 0;
  virtual void fill(GpuStream* stream, std::byte* to, int byte, Bytes size) = 0;
  // Between any two memories, host and device.
  virtual void copy(GpuStream* stream, std::byte* to, const std::byte* from, Bytes size) = 0;
  // Returns when everything that was issued to the stream is done.
  virtual void synchronize(GpuStream* stream) = 0;

  // A named range of host time, as profilers show it (NVTX).
  virtual void push_range(const char* name) = 0;
  virtual void pop_range() = 0;
};

// What a communicator is made with; below zero is NCCL's own choice.
struct CommOptions {
  std::string name;
  int min_ctas = -1;
  int max_ctas = -1;
};

enum class CommState : std::uint8_t { ready, in_progress, failed };

// Communicators do not block: a call returns at once, and nothing else may be asked of the
// communicator until its state is no longer in_progress.
class GpuCollectives {
 public:
  virtual ~GpuCollectives() = default;

  virtual int version() = 0;  // 21803: NCCL 2.18.3
  virtual std::string unique_id() = 0;
  virtual GpuComm* join(int ranks, const std::string& id, int rank, const CommOptions& options) = 0;
  virtual GpuComm* split(GpuComm* parent, int color, int key, const CommOptions& options) = 0;
  virtual CommState state(GpuComm* comm) = 0;
  virtual std::string error(GpuComm* comm) = 0;  // of a failed one, in words
  // `all.root` and the order of slots count ranks of the communicator.
  virtual void start(GpuComm* comm, GpuStream* stream, const Collective& what,
                     const Operands& operands) = 0;
  virtual void end(GpuComm* comm) noexcept = 0;
  // Ends it whatever it is doing.
  virtual void abort(GpuComm* comm) noexcept = 0;
};

}  // namespace stepcast::runtime

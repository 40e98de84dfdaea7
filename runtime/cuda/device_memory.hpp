#pragma once
// The memory of one GPU rank: a caching allocator with a pool a stream, as PyTorch's has.
//
//   host_order      a freed block is usable again at once, by what its own pool's stream does later
//   after_streams   when those streams have passed the point of the free: an event on each, asked
//                   when memory is wanted (record_stream)
//   after_op        when the op's event is done: the executor says so
//
// A pool takes the smallest free block that fits and is at most a quarter too large; else it asks
// CUDA. Where CUDA has no more, all free blocks are given back and it is asked again. `reserved` is
// what CUDA gave, `peak` what the ops had allocated at once, in host order.
//
// With `poison` a freed block is filled with 0xff (numbers.hpp) just before the next op of its
// pool's stream, the first that could use it again, and not handed out sooner: who still reads it
// then reads NaN, and is named (math.hpp). Not at the free itself: FSDP2's gradients lie in the
// reduce stream's pool and are freed while AdamW has yet to read them on the compute stream, for
// which the reduce stream's next op waits. Bytes that no op touches are then counted but not there,
// so that DeepSpeed's 500 M-element bucket fits a test. Tested by
// tests/unit/cuda/device_memory_test.cpp.

#include <map>
#include <memory>
#include <vector>

#include "runtime/cuda/gpu.hpp"

namespace stepcast::runtime {

class DeviceMemory {
 public:
  struct Block {
    std::byte* bytes = nullptr;
    Bytes size = 0;     // there
    Bytes counted = 0;  // of the buffer it holds now
    StreamIndex pool = 0;
    std::vector<GpuEvent*> passing;  // not reusable before these
  };

  DeviceMemory(const Schedule& schedule, int role, Gpu& gpu, std::vector<GpuStream*> streams,
               bool poison);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void alloc(BufferIndex buffer);
  // The buffer ends. The block is to be given to reuse(); null where there is none.
  Block* free(BufferIndex buffer);
  // The block may be used again when the streams have passed what they were given so far.
  void reuse(Block* block, const std::vector<StreamIndex>& streams);

  // An op is about to be enqueued on this stream.
  void before_op(StreamIndex stream);

  // Where a buffer lies now, views of other buffers included; null where it is not allocated.
  std::byte* at(BufferIndex buffer) const;

  Bytes allocated() const { return allocated_; }
  Bytes peak() const { return peak_; }
  Bytes reserved_peak() const { return reserved_peak_; }
  // By stream: what its pool had reserved at most.
  const std::vector<Bytes>& pool_peaks() const { return pool_peaks_; }

 private:
  Block* take(StreamIndex pool, Bytes size);
  Block* ask(StreamIndex pool, Bytes size);
  void give_back_unused();
  void look_at_passing();
  void usable(Block* block);

  const Schedule& schedule_;
  Gpu& gpu_;
  std::vector<GpuStream*> streams_;
  GpuStream* filling_ = nullptr;
  bool poison_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<std::multimap<Bytes, Block*>> free_;  // by pool, by size
  std::vector<std::vector<Block*>> unfilled_;       // by pool: usable, not yet poisoned
  std::vector<Block*> passing_;
  std::vector<GpuEvent*> idle_events_;
  std::vector<Block*> current_;  // by buffer
  std::vector<Bytes> needed_;    // by buffer
  Bytes allocated_ = 0, peak_ = 0;
  Bytes reserved_ = 0, reserved_peak_ = 0;
  std::vector<Bytes> pool_reserved_, pool_peaks_;
};

}  // namespace stepcast::runtime

#pragma once
// The memory of one rank: a caching allocator whose freed blocks are poisoned.
//
// An alloc hands out a block at once, at host order. A freed block goes back to its pool when the
// schedule's rule says that it may be used again (executor: when the streams have passed that
// point), and is poisoned then; who still reads it reads NaN. Blocks are kept to the end of the
// run, so that a wrong schedule computes nonsense but never touches memory that is not there.
//
// Bytes that no op of the schedule touches are counted but not there: DeepSpeed's bucket has room
// for 500 M elements, whatever the model.
//
// `peak` is what was really allocated: bytes between alloc and free as the host issued them.
// Tested by tests/unit/runtime/executor_test.cpp.

#include <cstddef>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace stepcast::runtime {

struct Block {
  std::unique_ptr<std::byte[]> bytes;
  Bytes size = 0;     // as declared
  Bytes touched = 0;  // of it, what is there
  StreamIndex pool = 0;
};

// By buffer: how far the ops of the schedule reach into it.
std::vector<Bytes> touched_bytes(const Schedule& schedule);

class RankMemory {
 public:
  // `real`: blocks have bytes; otherwise only the accounting takes place.
  RankMemory(const Schedule& schedule, int role, bool real);

  void alloc(BufferIndex buffer);
  // The buffer ends; returns the block for release(), null where there is none.
  Block* free(BufferIndex buffer);
  // The block may be used again: poison it.
  void release(Block* block);

  // Where a buffer lies now, views of other buffers included; null where it is not allocated.
  std::byte* at(BufferIndex buffer) const;

  Bytes allocated() const { return allocated_; }
  Bytes peak() const { return peak_; }
  // The same by stream, each pool at its own peak.
  const std::vector<Bytes>& pool_peaks() const { return pool_peaks_; }

 private:
  Block* take(StreamIndex pool, Bytes size, Bytes touched);

  const Schedule& schedule_;
  bool real_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::map<std::pair<StreamIndex, Bytes>, std::vector<Block*>> cached_;
  std::vector<Block*> current_;  // by buffer
  std::vector<Bytes> touched_;   // by buffer: up to where views reach
  Bytes allocated_ = 0;
  Bytes peak_ = 0;
  std::vector<Bytes> pools_, pool_peaks_;  // by stream
};

}  // namespace stepcast::runtime

#pragma once
// Device memory for what an op computes on its way, one a stream. Ops of a stream run one after
// another, so each starts from the beginning again. It only grows.

#include <algorithm>
#include <vector>

#include "runtime/cuda/math.hpp"

namespace stepcast::runtime {

class Scratch {
 public:
  explicit Scratch(Gpu& gpu) : gpu_(gpu) {}
  ~Scratch() {
    for (const Chunk& chunk : chunks_) gpu_.release(chunk.bytes);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void rewind() {
    chunk_ = 0;
    used_ = 0;
  }
  std::byte* take(Bytes size) {
    size = std::max<Bytes>(round_up(size, 256), 256);
    for (; chunk_ < chunks_.size(); ++chunk_, used_ = 0) {
      if (used_ + size <= chunks_[chunk_].size) break;
    }
    if (chunk_ == chunks_.size()) {
      const Bytes grown = std::max<Bytes>(size, 1 << 20);
      chunks_.push_back({gpu_.allocate(grown), grown});
      used_ = 0;
    }
    used_ += size;
    return chunks_[chunk_].bytes + used_ - size;
  }
  GpuArray array(std::int64_t count, bool wide) { return {take(count * (wide ? 8 : 4)), count}; }

 private:
  struct Chunk {
    std::byte* bytes = nullptr;
    Bytes size = 0;
  };
  Gpu& gpu_;
  std::vector<Chunk> chunks_;
  std::size_t chunk_ = 0;
  Bytes used_ = 0;
};

}  // namespace stepcast::runtime

#include "runtime/cpu/memory.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/numbers.hpp"
#include "sim/schedule/buffers.hpp"

namespace stepcast::runtime {

std::vector<Bytes> touched_bytes(const Schedule& schedule) {
  std::vector<Bytes> touched(schedule.buffers.size(), 0);
  for (const View& view : schedule.views) {
    Bytes end = view.offset + view.bytes;
    for (BufferIndex b = view.buffer; b >= 0;
         b = schedule.buffers[static_cast<std::size_t>(b)].view_of) {
      const auto at = static_cast<std::size_t>(b);
      touched[at] = std::max(touched[at], end);
      end += schedule.buffers[at].view_offset;
    }
  }
  // Ranks have different parts of these.
  for (const BufferLayout& layout : schedule.layouts) {
    const auto at = static_cast<std::size_t>(layout.buffer);
    touched[at] = schedule.buffers[at].bytes;
  }
  return touched;
}

RankMemory::RankMemory(const Schedule& schedule, int role, bool real)
    : schedule_(schedule),
      real_(real),
      current_(schedule.buffers.size(), nullptr),
      touched_(touched_bytes(schedule)),
      pools_(std::max<std::size_t>(schedule.streams.size(), 1), 0),
      pool_peaks_(pools_) {
  const std::vector<bool> held = persistent_of_role(schedule, role);
  for (std::size_t b = 0; b < held.size(); ++b) {
    if (held[b]) alloc(static_cast<BufferIndex>(b));
  }
}

Block* RankMemory::take(StreamIndex pool, Bytes size, Bytes touched) {
  std::vector<Block*>& cached = cached_[{pool, touched}];
  if (!cached.empty()) {
    Block* block = cached.back();
    cached.pop_back();
    return block;
  }
  auto block = std::make_unique<Block>();
  block->size = size;
  block->touched = touched;
  block->pool = pool;
  if (real_) {
    const auto count = static_cast<std::size_t>(std::max<Bytes>(touched, 1));
    block->bytes = std::make_unique<std::byte[]>(count);
    std::memset(block->bytes.get(), poison_byte, count);
  }
  blocks_.push_back(std::move(block));
  return blocks_.back().get();
}

void RankMemory::alloc(BufferIndex buffer) {
  const Buffer& declared = schedule_.buffers[static_cast<std::size_t>(buffer)];
  if (declared.view_of >= 0) return;
  Block*& mine = current_[static_cast<std::size_t>(buffer)];
  if (mine != nullptr) {
    throw std::runtime_error("buffer " + declared.name.str() + " is allocated twice");
  }
  mine = take(declared.pool, declared.bytes, touched_[static_cast<std::size_t>(buffer)]);
  allocated_ += declared.bytes;
  peak_ = std::max(peak_, allocated_);
  const auto pool = static_cast<std::size_t>(declared.pool);
  pools_[pool] += declared.bytes;
  pool_peaks_[pool] = std::max(pool_peaks_[pool], pools_[pool]);
}

Block* RankMemory::free(BufferIndex buffer) {
  const Buffer& declared = schedule_.buffers[static_cast<std::size_t>(buffer)];
  if (declared.view_of >= 0) return nullptr;
  Block* block = std::exchange(current_[static_cast<std::size_t>(buffer)], nullptr);
  if (block == nullptr) {
    throw std::runtime_error("buffer " + declared.name.str() + " is freed but not allocated");
  }
  allocated_ -= declared.bytes;
  pools_[static_cast<std::size_t>(declared.pool)] -= declared.bytes;
  return block;
}

void RankMemory::release(Block* block) {
  if (real_) std::memset(block->bytes.get(), poison_byte, static_cast<std::size_t>(block->touched));
  cached_[{block->pool, block->touched}].push_back(block);
}

std::byte* RankMemory::at(BufferIndex buffer) const {
  Bytes offset = 0;
  while (schedule_.buffers[static_cast<std::size_t>(buffer)].view_of >= 0) {
    offset += schedule_.buffers[static_cast<std::size_t>(buffer)].view_offset;
    buffer = schedule_.buffers[static_cast<std::size_t>(buffer)].view_of;
  }
  const Block* block = current_[static_cast<std::size_t>(buffer)];
  return block == nullptr || !real_ ? nullptr : block->bytes.get() + offset;
}

}  // namespace stepcast::runtime

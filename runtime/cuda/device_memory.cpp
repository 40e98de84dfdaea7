#include "runtime/cuda/device_memory.hpp"

#include <algorithm>

#include "runtime/cpu/memory.hpp"
#include "runtime/numbers.hpp"
#include "sim/schedule/buffers.hpp"

namespace stepcast::runtime {
namespace {

constexpr Bytes rounding = 512;  // as CUDA's own allocations

}  // namespace

DeviceMemory::DeviceMemory(const Schedule& schedule, int role, Gpu& gpu,
                           std::vector<GpuStream*> streams, bool poison)
    : schedule_(schedule),
      gpu_(gpu),
      streams_(std::move(streams)),
      poison_(poison),
      free_(schedule.streams.size()),
      unfilled_(schedule.streams.size()),
      current_(schedule.buffers.size(), nullptr),
      pool_reserved_(schedule.streams.size(), 0),
      pool_peaks_(schedule.streams.size(), 0) {
  if (poison) filling_ = gpu_.new_stream(0);
  needed_ = poison ? touched_bytes(schedule) : std::vector<Bytes>(schedule.buffers.size());
  for (std::size_t b = 0; b < needed_.size(); ++b) {
    if (!poison) needed_[b] = schedule.buffers[b].bytes;
  }
  const std::vector<bool> mine = persistent_of_role(schedule, role);
  for (std::size_t b = 0; b < mine.size(); ++b) {
    if (mine[b]) alloc(static_cast<BufferIndex>(b));
  }
}

DeviceMemory::~DeviceMemory() {
  for (const auto& block : blocks_) {
    gpu_.release(block->bytes);
    for (GpuEvent* event : block->passing) gpu_.end_event(event);
  }
  for (GpuEvent* event : idle_events_) gpu_.end_event(event);
  if (filling_ != nullptr) gpu_.end_stream(filling_);
}

std::byte* DeviceMemory::at(BufferIndex buffer) const {
  Bytes offset = 0;
  for (;;) {
    const Buffer& b = schedule_.buffers[static_cast<std::size_t>(buffer)];
    if (b.view_of < 0) break;
    offset += b.view_offset;
    buffer = b.view_of;
  }
  const Block* block = current_[static_cast<std::size_t>(buffer)];
  return block == nullptr ? nullptr : block->bytes + offset;
}

void DeviceMemory::alloc(BufferIndex buffer) {
  const auto at = static_cast<std::size_t>(buffer);
  const Buffer& b = schedule_.buffers[at];
  STEPCAST_ASSERT(current_[at] == nullptr, "a buffer is allocated once");
  if (!passing_.empty()) look_at_passing();
  Block* block = take(b.pool, std::max<Bytes>(round_up(needed_[at], rounding), rounding));
  block->counted = b.bytes;
  current_[at] = block;
  allocated_ += b.bytes;
  peak_ = std::max(peak_, allocated_);
}

DeviceMemory::Block* DeviceMemory::free(BufferIndex buffer) {
  Block*& current = current_[static_cast<std::size_t>(buffer)];
  Block* block = current;
  current = nullptr;
  if (block != nullptr) allocated_ -= block->counted;
  return block;
}

void DeviceMemory::reuse(Block* block, const std::vector<StreamIndex>& streams) {
  for (const StreamIndex stream : streams) {
    if (stream == block->pool) continue;  // in its own stream's order
    GpuEvent* event = nullptr;
    if (idle_events_.empty()) {
      event = gpu_.new_event();
    } else {
      event = idle_events_.back();
      idle_events_.pop_back();
    }
    gpu_.record(event, streams_[static_cast<std::size_t>(stream)]);
    block->passing.push_back(event);
  }
  if (block->passing.empty()) {
    usable(block);
  } else {
    passing_.push_back(block);
  }
}

void DeviceMemory::usable(Block* block) {
  const auto pool = static_cast<std::size_t>(block->pool);
  if (poison_) {
    unfilled_[pool].push_back(block);
  } else {
    free_[pool].emplace(block->size, block);
  }
}

void DeviceMemory::before_op(StreamIndex stream) {
  if (!poison_) return;
  const auto pool = static_cast<std::size_t>(stream);
  for (Block* block : unfilled_[pool]) {
    gpu_.fill(streams_[pool], block->bytes, poison_byte, block->size);
    free_[pool].emplace(block->size, block);
  }
  unfilled_[pool].clear();
}

void DeviceMemory::look_at_passing() {
  for (std::size_t i = passing_.size(); i-- > 0;) {
    Block* block = passing_[i];
    while (!block->passing.empty() && gpu_.done(block->passing.back())) {
      idle_events_.push_back(block->passing.back());
      block->passing.pop_back();
    }
    if (!block->passing.empty()) continue;
    passing_.erase(passing_.begin() + static_cast<std::ptrdiff_t>(i));
    usable(block);
  }
}

DeviceMemory::Block* DeviceMemory::take(StreamIndex pool, Bytes size) {
  auto& list = free_[static_cast<std::size_t>(pool)];
  const auto found = list.lower_bound(size);
  if (found != list.end() && found->first <= size + size / 4) {
    Block* block = found->second;
    list.erase(found);
    return block;
  }
  try {
    return ask(pool, size);
  } catch (const OutOfGpuMemory&) {
    give_back_unused();
    return ask(pool, size);
  }
}

DeviceMemory::Block* DeviceMemory::ask(StreamIndex pool, Bytes size) {
  std::byte* bytes = gpu_.allocate(size);
  blocks_.push_back(std::make_unique<Block>(Block{bytes, size, 0, pool, {}}));
  const auto p = static_cast<std::size_t>(pool);
  reserved_ += size;
  reserved_peak_ = std::max(reserved_peak_, reserved_);
  pool_reserved_[p] += size;
  pool_peaks_[p] = std::max(pool_peaks_[p], pool_reserved_[p]);
  if (poison_) {  // before anything can use it, on whatever stream
    gpu_.fill(filling_, bytes, poison_byte, size);
    gpu_.synchronize(filling_);
  }
  return blocks_.back().get();
}

// Freeing waits for the whole device in CUDA, so what still runs is done before.
void DeviceMemory::give_back_unused() {
  for (GpuStream* stream : streams_) gpu_.synchronize(stream);
  look_at_passing();
  for (std::size_t s = 0; s < unfilled_.size(); ++s) before_op(static_cast<StreamIndex>(s));
  for (auto& pool : free_) {
    for (const auto& [size, block] : pool) {
      gpu_.release(block->bytes);
      reserved_ -= size;
      pool_reserved_[static_cast<std::size_t>(block->pool)] -= size;
      const Block* ended = block;
      blocks_.erase(std::find_if(blocks_.begin(), blocks_.end(),
                                 [&](const auto& each) { return each.get() == ended; }));
    }
    pool.clear();
  }
}

}  // namespace stepcast::runtime

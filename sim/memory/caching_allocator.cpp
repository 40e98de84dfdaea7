#include "sim/memory/caching_allocator.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace stepcast {
namespace {

Bytes segment_bytes(Bytes size) {
  if (size <= small_size) return small_segment;
  return size < large_request ? large_segment : round_up(size, small_segment);
}

}  // namespace

std::string_view to_string(AllocatorAction action) {
  switch (action) {
    case AllocatorAction::alloc: return "alloc";
    case AllocatorAction::free_requested: return "free_requested";
    case AllocatorAction::free_completed: return "free_completed";
    case AllocatorAction::segment_alloc: return "segment_alloc";
    case AllocatorAction::segment_free: return "segment_free";
    case AllocatorAction::segment_map: return "segment_map";
    case AllocatorAction::segment_unmap: return "segment_unmap";
    case AllocatorAction::out_of_memory: return "oom";
  }
  return "";
}

CachingAllocator::Outcome CachingAllocator::allocate(Bytes bytes, StreamIndex stream, Seconds now,
                                                     std::int32_t tag) {
  STEPCAST_ASSERT(bytes >= 0, "a request of negative size");
  now_ = now;
  query_events(now);
  if (bytes == 0) return {};
  const Bytes size = round_up(bytes, allocator_rounding);
  const bool small = size <= small_size;
  Pool& from = pool(stream, small);
  Outcome outcome;
  const auto segment = [&] { return new_segment(from, size, stream, small); };
  outcome.block = best_fit(from, size);
  if (outcome.block < 0) outcome.block = segment();
  if (outcome.block < 0 && release_oversized(from, size)) outcome.block = segment();
  if (outcome.block < 0) {
    release_cached();
    outcome.retried = true;
    ++retries_;
    // What waited for other streams is free now and may do; else the device has room again.
    outcome.block = best_fit(from, size);
    if (outcome.block < 0) outcome.block = segment();
  }
  if (outcome.block < 0) {
    if (record_) events_.push_back({AllocatorAction::out_of_memory, 0, bytes, stream, now, tag});
    return outcome;
  }
  const Bytes rest = at(outcome.block).size - size;
  if (should_split(segment_of(at(outcome.block)), size, rest)) {
    split(outcome.block, size, State::free);
  }
  Block& block = at(outcome.block);
  block.state = State::allocated;
  block.requested = bytes;
  block.tag = tag;
  allocated_ += block.size;
  record(AllocatorAction::alloc, block, bytes);
  return outcome;
}

void CachingAllocator::free(std::int32_t index, Seconds now, bool recorded, Seconds reusable) {
  Block& block = at(index);
  STEPCAST_ASSERT(block.state == State::allocated, "a block freed twice");
  now_ = now;
  allocated_ -= block.size;
  waiting_ += block.size;
  block.state = State::waiting;
  record(AllocatorAction::free_requested, block, block.requested);
  if (recorded) {
    pending_.insert({reusable, index});
  } else {
    complete(index);
  }
}

Bytes CachingAllocator::reserved(StreamIndex stream) const {
  Bytes sum = 0;
  for (const Segment& segment : segments_) {
    if (segment.alive && segment.stream == stream) sum += segment.size;
  }
  return sum;
}

void CachingAllocator::record(AllocatorAction action, const Block& block, Bytes bytes) {
  if (!record_) return;
  events_.push_back({action, block.address, bytes, segment_of(block).stream, now_, block.tag});
}

// ---- Blocks -------------------------------------------------------------------------------------

std::int32_t CachingAllocator::new_block(const Block& block) {
  if (unused_.empty()) {
    blocks_.push_back(block);
    return static_cast<std::int32_t>(blocks_.size()) - 1;
  }
  const std::int32_t index = unused_.back();
  unused_.pop_back();
  at(index) = block;
  return index;
}

// Takes the block out of the pool; -1 where none is large enough.
std::int32_t CachingAllocator::best_fit(Pool& from, Bytes size) {
  const auto found = from.free.lower_bound({size, 0, -1});
  if (found == from.free.end()) return -1;
  if (options_.max_split_size) {
    const Bytes most = *options_.max_split_size;
    const Bytes has = std::get<0>(*found);
    if (size < most && has >= most) return -1;                   // it would never be split
    if (size >= most && has >= size + large_segment) return -1;  // too much of it wasted
  }
  const std::int32_t block = std::get<2>(*found);
  from.free.erase(found);
  return block;
}

std::int32_t CachingAllocator::new_segment(Pool& from, Bytes size, StreamIndex stream, bool small) {
  if (options_.expandable_segments) return extend(from, size, stream, small);
  const Bytes bytes = segment_bytes(size);
  if (!room_for(bytes)) return -1;
  Segment segment;
  segment.address = next_address_;
  segment.size = bytes;
  segment.stream = stream;
  segment.small = small;
  next_address_ += bytes;
  Block block;
  block.address = segment.address;
  block.size = bytes;
  block.segment = static_cast<std::int32_t>(segments_.size());
  const std::int32_t index = new_block(block);
  segment.first = index;
  segments_.push_back(segment);
  reserved_ += bytes;
  ++driver_calls_;
  record(AllocatorAction::segment_alloc, at(index), bytes);
  return index;
}

bool CachingAllocator::should_split(const Segment& segment, Bytes size, Bytes rest) const {
  if (segment.small || segment.expandable) return rest >= allocator_rounding;
  if (options_.max_split_size && size >= *options_.max_split_size) return false;
  return rest > small_size;
}

// The block keeps its first `size` bytes; the rest goes to the pool, as free or as unmapped.
void CachingAllocator::split(std::int32_t index, Bytes size, State rest_state) {
  Block rest = at(index);
  rest.address += size;
  rest.size -= size;
  rest.previous = index;
  rest.state = rest_state;
  rest.requested = 0;
  rest.tag = -1;
  const std::int32_t second = new_block(rest);
  if (rest.next >= 0) at(rest.next).previous = second;
  at(index).next = second;
  at(index).size = size;
  Pool& back = pool_of(rest);
  (rest_state == State::free ? back.free : back.unmapped).insert(key_of(rest, second));
}

// The next block ends; neither may be in a pool.
void CachingAllocator::merge_with_next(std::int32_t index) {
  Block& block = at(index);
  const std::int32_t gone = block.next;
  block.size += at(gone).size;
  block.next = at(gone).next;
  if (block.next >= 0) at(block.next).previous = index;
  unused_.push_back(gone);
}

// Back into the pool, merged with free neighbours. The block that it is now part of.
std::int32_t CachingAllocator::put_back(std::int32_t index) {
  Pool& back = pool_of(at(index));
  at(index).state = State::free;
  at(index).requested = 0;
  at(index).tag = -1;
  const std::int32_t next = at(index).next;
  if (next >= 0 && at(next).state == State::free) {
    back.free.erase(key_of(at(next), next));
    merge_with_next(index);
  }
  const std::int32_t previous = at(index).previous;
  if (previous >= 0 && at(previous).state == State::free) {
    back.free.erase(key_of(at(previous), previous));
    merge_with_next(previous);
    index = previous;
  }
  back.free.insert(key_of(at(index), index));
  return index;
}

void CachingAllocator::complete(std::int32_t index) {
  waiting_ -= at(index).size;
  record(AllocatorAction::free_completed, at(index), at(index).requested);
  put_back(index);
}

void CachingAllocator::query_events(Seconds now) {
  while (!pending_.empty() && pending_.begin()->reusable <= now) {
    const std::int32_t block = pending_.begin()->block;
    pending_.erase(pending_.begin());
    complete(block);
  }
}

// ---- Over the limit -----------------------------------------------------------------------------

void CachingAllocator::release_segment(Pool& from, std::int32_t index) {
  Segment& segment = segment_of(at(index));
  ++driver_calls_;
  record(AllocatorAction::segment_free, at(index), segment.size);
  from.free.erase(key_of(at(index), index));
  reserved_ -= segment.size;
  segment.alive = false;
  segment.first = -1;
  unused_.push_back(index);
}

// With max_split_size: first the whole blocks above it, the smallest that will do, else the largest
// until there is enough.
bool CachingAllocator::release_oversized(Pool& from, Bytes size) {
  if (!options_.max_split_size || options_.expandable_segments) return false;
  const Bytes wanted = std::max(size, *options_.max_split_size);
  const auto whole = [&](std::int32_t index) {
    return at(index).previous < 0 && at(index).next < 0;
  };
  const auto one = from.free.lower_bound({wanted, 0, -1});
  if (one != from.free.end()) {
    const std::int32_t index = std::get<2>(*one);
    if (!whole(index)) return false;
    release_segment(from, index);
    return true;
  }
  Bytes released = 0;
  while (released < wanted && !from.free.empty()) {
    const std::int32_t index = std::get<2>(*from.free.rbegin());
    if (at(index).size < *options_.max_split_size || !whole(index)) break;
    released += at(index).size;
    release_segment(from, index);
  }
  return released >= wanted;
}

// Waits for the device, so nothing is pending any more; then every segment that is free as a whole.
void CachingAllocator::release_cached() {
  while (!pending_.empty()) {
    const std::int32_t block = pending_.begin()->block;
    pending_.erase(pending_.begin());
    complete(block);
  }
  for (auto& [key, each] : pools_) {
    const std::vector<Key> keys(each.free.begin(), each.free.end());
    for (const Key& free : keys) {
      const std::int32_t index = std::get<2>(free);
      const Block& block = at(index);
      if (segment_of(block).expandable) {
        unmap(each, index);
      } else if (block.previous < 0 && block.next < 0) {
        release_segment(each, index);
      }
    }
  }
}

}  // namespace stepcast

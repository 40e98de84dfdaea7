// Expandable segments: a pool is one range of addresses, larger than the device; pages of it (2 MiB
// in the small pool, 20 MiB in the large one) are mapped as requests need them and unmapped when
// the cache is freed.
//
//   | allocated | free | allocated | unmapped ... |
//
// A request that no free block serves takes the lowest room: unmapped addresses, together with a
// free block right before them, so that the tail of the range is used up instead of left behind.
// Example: 30 MiB map two pages (40 MiB); then 25 MiB find 10 MiB free at the tail and map one page
// more (20 MiB) instead of a segment of 26 MiB.

#include <algorithm>

#include "base/error.hpp"
#include "sim/memory/caching_allocator.hpp"

namespace stepcast {
namespace {

constexpr Bytes address_range = Bytes{1} << 42;  // beyond any device

}  // namespace

// A mapped block of at least `size` that is in no pool; -1 where the device has no room.
std::int32_t CachingAllocator::extend(Pool& from, Bytes size, StreamIndex stream, bool small) {
  if (from.expandable < 0) {
    Segment segment;
    segment.address = next_address_;
    segment.stream = stream;
    segment.small = small;
    segment.expandable = true;
    next_address_ += address_range;
    Block block;
    block.address = segment.address;
    block.size = address_range;
    block.segment = from.expandable = static_cast<std::int32_t>(segments_.size());
    block.state = State::unmapped;
    segment.first = new_block(block);
    from.unmapped.insert(key_of(block, segment.first));
    segments_.push_back(segment);
  }
  std::int32_t index = room_in(from, size);
  if (index < 0) return -1;
  if (at(index).state == State::unmapped) {
    if (!map(from, index, std::min(size, at(index).size))) return -1;
    index = join_neighbours(index);
  }
  while (at(index).size < size) {
    const std::int32_t next = at(index).next;
    const Bytes missing = std::min(size - at(index).size, at(next).size);
    if (!map(from, next, missing)) return -1;
    index = join_neighbours(next);
  }
  from.free.erase(key_of(at(index), index));
  return index;
}

// The first block of a run, free or unmapped, that has `size` bytes.
std::int32_t CachingAllocator::room_in(Pool& from, Bytes size) {
  const auto usable = [&](std::int32_t index) {
    return index >= 0 && (at(index).state == State::free || at(index).state == State::unmapped);
  };
  for (const Key& key : from.unmapped) {
    std::int32_t first = std::get<2>(key);
    if (usable(at(first).previous)) first = at(first).previous;
    Bytes bytes = 0;
    for (std::int32_t i = first; bytes < size && usable(i); i = at(i).next) bytes += at(i).size;
    if (bytes >= size) return first;
  }
  return -1;
}

// Maps the pages that the first `size` bytes of an unmapped block touch; they become a free block.
bool CachingAllocator::map(Pool& from, std::int32_t index, Bytes size) {
  Segment& segment = segment_of(at(index));
  const Bytes page = segment.small ? small_segment : large_segment;
  const Bytes bytes = std::min(round_up(size, page), at(index).size);
  if (!room_for(bytes)) return false;
  from.unmapped.erase(key_of(at(index), index));
  if (at(index).size > bytes) split(index, bytes, State::unmapped);
  at(index).state = State::free;
  from.free.insert(key_of(at(index), index));
  segment.size += bytes;
  reserved_ += bytes;
  ++driver_calls_;
  record(AllocatorAction::segment_map, at(index), bytes);
  return true;
}

std::int32_t CachingAllocator::join_neighbours(std::int32_t index) {
  pool_of(at(index)).free.erase(key_of(at(index), index));
  return put_back(index);
}

// The whole pages within a free block; what is left of it on both sides stays free.
void CachingAllocator::unmap(Pool& from, std::int32_t index) {
  Segment& segment = segment_of(at(index));
  const Bytes page = segment.small ? small_segment : large_segment;
  const std::int64_t begin = at(index).address - segment.address;
  const std::int64_t end = begin + at(index).size;
  const std::int64_t first = round_up(begin, page);
  const std::int64_t last = end / page * page;
  if (last <= first) return;
  from.free.erase(key_of(at(index), index));
  if (end > last) split(index, last - begin, State::free);
  std::int32_t gone = index;
  if (first > begin) {
    split(index, first - begin, State::free);
    gone = at(index).next;
    from.free.erase(key_of(at(gone), gone));
    from.free.insert(key_of(at(index), index));
  }
  at(gone).state = State::unmapped;
  segment.size -= last - first;
  reserved_ -= last - first;
  ++driver_calls_;
  record(AllocatorAction::segment_unmap, at(gone), last - first);
  // Unmapped neighbours are one room again.
  const auto unmapped = [&](std::int32_t other) {
    return other >= 0 && at(other).state == State::unmapped;
  };
  if (unmapped(at(gone).next)) {
    from.unmapped.erase(key_of(at(at(gone).next), at(gone).next));
    merge_with_next(gone);
  }
  if (unmapped(at(gone).previous)) {
    const std::int32_t before = at(gone).previous;
    from.unmapped.erase(key_of(at(before), before));
    merge_with_next(before);
    gone = before;
  }
  from.unmapped.insert(key_of(at(gone), gone));
}

}  // namespace stepcast

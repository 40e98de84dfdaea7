#pragma once
// PyTorch's CUDACachingAllocator, by its rules and without a GPU: what it keeps reserved beyond
// what the tensors take.
//
//   size            rounded up to 512 B
//   pool            one a stream, and within it small (<= 1 MiB) and large
//   segment         what cudaMalloc is asked for: 2 MiB for small, 20 MiB below 10 MiB, above that
//                   the size rounded up to 2 MiB
//   which block     the smallest free one of the pool that is large enough; equal ones by address
//   split           the rest stays free where it is worth it: small from 512 B on, large above
//                   1 MiB; freed neighbours merge again
//   record_stream   a freed block that other streams still use waits until an event query, made at
//                   the next allocation, finds them past the free
//   over the limit  cached segments are freed after the device is synchronised, then cudaMalloc is
//                   tried again (a retry); fails that, the process is out of memory
//
// Example: 100 KB reserve 2 MiB; 3 MiB reserve 20 MiB; 11 MiB reserve 12 MiB. Freed, they are
// cached: the next 100 KB of the same stream cost nothing, those of another stream 2 MiB more.
//
// PYTORCH_CUDA_ALLOC_CONF: max_split_size_mb (blocks above it are never split, and only a request
// of about their size takes them) and expandable_segments (a pool is one range of addresses whose
// pages are mapped as they are needed, so nothing is lost between segments; expandable.cpp).
// garbage_collection_threshold and roundup_power2_divisions are not modelled.
//
// Source: c10/cuda/CUDACachingAllocator.cpp (2.x), docs/sources.md. Cost: a logarithm of the number
// of free blocks a call. Tested by tests/unit/memory/caching_allocator_test.cpp.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace stepcast {

inline constexpr Bytes allocator_rounding = 512;
inline constexpr Bytes small_size = mib;          // the largest that goes to the small pool
inline constexpr Bytes small_segment = 2 * mib;   // also the rounding of large segments
inline constexpr Bytes large_segment = 20 * mib;  // of requests below ...
inline constexpr Bytes large_request = 10 * mib;  // ... this

struct AllocatorOptions {
  bool expandable_segments = false;
  std::optional<Bytes> max_split_size;  // at least large_segment
  Bytes capacity = 0;                   // for segments; 0: no limit
};

// What PyTorch's memory history records (memory_snapshot.hpp).
enum class AllocatorAction : std::uint8_t {
  alloc,
  free_requested,
  free_completed,
  segment_alloc,
  segment_free,
  segment_map,    // expandable segments: pages of them
  segment_unmap,  //
  out_of_memory,
};
std::string_view to_string(AllocatorAction action);  // as PyTorch spells it

struct AllocatorEvent {
  AllocatorAction action = AllocatorAction::alloc;
  std::int64_t address = 0;
  Bytes bytes = 0;
  StreamIndex stream = 0;
  Seconds time = 0;
  std::int32_t tag = -1;  // the caller's, of alloc; of free that of the block
};

class CachingAllocator {
 public:
  enum class State : std::uint8_t { free, allocated, waiting, unmapped };
  struct Block {
    std::int64_t address = 0;
    Bytes size = 0;
    Bytes requested = 0;
    std::int32_t segment = -1;
    std::int32_t previous = -1, next = -1;  // neighbours within the segment
    std::int32_t tag = -1;
    State state = State::free;
  };
  struct Segment {
    std::int64_t address = 0;
    Bytes size = 0;  // of an expandable one: mapped
    StreamIndex stream = 0;
    bool small = false;
    bool expandable = false;
    bool alive = true;
    std::int32_t first = -1;  // block
  };
  struct Outcome {
    std::int32_t block = -1;  // -1: out of memory
    bool retried = false;     // the cache was freed and the device synchronised
  };

  explicit CachingAllocator(const AllocatorOptions& options, bool record = false)
      : options_(options), record_(record) {}

  // At host time `now`. `bytes` 0 is no block and costs nothing (PyTorch's null pointer): block -1
  // without being out of memory, see Outcome of a request above 0.
  Outcome allocate(Bytes bytes, StreamIndex stream, Seconds now, std::int32_t tag = -1);

  // Reusable from `reusable` on; at once when that is not after `now` and `recorded` is false. A
  // recorded block (record_stream) comes back no earlier than the next allocation's event query.
  void free(std::int32_t block, Seconds now, bool recorded = false, Seconds reusable = 0);

  Bytes allocated() const { return allocated_; }  // in use by tensors, rounded
  Bytes waiting() const { return waiting_; }      // freed, but another stream has not passed
  Bytes active() const { return allocated_ + waiting_; }
  Bytes reserved() const { return reserved_; }
  Bytes reserved(StreamIndex stream) const;
  int retries() const { return retries_; }
  // cudaMalloc and cudaFree so far (of expandable segments, cuMemMap and cuMemUnmap).
  int driver_calls() const { return driver_calls_; }

  const std::vector<Block>& blocks() const { return blocks_; }
  const std::vector<Segment>& segments() const { return segments_; }
  const std::vector<AllocatorEvent>& events() const { return events_; }
  const Block& block(std::int32_t index) const { return blocks_[static_cast<std::size_t>(index)]; }

 private:
  using Key = std::tuple<Bytes, std::int64_t, std::int32_t>;  // size, address, block
  struct Pool {
    std::set<Key> free;
    std::set<Key> unmapped;        // expandable: room in the address range
    std::int32_t expandable = -1;  // segment
  };
  struct Pending {
    Seconds reusable = 0;
    std::int32_t block = -1;
    bool operator<(const Pending& other) const {
      return std::tie(reusable, block) < std::tie(other.reusable, other.block);
    }
  };

  Block& at(std::int32_t index) { return blocks_[static_cast<std::size_t>(index)]; }
  Segment& segment_of(const Block& block) {
    return segments_[static_cast<std::size_t>(block.segment)];
  }
  Pool& pool(StreamIndex stream, bool small) { return pools_[{stream, small}]; }
  Pool& pool_of(const Block& block) {
    const Segment& segment = segment_of(block);
    return pool(segment.stream, segment.small);
  }
  static Key key_of(const Block& block, std::int32_t index) {
    return {block.size, block.address, index};
  }

  std::int32_t new_block(const Block& block);
  std::int32_t best_fit(Pool& pool, Bytes size);
  std::int32_t new_segment(Pool& pool, Bytes size, StreamIndex stream, bool small);
  bool should_split(const Segment& segment, Bytes size, Bytes rest) const;
  void split(std::int32_t block, Bytes size, State rest);
  void merge_with_next(std::int32_t block);
  std::int32_t put_back(std::int32_t block);
  void complete(std::int32_t block);
  void query_events(Seconds now);
  bool release_oversized(Pool& pool, Bytes size);
  void release_cached();
  void release_segment(Pool& pool, std::int32_t block);
  bool room_for(Bytes bytes) const {
    return options_.capacity == 0 || reserved_ + bytes <= options_.capacity;
  }
  void record(AllocatorAction action, const Block& block, Bytes bytes);

  // expandable.cpp
  std::int32_t extend(Pool& pool, Bytes size, StreamIndex stream, bool small);
  std::int32_t room_in(Pool& pool, Bytes size);
  bool map(Pool& pool, std::int32_t block, Bytes size);
  void unmap(Pool& pool, std::int32_t block);
  std::int32_t join_neighbours(std::int32_t block);

  AllocatorOptions options_;
  bool record_ = false;
  std::vector<Block> blocks_;
  std::vector<std::int32_t> unused_;  // of blocks_
  std::vector<Segment> segments_;
  std::map<std::pair<StreamIndex, bool>, Pool> pools_;
  std::set<Pending> pending_;
  std::vector<AllocatorEvent> events_;
  std::int64_t next_address_ = 0x7f0000000000;  // looks like a device pointer
  Seconds now_ = 0;
  Bytes allocated_ = 0, waiting_ = 0, reserved_ = 0;
  int retries_ = 0;
  int driver_calls_ = 0;
};

}  // namespace stepcast

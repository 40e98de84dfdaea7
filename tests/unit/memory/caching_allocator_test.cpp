// The caching allocator's rules, one by one, each with the answer worked out by hand.

#include "sim/memory/caching_allocator.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace stepcast {
namespace {

constexpr Bytes kb = 1000;

Bytes reserved_for(Bytes bytes, const AllocatorOptions& options = {}) {
  CachingAllocator allocator(options);
  REQUIRE(allocator.allocate(bytes, 0, 0).block >= 0);
  return allocator.reserved();
}

TEST_CASE("100 KB reserve 2 MiB, 3 MiB reserve 20 MiB, 11 MiB reserve 12 MiB") {
  CHECK(reserved_for(100 * kb) == 2 * mib);
  CHECK(reserved_for(mib) == 2 * mib);       // the largest of the small pool
  CHECK(reserved_for(mib + 1) == 20 * mib);  // the smallest of the large one
  CHECK(reserved_for(3 * mib) == 20 * mib);
  CHECK(reserved_for(10 * mib - 512) == 20 * mib);
  CHECK(reserved_for(10 * mib) == 10 * mib);  // not below 10 MiB: rounded to 2 MiB
  CHECK(reserved_for(11 * mib) == 12 * mib);
}

TEST_CASE("allocated counts multiples of 512 bytes") {
  CachingAllocator allocator({});
  allocator.allocate(1, 0, 0);
  CHECK(allocator.allocated() == 512);
  allocator.allocate(513, 0, 0);
  CHECK(allocator.allocated() == 512 + 1024);
  CHECK(allocator.reserved() == 2 * mib);  // both from one segment
  CHECK(allocator.allocate(0, 0, 0).block == -1);
  CHECK(allocator.allocated() == 512 + 1024);
}

TEST_CASE("a large block is split only where more than 1 MiB is left") {
  CachingAllocator allocator({});
  const auto whole = allocator.allocate(11 * mib, 0, 0).block;  // 12 MiB: 1 MiB left, kept whole
  CHECK(allocator.block(whole).size == 12 * mib);
  CHECK(allocator.allocated() == 12 * mib);
  const auto cut = allocator.allocate(3 * mib, 0, 0).block;  // 20 MiB: cut, 17 left
  CHECK(allocator.block(cut).size == 3 * mib);
  const auto next = allocator.allocate(5 * mib, 0, 0).block;  // from the 17
  CHECK(allocator.block(next).address == allocator.block(cut).address + 3 * mib);
  CHECK(allocator.reserved() == 32 * mib);
}

TEST_CASE("best fit: the smallest free block that is large enough") {
  CachingAllocator allocator({});
  const auto a = allocator.allocate(40 * mib, 0, 0).block;
  const auto b = allocator.allocate(14 * mib, 0, 0).block;
  const auto address = allocator.block(b).address;
  allocator.free(a, 0);
  allocator.free(b, 0);
  CHECK(allocator.block(allocator.allocate(13 * mib, 0, 0).block).address == address);
  CHECK(allocator.reserved() == 54 * mib);
}

TEST_CASE("freed neighbours merge, so that the whole segment serves again") {
  CachingAllocator allocator({});
  const auto a = allocator.allocate(4 * mib, 0, 0).block;
  const auto b = allocator.allocate(4 * mib, 0, 0).block;
  const auto c = allocator.allocate(4 * mib, 0, 0).block;  // 8 of the 20 MiB left
  allocator.free(a, 0);
  allocator.free(c, 0);
  const auto d = allocator.allocate(9 * mib, 0, 0).block;  // from c and the rest: 12 MiB
  CHECK(allocator.reserved() == 20 * mib);
  allocator.free(d, 0);
  allocator.free(b, 0);
  allocator.allocate(20 * mib, 0, 0);
  CHECK(allocator.reserved() == 20 * mib);
}

TEST_CASE("what one stream has cached another does not get") {
  CachingAllocator allocator({});
  allocator.free(allocator.allocate(30 * mib, 0, 0).block, 0);
  allocator.allocate(30 * mib, 1, 0);
  CHECK(allocator.reserved() == 60 * mib);
  CHECK(allocator.reserved(0) == 30 * mib);
  CHECK(allocator.reserved(1) == 30 * mib);
}

TEST_CASE("a recorded block comes back at the first alloc after its event") {
  CachingAllocator allocator({});
  allocator.free(allocator.allocate(30 * mib, 0, 0).block, 1, true, 6);
  CHECK(allocator.allocated() == 0);
  CHECK(allocator.active() == 30 * mib);
  const auto b = allocator.allocate(30 * mib, 0, 2).block;  // the event at 6 has not passed
  CHECK(allocator.reserved() == 60 * mib);
  allocator.free(b, 2);
  allocator.allocate(30 * mib, 0, 7);
  allocator.allocate(30 * mib, 0, 7);  // both are there again
  CHECK(allocator.reserved() == 60 * mib);
  CHECK(allocator.active() == allocator.allocated());
}

TEST_CASE("over the capacity the cache is freed, and what waited is waited for") {
  AllocatorOptions options;
  options.capacity = 64 * mib;
  CachingAllocator allocator(options, true);
  const auto a = allocator.allocate(40 * mib, 0, 0).block;
  allocator.free(a, 0, true, 100);
  // 40 are waiting, 24 are left: a retry synchronises, frees the 40 and has room.
  const CachingAllocator::Outcome b = allocator.allocate(50 * mib, 0, 1);
  CHECK(b.retried);
  CHECK(b.block >= 0);
  CHECK(allocator.retries() == 1);
  CHECK(allocator.reserved() == 50 * mib);
  const CachingAllocator::Outcome c = allocator.allocate(16 * mib, 0, 2);
  CHECK(c.block == -1);
  CHECK(c.retried);
  CHECK(allocator.events().back().action == AllocatorAction::out_of_memory);
}

TEST_CASE("a segment that is partly used is not given back") {
  AllocatorOptions options;
  options.capacity = 64 * mib;
  CachingAllocator allocator(options);
  const auto a = allocator.allocate(30 * mib, 0, 0).block;
  allocator.allocate(10 * mib, 0, 0);
  allocator.free(a, 0);
  allocator.allocate(2 * mib, 0, 0);  // cut from the 30
  CHECK(allocator.reserved() == 40 * mib);
  const CachingAllocator::Outcome b = allocator.allocate(30 * mib, 0, 0);
  CHECK(b.block == -1);  // 28 free in the cut segment, 24 of the device: neither is 30
  CHECK(allocator.reserved() == 40 * mib);
}

TEST_CASE("max_split_size: larger blocks are kept whole and for requests of their size") {
  AllocatorOptions options;
  options.max_split_size = 32 * mib;
  CachingAllocator allocator(options);
  const auto big = allocator.allocate(64 * mib, 0, 0).block;
  allocator.free(big, 0);
  allocator.allocate(30 * mib, 0, 0);  // would have been cut from the 64
  CHECK(allocator.reserved() == 94 * mib);
  allocator.allocate(40 * mib, 0, 0);  // 64 is 24 more than that: too much to waste
  CHECK(allocator.reserved() == 134 * mib);
  allocator.allocate(50 * mib, 0, 0);  // 14 more: taken whole
  CHECK(allocator.reserved() == 134 * mib);
  CHECK(allocator.allocated() == (30 + 40 + 64) * mib);
}

TEST_CASE("max_split_size: over the capacity a whole large block goes before the cache does") {
  AllocatorOptions options;
  options.max_split_size = 32 * mib;
  options.capacity = 100 * mib;
  CachingAllocator allocator(options);
  const auto small = allocator.allocate(3 * mib, 0, 0).block;
  allocator.free(allocator.allocate(70 * mib, 0, 0).block, 0);
  allocator.free(small, 0);
  const CachingAllocator::Outcome out = allocator.allocate(36 * mib, 0, 0);
  CHECK(!out.retried);
  CHECK(allocator.reserved() == 56 * mib);  // the 20 MiB segment stays cached
}

TEST_CASE("expandable segments: a request uses up the free tail before pages are mapped") {
  AllocatorOptions options;
  options.expandable_segments = true;
  CachingAllocator allocator(options);
  const auto a = allocator.allocate(30 * mib, 0, 0).block;
  CHECK(allocator.reserved() == 40 * mib);  // two pages of 20 MiB
  const auto b = allocator.allocate(25 * mib, 0, 0).block;
  CHECK(allocator.reserved() == 60 * mib);  // 10 at the tail and one page
  CHECK(allocator.block(b).address == allocator.block(a).address + 30 * mib);
  allocator.free(a, 0);
  allocator.free(b, 0);
  allocator.allocate(60 * mib, 0, 0);  // one range: no fragmentation
  CHECK(allocator.reserved() == 60 * mib);
  CHECK(reserved_for(100 * kb, options) == 2 * mib);
}

TEST_CASE("expandable segments: whole free pages go back when the device is full") {
  AllocatorOptions options;
  options.expandable_segments = true;
  options.capacity = 100 * mib;
  CachingAllocator allocator(options);
  const auto a = allocator.allocate(50 * mib, 0, 0).block;  // pages 0 to 2, 10 left
  const auto b = allocator.allocate(30 * mib, 0, 0).block;  // the 10 and page 3
  allocator.free(a, 0);
  // 50 free in front: pages 0 and 1 go, 10 of page 2 stay with b.
  const CachingAllocator::Outcome c = allocator.allocate(60 * mib, 1, 0);
  CHECK(c.retried);
  CHECK(c.block >= 0);
  CHECK(allocator.reserved(0) == 40 * mib);
  CHECK(allocator.reserved(1) == 60 * mib);
  allocator.free(c.block, 0);
  allocator.free(b, 0);
  const auto d = allocator.allocate(80 * mib, 0, 0);  // stream 1 gives its pages back
  CHECK(d.block >= 0);
  CHECK(d.retried);
  CHECK(allocator.reserved() == 80 * mib);
}

// Whatever is asked: blocks in use do not overlap, a segment is its blocks, sums agree.
void check_consistent(const CachingAllocator& allocator) {
  Bytes used = 0;
  Bytes mapped = 0;
  for (const CachingAllocator::Segment& segment : allocator.segments()) {
    if (!segment.alive) continue;
    std::int64_t address = segment.address;
    Bytes here = 0;
    bool was_free = false;
    for (std::int32_t i = segment.first; i >= 0; i = allocator.block(i).next) {
      const CachingAllocator::Block& block = allocator.block(i);
      REQUIRE(block.address == address);
      address += block.size;
      const bool is_free = block.state == CachingAllocator::State::free;
      REQUIRE(!(is_free && was_free));
      was_free = is_free;
      if (block.state != CachingAllocator::State::unmapped) here += block.size;
      if (block.state == CachingAllocator::State::allocated) used += block.size;
    }
    REQUIRE(here == segment.size);
    mapped += here;
  }
  REQUIRE(used == allocator.allocated());
  REQUIRE(mapped == allocator.reserved());
  REQUIRE(allocator.allocated() <= allocator.active());
  REQUIRE(allocator.active() <= allocator.reserved());
}

TEST_CASE("allocated <= active <= reserved <= capacity, whatever is asked") {
  for (const int variant : {0, 1, 2}) {
    AllocatorOptions options;
    options.capacity = 2000 * mib;
    if (variant == 1) options.expandable_segments = true;
    if (variant == 2) options.max_split_size = 64 * mib;
    CachingAllocator allocator(options);
    std::mt19937 random(7 + static_cast<unsigned>(variant));
    const auto below = [&](unsigned n) { return static_cast<std::int64_t>(random() % n); };
    std::vector<std::int32_t> held;
    int out = 0;
    for (int i = 0; i < 4000; ++i) {
      const Seconds now = i;
      if (held.empty() || below(5) < 3) {
        const Bytes bytes = (Bytes{1} << below(28)) + below(4096);
        const auto outcome = allocator.allocate(bytes, static_cast<StreamIndex>(below(3)), now);
        if (outcome.block >= 0) held.push_back(outcome.block);
        out += outcome.block < 0 ? 1 : 0;
      } else {
        const auto which = static_cast<std::size_t>(below(static_cast<unsigned>(held.size())));
        allocator.free(held[which], now, below(2) == 0, now + static_cast<double>(below(20)));
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
      }
      REQUIRE(allocator.reserved() <= options.capacity);
      if (i % 50 == 0) check_consistent(allocator);
    }
    CHECK(allocator.retries() > 0);  // the capacity was met
    CHECK(out > 0);
    for (const std::int32_t block : held) allocator.free(block, 4000);
    allocator.allocate(1, 0, 1e9);
    check_consistent(allocator);
    CHECK(allocator.allocated() == 512);
  }
}

}  // namespace
}  // namespace stepcast

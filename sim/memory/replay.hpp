#pragma once
// A timeline's allocs and frees through the caching allocator: allocated and reserved bytes on the
// clock of the timeline's events. The ledger (ledger.hpp) counts what tensors take in host order,
// whatever the speed; this adds what depends on speed and order:
//
//   host order    the freed block is at once what the next alloc of its stream gets, even while the
//                 GPU still works in it (the stream orders the two);
//   after streams record_stream: it comes back at the first later alloc whose host time is past the
//                 end of all that those streams had been given before the free;
//   after op      the same with the end of one op.
//
// Example, FSDP1 (record_stream) without its limiter: the host issues a whole step while the GPU
// runs the first layer; no free has passed, so every all-gather of the step has memory of its own
// (V11: 38.6 GB active instead of 7.2). FSDP2 frees in host order after stream waits and keeps its
// 10 bytes a parameter of a unit whatever the host does (E-20).
//
//                 host   alloc g0 .. free g0  alloc g1      event of `free g0` at 6: alloc g1 at 2
//   compute stream       |------ forward 0 ------|          takes new memory, at 7 the old block
//
// The replay runs the timeline's steps one after the other, so the steady step finds the cache that
// the steps before it left. Persistent buffers are allocated first, each in its pool. A buffer that
// stands for several tensors (what a layer saves) is one block here: rounding and fragmentation
// within it are not seen.
//
// A retry (the cache is freed because the device is full) makes the host wait for all that was
// issued; the timeline was made without that wait. Which allocs wait, and what they ask of the
// driver, is returned as stalls, for a timeline that has them (retries.hpp). Out of memory ends the
// replay, naming the request.
//
// Cost: about a microsecond an op. Tested by tests/unit/memory/replay_test.cpp.

#include <string>
#include <vector>

#include "sim/memory/caching_allocator.hpp"
#include "sim/memory/ledger.hpp"
#include "sim/schedule/timeline.hpp"

namespace stepcast {

struct ReservedSample {
  std::int32_t step = 0;
  OpIndex op = -1;      // an alloc or a free
  Seconds time = 0;     // host
  Bytes allocated = 0;  // in use by tensors
  Bytes active = 0;     // and freed ones that another stream has not passed
  Bytes reserved = 0;
};

// A moment of the replay, in the names of the schedule.
struct ReservedMoment {
  std::int32_t step = -1;  // executed step; -1: before the first
  OpIndex op = -1;
  std::string op_name;
  Seconds time = 0;
  Bytes allocated = 0;
  Bytes waiting = 0;    // freed; another stream has not passed
  Bytes cached = 0;     // free blocks
  KindBytes by_kind{};  // of allocated and waiting, as requested (before rounding)
  Bytes reserved() const { return allocated + waiting + cached; }
};

struct OutOfMemory {
  ReservedMoment at;
  Name buffer;
  BufferKind kind = BufferKind::other;
  Bytes requested = 0;
  std::string pool;  // the stream's name
};

// An alloc of the last step that the cache could not serve.
struct AllocatorStall {
  OpIndex op = -1;
  bool retried = false;  // the device was waited for, and the cache given back
  int calls = 0;         // of cudaMalloc and cudaFree
};

struct RoleReplay {
  Name role;
  int ranks = 0;
  Bytes peak_allocated = 0;
  Bytes peak_active = 0;
  Bytes peak_reserved = 0;
  ReservedMoment at_peak;                  // reserved; the first time
  std::vector<Bytes> reserved_by_stream;   // at the end; segments go back only in a retry
  int retries = 0;                         // of the last step
  Seconds retry_wait = 0;                  // of the last step: the host waits at least this long
  std::vector<AllocatorStall> stalls;      // of the last step
  std::vector<OutOfMemory> out_of_memory;  // none or one
  std::vector<ReservedSample> samples;

  // With ReplayOptions::record: what PyTorch's memory history would hold, the tensors (buffers) by
  // AllocatorEvent::tag, and the allocator as it was at the end.
  std::vector<AllocatorEvent> events;
  std::vector<CachingAllocator::Block> blocks;
  std::vector<CachingAllocator::Segment> segments;
  std::vector<std::int32_t> event_samples;  // by event: index into samples, -1: before the first
};

struct ReplayOptions {
  AllocatorOptions allocator;
  bool record = false;
};

// The timeline must be of this schedule and hold memory samples (RunOptions::memory).
RoleReplay replay_memory(const Schedule& schedule, const Timeline& timeline, int role,
                         const ReplayOptions& options = {});
std::vector<RoleReplay> replay_memory(const Schedule& schedule, const Timeline& timeline,
                                      const ReplayOptions& options = {});

}  // namespace stepcast

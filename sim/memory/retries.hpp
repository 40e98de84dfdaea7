#pragma once
// What a device that is nearly full costs a step, as ops of its schedule.
//
// Where cudaMalloc finds no room, PyTorch waits for the device, gives back every segment that is
// free as a whole, a cudaFree each, and asks again (a retry). What was given back is missed soon
// after: the next tensors of its size ask cudaMalloc instead of the cache. The replay (replay.hpp)
// finds both; here they become part of the steady step, so that every engine times them:
//
//   alloc X, a retry         ->  host_wait target=device; host_work cuda_malloc xN; alloc X
//   alloc Y, a new segment   ->  host_work cuda_malloc; alloc Y
//
// N counts the calls: segments given back and the one asked for. Example: 40 MiB are cached in two
// segments when 60 MiB find no room: the host waits for the device, then for 3 calls of 1 ms, and
// the streams, which have nothing queued behind the wait, stand idle for as long and until the host
// has launched again. FSDP loses a gather's overlap by it, too.
//
// Ranks whose allocators retry at different ops hold each other up one after the other; here equal
// ranks retry together, so this is the least that retries cost. What a call takes is the profile's
// `cuda_malloc`.
//
// Cost: a pass over the steady step. Tested by tests/unit/memory/retries_test.cpp.

#include <vector>

#include "sim/memory/replay.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast {

// Whether the steady step of some role retries.
bool retries_in_step(const std::vector<RoleReplay>& replays);

// Whether it is one of the ops that with_retries adds.
bool is_of_retry(const Op& op);

// Whether the replays of `with`, the schedule with what `first` found, retry at the same ops.
bool retries_again(const Schedule& with, const std::vector<RoleReplay>& first,
                   const std::vector<RoleReplay>& second);

// The schedule with what its replays, one a role, found in the last step. Other steps are left, and
// so are roles without a retry.
Schedule with_retries(const Schedule& schedule, const std::vector<RoleReplay>& replays);

}  // namespace stepcast

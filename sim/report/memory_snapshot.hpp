#pragma once
// The forecast's memory as PyTorch's own snapshot: what torch.cuda.memory._dump_snapshot() would
// have written during the step. Drop the file on pytorch.org/memory_viz and look at it as at the
// snapshot of a real run, beside it.
//
//   stepcast simulate ... --memory-snapshot step.pickle
//
// A dict of four: "segments" (at the end: address, sizes, stream, blocks and their state),
// "device_traces" (a list a device of alloc, free_requested, free_completed, segment_alloc,
// segment_free, segment_map, segment_unmap, oom, in order, with time_us), "allocator_settings" and
// "external_annotations" (empty). A role of the schedule is a device. Stack frames, from the inner
// one: the buffer (its kind as the file), then the op (its step as the file, its index as the
// line). Sizes of alloc and free are what was asked for, of segments what cudaMalloc got; streams
// are numbered in the schedule's order, 0 is compute. Times are microseconds of the timeline.
//
// Source: torch/csrc/cuda/memory_snapshot.cpp and torch/cuda/memory.py (docs/sources.md). Tested by
// tests/unit/report/memory_snapshot_test.cpp, which also has python3 read it where there is one.

#include <string>
#include <vector>

#include "sim/memory/replay.hpp"

namespace stepcast {

// The replays must have been made with ReplayOptions::record.
std::string memory_snapshot(const Schedule& schedule, const Timeline& timeline,
                            const std::vector<RoleReplay>& replays,
                            const AllocatorOptions& options);

}  // namespace stepcast

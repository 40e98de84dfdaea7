#pragma once
// Measuring by schedules: what is to be timed is written as a schedule and run by the executor that
// trains, so that a calibration holds for it, whether ranks are threads, processes or GPUs. A bench
// is a schedule of one step in which each case stands once; it is run a few times, and the spans of
// the timeline are the repetitions. The first step warms up and does not count.
//
//   collectives   every rank of the mesh, all groups of the axis at the same time: an axis of four
//                 groups on one node is measured as it is used, four at work
//   kernels       one after the other on one stream
//   equal ops     one kernel again and again; on CPUs it takes a given time and does nothing, and
//                 what the period is longer is what the executor adds to each op
//   overlap       the same beside collectives that go on all the while
//
// A collective's time is from when its last rank came to its end, as in every timeline.
// Tested by tests/unit/runtime/bench_test.cpp.

#include <functional>
#include <vector>

#include "base/kernel.hpp"
#include "runtime/replay.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/schedule/timeline.hpp"

namespace stepcast::runtime {

// One collective to be timed.
struct CollectiveCase {
  CollectiveKind op = CollectiveKind::all_reduce;
  Dtype dtype = Dtype::fp32;
  Bytes bytes = 0;  // nccl-tests' size; rounded up to whole elements a rank
};

Schedule collectives_bench(Mesh mesh, Axis axis, const std::vector<CollectiveCase>& cases);
Schedule kernels_bench(Mesh mesh, const std::vector<Kernel>& kernels);
Schedule equal_ops_bench(Mesh mesh, const Kernel& kernel, int ops);
// The same, and `collectives` calls of one case on a stream of their own.
Schedule overlap_bench(Mesh mesh, Axis axis, const Kernel& kernel, int ops,
                       const CollectiveCase& what, int collectives);

// For a RealReplay of a bench: every compute op takes `op_seconds`.
Durations timed(const Schedule& schedule, Seconds op_seconds);

// Bytes of a case as they are moved: whole elements, as many on every rank.
Bytes moved_bytes(const CollectiveCase& what, int ranks);

// Durations of the ops of a kind, by op in issue order, then by repetition. Role 0.
std::vector<std::vector<Seconds>> durations(const Schedule& schedule, const Timeline& timeline,
                                            OpKind kind);
// Of the collectives that began while ops were still running: those that had company. Role 0.
std::vector<Seconds> accompanied(const Schedule& schedule, const Timeline& timeline);
// From the first start to the last end of the ops of a kind, by repetition. Role 0.
std::vector<Seconds> extents(const Schedule& schedule, const Timeline& timeline, OpKind kind);

}  // namespace stepcast::runtime

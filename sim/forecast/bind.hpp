#pragma once
// Gives a schedule its seconds: kernels, collectives, copies and host works of one machine and one
// software profile become a CostTable.
//
// A compute op's kernels become segments: runs of kernels with the same bound are one segment, a
// latency-bound kernel joins the segment that it stands in (it asks for time, for little else).
// Ops of equal work share one cost: by kernel range, by (axis, kind, bytes, dtype, reduction), by
// copied bytes, by named host work; so 70 layers cost as much to bind as one.
//
// Resources, each of capacity 1.0 and per class of rank: "sm", "hbm", "pcie" and the links that
// sim/collectives names ("nvlink", "nic", "fabric").
//
// Tested by tests/unit/forecast/bind_test.cpp.

#include <memory>

#include "sim/collectives/collective_cost.hpp"
#include "sim/engines/cost_table.hpp"
#include "sim/kernels/kernel_cost.hpp"
#include "sim/kernels/measured_kernels.hpp"
#include "sim/kernels/profile.hpp"
#include "sim/schedule/schedule.hpp"
#include "topologies/topology.hpp"

namespace stepcast {

// What the data loader of one rank reaches. Each of k workers reads a batch (r seconds at the
// rank's share of the node's storage) and works on it (c seconds); storage reads one batch at a
// time, so a batch comes every max(r, (r + c) / k) seconds: the storage or the workers bind.
//   k = 4, r = 10 ms, c = 60 ms: 17.5 ms, the workers; c = 20 ms: 10 ms, the storage.
struct LoaderRates {
  int workers = 0;  // 0: the training process itself, r + c
  Bytes sample_bytes = 1;
  Seconds sample_seconds = 0;   // of one worker's time
  double bytes_per_second = 0;  // this rank's share; 0: reading takes no time
  Seconds batch_seconds(Bytes bytes) const;
};

// What a calibration says of the machine besides its collectives (CollectiveOptions) and the host
// (SoftwareProfile).
struct MeasuredDevice {
  std::shared_ptr<const MeasuredKernels> kernels;  // null: the model's
  Seconds op_overhead = 0;  // what an executor adds to every op of a stream but collectives
};

// Throws InputError where the GPU has no peak for a dtype or the profile no cost of that name.
CostTable bind_costs(const Schedule& schedule, const Cluster& cluster,
                     const Collectives& collectives, const SoftwareProfile& profile,
                     const LoaderRates& loader = {}, const MeasuredDevice& device = {});

}  // namespace stepcast

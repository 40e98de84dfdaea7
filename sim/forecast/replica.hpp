#pragma once
// The outer dimension of a hybrid job: k GPUs are one replica (tensor-, pipeline- or
// context-parallel, or several of them), and the strategy runs over the replicas.
//
//   model      each GPU holds a k-th of every tensor, of its gradient and optimizer state, and of
//              the activations (models/model.hpp: share_of, Workload::replica_gpus)
//   compute    forward and backward of a micro-batch take the time that was given; it is spread
//              over the layers as their kernels would take it, so gradients become ready in order.
//              What the GPUs of a replica send each other is in that time
//   placement  in rank order `inner` neighbours of a replica, then the replicas, then the rest of
//              the replica: tp-dp-pp. Each of the k siblings has communicators of its own, which
//              share their nodes' links (sim/collectives/axis_groups.hpp)
//
// Example, 8 GPUs a replica on nodes of 8, 16 nodes: 16 data-parallel ranks, one GPU a node each;
// 8 all-reduces of an 8th of the gradients run on a node at once, each through its own rail.
//
// With one GPU and no time given nothing here does anything. Tested by
// tests/unit/forecast/replica_test.cpp.

#include <optional>
#include <string_view>

#include "base/units.hpp"
#include "sim/engines/cost_table.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast {

struct Scenario;
struct Resolved;

struct Replica {
  int gpus = 1;
  int inner = 1;                   // neighbours in rank order
  std::optional<Seconds> step;     // forward and backward of one micro-batch
  double forward_share = 1.0 / 3;  // of it
};

// Reads the scenario's replica_* keys against the cluster; InputError where they contradict it.
Replica resolve_replica(const Scenario& scenario, int cluster_gpus);

// Where a time was given: cuts the step's model to one GPU's part and says in the notes what that
// leaves out. Throws InputError for a time that the GPUs' peak rules out.
void share_model(const Scenario& scenario, Resolved& resolved);

// The layers' kernels of every micro-batch take replica.step together; the host is free meanwhile,
// as its launches are in the given time.
void give_compute_time(const Schedule& schedule, const Replica& replica, CostTable& costs);

// For what runs schedules, which would be one sibling's alone, or chooses among strategies.
void refuse_replicas(const Resolved& resolved, std::string_view what);

}  // namespace stepcast

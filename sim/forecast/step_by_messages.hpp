#pragma once
// An engine that runs a cluster's steps message by message (sim/engines/step_messages.hpp): every
// rank of every role becomes a role, every collective what NCCL would choose on whole links, and
// the timeline comes back with the first rank of each role for all of them.
//
// No correction and no measured time enters: collectives take what their messages take.
//
// Throws InputError for what it has no messages for: nn.DataParallel's peer copies, oversubscribed
// uplinks, communicators with different GPUs on their nodes, nodes of another machine; and above 64
// ranks unless `go_on`, with the time that it would take.
//
// Tested by tests/unit/forecast/step_by_messages_test.cpp.

#include <memory>

#include "sim/engines/engine.hpp"
#include "sim/forecast/resolve.hpp"

namespace stepcast {

constexpr int most_ranks_by_messages = 64;

struct StepByMessages {
  bool go_on = false;   // above 64 ranks too
  bool broken = false;  // with the links that the scenario's perturbations break
};

// `resolved` must outlive it.
std::unique_ptr<Engine> make_step_by_messages(const Resolved& resolved,
                                              const StepByMessages& options);

}  // namespace stepcast

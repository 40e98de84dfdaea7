#pragma once
// What a timeline says, as numbers: where the step's time went, what was sent, what it adds up to.
//
// The time split looks at the compute stream of role 0 during the last step and adds up to the
// period exactly. While a kernel runs, its solo time is compute (or optimizer, or a copy of the
// strategy) and what it took longer is interference. While none runs, the stream waits for
// something: the wait is followed back from the op that ended it (Span::bound and Span::cause),
// collective by collective, to the moment the gap began, and each piece is booked where it belongs:
//
//   compute      | F1 |......gap......| F2 |
//   all_gather      |--AG2 (exposed)--|         the gap is "all-gather in forward"
//
// Where the op was issued late, the host is booked back to the last wait that blocked its lane;
// before that it is what this wait was for. An all-reduce of 5 on another stream, the host waits
// for it and then takes 1 to issue F2: the gap of 6 is 5 of all-reduce and 1 of host.
//
// Cost: one pass over the spans of the last step. Tested by tests/unit/report/split_test.cpp.

#include <string>
#include <string_view>
#include <vector>

#include "base/provenance.hpp"
#include "base/units.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "sim/engines/cost_table.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/schedule/timeline.hpp"

namespace stepcast {

struct ExposedPart {
  std::string cause;  // "first_all_gather", "backward_reduce_scatter", "tail_all_reduce", ...
  Seconds seconds = 0;
};

struct TimeSplit {
  Seconds compute = 0;       // forward, loss, recompute, backward kernels, at solo speed
  Seconds copies = 0;        // kernels of the strategy on the compute stream: copy-in, copy-out
  Seconds interference = 0;  // what those took longer than alone
  Seconds optimizer = 0;     // at solo speed
  Seconds host = 0;          // the stream was empty because the host had not issued, by itself
  Seconds other = 0;         // the stream waited for something that is no collective
  std::vector<ExposedPart> exposed;  // longest first
  // Seconds of the step that rest on costs of each provenance, indexed by Provenance.
  Seconds by_provenance[4] = {0, 0, 0, 0};
  SecondsByRate by_rate{};  // of compute and optimizer, at solo speed

  Seconds exposed_total() const;
  Seconds exposed_by(std::string_view cause) const;  // 0: it did not occur
  Seconds total() const;                             // equals the period
};

// `host`: the provenance of host costs (the software profile's).
TimeSplit split_time(const Schedule& schedule, const CostTable& costs, const Timeline& timeline,
                     Provenance host);

// All calls of one shape in one step of one rank.
struct CollectiveRow {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Axis axis = Axis::world;
  Dtype dtype = Dtype::fp32;
  Bytes bytes = 0;  // nccl-tests' size of one call
  int calls = 0;    // a step
  int ranks = 1;
  CollectiveCost cost;       // of one call, alone
  Seconds mean_seconds = 0;  // as it ran
  double busbw_gbps = 0;     // reached as it ran, nccl-tests' definition
};

// Largest first by total bytes; of the last step of role 0. Communicators of one rank have none.
std::vector<CollectiveRow> collective_rows(const Schedule& schedule, const Timeline& timeline,
                                           const Collectives& collectives);

}  // namespace stepcast

#pragma once
// Seconds and resource demands of every op of a schedule on one machine: what an engine needs
// besides the schedule. Made by sim/forecast from kernels, collectives, topology and software
// profile; written by hand in tests ("all_gather takes 2").
//
// Every shared resource of a rank class has capacity 1.0. A demand is in seconds of the whole
// resource: a GEMM that fills the SMs for 1 ms asks 1 ms of `sm`; a collective that holds 20 of 132
// SMs for 1 ms asks 0.1515 ms of `sm`, and of each link it loads bytes / bandwidth. No demand is
// longer than the segment alone: a segment that keeps the NIC busy for 1 ms takes at least 1 ms.
// Tested by tests/unit/engines.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "base/name.hpp"
#include "base/provenance.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast {

using ResourceIndex = std::int16_t;

struct Demand {
  ResourceIndex resource = -1;
  Seconds seconds = 0;
};

// A run of kernels with the same bound, or a phase of a collective. Segments of an op run one after
// the other; alone, a segment takes exactly `solo` seconds.
struct Segment {
  Seconds solo = 0;
  Range demands;  // into CostTable::demands
};

// What a kernel is to a software profile, which has a rate for each but convolutions: they run at
// that of products. The optimizer's kernels are memory.
enum class Rate : std::uint8_t { gemm, convolution, attention, memory, head };
using SecondsByRate = std::array<Seconds, 5>;  // indexed by Rate

struct OpCost {
  Range segments;    // into CostTable::segments; none for host ops
  Seconds solo = 0;  // sum over segments
  Seconds host = 0;  // the lane is busy this long issuing it (launches, or the host work)
  Provenance provenance = Provenance::assumed;
  Name detail;              // for the report: "Ring/Simple 24ch", "roofline", ...
  SecondsByRate by_rate{};  // of the kernels as they were bound; only their proportion counts
};

class CostTable {
 public:
  std::vector<Name> resources;  // per class: "sm", "hbm", "nvlink", "nic", "fabric", ...
  std::vector<Demand> demands;
  std::vector<Segment> segments;
  std::vector<OpCost> costs;  // distinct costs; ops refer to them
  // cost_of[role][step program][op] -> index into costs, -1 for ops that cost nothing
  std::vector<std::vector<std::vector<std::int32_t>>> cost_of;

  const OpCost& cost(int role, int program, OpIndex op) const;
  std::span<const Segment> segments_of(const OpCost& cost) const;
  std::span<const Demand> demands_of(const Segment& segment) const;
  ResourceIndex resource(Name name);  // adds it when new
  // Adds a cost of one segment.
  std::int32_t add(Seconds solo, std::initializer_list<Demand> list, Seconds host,
                   Provenance provenance, Name detail);
};

// STEPCAST_ASSERTs that the table is for this schedule and consistent in itself: every op has an
// entry, seconds are finite and not negative, sums are right, no demand exceeds its segment.
// Engines call it first; one pass over the distinct costs.
void check(const CostTable& table, const Schedule& schedule);

// For tests and teaching: seconds by a function of the op, no host costs, no shared resources
// (every op asks only for time on its own stream).
template <typename SecondsOf>
CostTable costs_by(const Schedule& schedule, SecondsOf&& seconds_of);

}  // namespace stepcast

#include "sim/engines/cost_table_inline.hpp"

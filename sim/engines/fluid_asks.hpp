#pragma once
// What activities of the fluid engine ask of resources. Every role has each resource of the cost
// table of its own: those of role r are numbers r * kinds() and on. A kernel asks for what its
// segment demands, over the time that the activity takes; a kernel that waits for its peers, and a
// collective that goes by messages, for a share of the SMs (and memory) as long as it is there.

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engines/run_plan.hpp"
#include "sim/engines/sharing.hpp"

namespace stepcast {

class FluidAsks {
 public:
  using Kinds = std::uint64_t;  // of resources, a bit each

  explicit FluidAsks(const RunPlan& plan);

  // All that the op asks for at some time.
  Kinds kinds_of(int role, const OpAt& op) const;
  Kinds sm_kind() const { return Kinds{1} << sm_; }

  // The part of the SMs that the op's kernel holds while it waits; 0: none.
  double waiting_share(int role, const OpAt& op) const;
  Ask waiting(int role, double share) const { return {role * kinds_ + sm_, share}; }

  // What is asked, made up by the calls below.
  const std::vector<Ask>& asks() const { return asks_; }
  void clear() { asks_.clear(); }
  // The n-th segments of the ops of an activity take `solo` alone, the longest of them.
  void add_segment(int role, const Segment& segment, Seconds solo);
  // SMs and memory that a collective holds of a member; returns which.
  Kinds add_held(int role, const OpAt& op);

 private:
  void ask(std::size_t own, int resource, double share);

  const RunPlan& plan_;
  int kinds_;                    // resources of a role
  int sm_, hbm_;                 // which of them are SMs and memory; -1: none
  std::vector<Kinds> kinds_of_;  // by cost
  std::vector<Ask> asks_;
};

}  // namespace stepcast

#pragma once
// Where a rank stands in its run, as it tells the others; and out of all standings, in words, what
// nobody goes on for.
//
// On a GPU "entered" means that the stream has come to the collective: the event before it is done.
// A collective that some ranks have entered and others have not is what the others are missing at;
// of several, the earliest. Example, rank 1 of 2 died in its forward:
//
//   backward.all_reduce.bucket0 (step 0) on communicator world waits for rank 1: rank 0 entered;
//   rank 1 stands at forward.compute.layers.3 (step 0)
//
// Where ranks entered different collectives, both are named; where all entered the same and none
// is through, it says so: then the fault is in the transport. Tested by
// tests/unit/cuda/standing_test.cpp.

#include <string>
#include <vector>

#include "runtime/cpu/meeting.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast::runtime {

struct CommStanding {
  std::int64_t through = 0;  // collectives that are done
  bool entered = false;      // the next one has begun on the GPU
  Collective what;           // of that
  Standing at;
};

struct RankStanding {
  bool gone = false;   // its process has ended or is cut off
  bool ended = false;  // it is through
  Standing at;         // the op that its host or its streams are at
  std::vector<CommStanding> comms;
};

std::string to_bytes(const RankStanding& standing);
RankStanding standing_of(const std::string& bytes);

// Why nothing goes on.
std::string who_is_missing(const Schedule& schedule, const std::vector<RankStanding>& ranks);

}  // namespace stepcast::runtime

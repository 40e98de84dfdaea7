#pragma once
// The critical path of the steady step: a chain of ops, each begun because the one before it ended,
// that reaches from the end of the step back to its beginning. Only what is on it can make the step
// shorter.
//
// It is walked backwards from the op that ends last. Each span says which constraint it met last
// (Span::bound and Span::cause): the op before it on its stream, an op that the stream waited for,
// the collective before it on its communicator, or the host, which had not issued it. Host time
// reaches back to the last wait that blocked its lane, and that wait's own cause explains the rest.
//
//   all_gather   |AG0 2|----AG1 4----|
//   compute            |--F0 3--|    |--F1 3--|-----B 6------|     | opt 1|
//   reduce_scatter                                           |RS 2 |
//
// is AG0 2, AG1 4, F1 3, B 6, RS 2, opt 1: F0 hides behind AG1. The parts have no holes and add up
// to the step. Cost: one pass over the spans on the path. Tested by
// tests/unit/explain/critical_path_test.cpp, this step and others by hand.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.hpp"
#include "sim/engines/cost_table.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/schedule/timeline.hpp"

namespace stepcast {

enum class PathKind : std::uint8_t {
  compute,  // kernels of the model
  copies,   // of the strategy, and casts
  optimizer,
  collective,  // on whatever stream
  host,        // the lane had not issued
  loader,      // ... because no batch was there
  peer,        // other ranks came later
  start,       // nothing held it: what is left at the beginning
};
std::string_view to_string(PathKind kind);

struct PathPart {
  PathKind kind = PathKind::compute;
  std::string op;      // "backward.compute.layers.3"; of the host the op that it issued late
  std::string stream;  // "compute", "all_gather"; "host"
  CollectiveKind collective = CollectiveKind::all_reduce;
  Seconds start = 0, end = 0;  // from the beginning of the step; of the op what lies on the path
  Seconds interference = 0;    // of it, longer than alone
  Bound bound = Bound::start;  // why it started then
  std::string bound_by;        // the op that held it; empty: the host, or nothing
};

struct CriticalPath {
  std::vector<PathPart> parts;  // in time; each ends where the next begins
  Seconds period = 0;
  Seconds of(PathKind kind) const;
};

CriticalPath critical_path(const Schedule& schedule, const CostTable& costs,
                           const Timeline& timeline);

// Neighbours of one kind on one stream as one: "58 ops, forward.compute.layers.0 to head".
struct PathRun {
  PathPart first, last;
  int ops = 1;
  Seconds seconds = 0, interference = 0;
  std::map<std::string, Seconds> of = {};  // by stream; more than one where short ones joined
};
// Runs shorter than `least` join the one before them.
std::vector<PathRun> runs_of(const CriticalPath& path, Seconds least = 0);

}  // namespace stepcast

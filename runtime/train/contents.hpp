#pragma once
// Which elements of which tensors lie where, as a rank's program goes on: by buffer, runs in the
// order of their places. Kept while the plan of a run is made (planner.hpp), op by op in issue
// order; at run time there is only memory.

#include <map>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace stepcast::runtime {

class Contents {
 public:
  void clear(BufferIndex buffer) { runs_.erase(buffer); }
  // [begin, end) of the buffer, in elements, now holds these runs and nothing else.
  void put(BufferIndex buffer, std::int64_t begin, std::int64_t end, const std::vector<Run>& runs);
  // The runs within [begin, end), cut to it.
  std::vector<Run> within(BufferIndex buffer, std::int64_t begin, std::int64_t end) const;

  friend bool operator==(const Contents& a, const Contents& b) = default;

 private:
  std::map<BufferIndex, std::vector<Run>> runs_;
};

// A run cut to the places [begin, end); count <= 0 where nothing is left.
Run cut(Run run, std::int64_t begin, std::int64_t end);

}  // namespace stepcast::runtime

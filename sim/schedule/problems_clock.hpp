#pragma once
// Clocks, events and byte sets of problems_order.cpp, whose essay says how they are used. Private
// to the folder.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace stepcast::checks {

// By timeline: how many of its events are known to be over.
using Clock = std::vector<std::int32_t>;

inline void join(Clock& into, const std::int32_t* other) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], other[i]);
}

// An executed op: which and when.
struct Event {
  std::int32_t timeline = -1;
  std::int32_t number = 0;  // on its timeline
  std::int32_t turn = 0;    // index into the executed steps
  OpIndex op = -1;
};

inline bool is_before(const Event& event, const Clock& clock) {
  return clock[static_cast<std::size_t>(event.timeline)] >= event.number;
}

struct Access {
  Event event;
  Bytes begin = 0;
  Bytes end = 0;
  bool write = false;
};

// Sorted, disjoint, not touching.
class ByteSet {
 public:
  void add(Bytes begin, Bytes end) {
    auto first = std::lower_bound(parts_.begin(), parts_.end(), begin,
                                  [](const auto& part, Bytes at) { return part.second < at; });
    auto last = first;
    while (last != parts_.end() && last->first <= end) {
      begin = std::min(begin, last->first);
      end = std::max(end, last->second);
      ++last;
    }
    first = parts_.erase(first, last);
    parts_.insert(first, {begin, end});
  }
  bool covers(Bytes begin, Bytes end) const {
    if (begin == end) return true;
    const auto part =
        std::upper_bound(parts_.begin(), parts_.end(), begin,
                         [](Bytes at, const auto& candidate) { return at < candidate.second; });
    return part != parts_.end() && part->first <= begin && part->second >= end;
  }
  void clear() { parts_.clear(); }

 private:
  std::vector<std::pair<Bytes, Bytes>> parts_;
};

}  // namespace stepcast::checks

#include "runtime/train/contents.hpp"

#include <algorithm>

namespace stepcast::runtime {

Run cut(Run run, std::int64_t begin, std::int64_t end) {
  const std::int64_t from = std::max(run.at, begin);
  const std::int64_t to = std::min(run.at + run.count, end);
  run.first += from - run.at;
  run.at = from;
  run.count = to - from;
  return run;
}

void Contents::put(BufferIndex buffer, std::int64_t begin, std::int64_t end,
                   const std::vector<Run>& runs) {
  std::vector<Run>& mine = runs_[buffer];
  std::vector<Run> kept;
  for (const Run& run : mine) {
    const Run before = cut(run, run.at, begin);
    const Run after = cut(run, end, run.at + run.count);
    if (before.count > 0) kept.push_back(before);
    if (after.count > 0) kept.push_back(after);
  }
  kept.insert(kept.end(), runs.begin(), runs.end());
  std::sort(kept.begin(), kept.end(), [](const Run& a, const Run& b) { return a.at < b.at; });
  mine = std::move(kept);
}

std::vector<Run> Contents::within(BufferIndex buffer, std::int64_t begin, std::int64_t end) const {
  std::vector<Run> list;
  const auto found = runs_.find(buffer);
  if (found == runs_.end()) return list;
  for (const Run& run : found->second) {
    const Run part = cut(run, begin, end);
    if (part.count > 0) list.push_back(part);
  }
  return list;
}

}  // namespace stepcast::runtime

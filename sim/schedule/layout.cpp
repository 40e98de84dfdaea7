#include "sim/schedule/layout.hpp"

#include <algorithm>

#include "sim/schedule/schedule.hpp"

namespace stepcast {

int index_in_group(const Mesh& mesh, Axis axis, int rank) {
  switch (axis) {
    case Axis::world: return rank;
    case Axis::shard: return rank % mesh.shard;
    case Axis::replicate: return rank / mesh.shard;
  }
  return 0;
}

std::vector<int> ranks_of_group(const Mesh& mesh, Axis axis, int rank) {
  std::vector<int> ranks(static_cast<std::size_t>(mesh.size(axis)));
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int index = static_cast<int>(i);
    switch (axis) {
      case Axis::world: ranks[i] = index; break;
      case Axis::shard: ranks[i] = rank / mesh.shard * mesh.shard + index; break;
      case Axis::replicate: ranks[i] = rank % mesh.shard + index * mesh.shard; break;
    }
  }
  return ranks;
}

namespace {

void add_chunk(std::vector<Run>& runs, const Placed& placed, std::int64_t rank, std::int64_t base) {
  const std::int64_t first = rank * placed.chunk;
  const std::int64_t count = std::clamp<std::int64_t>(placed.elements - first, 0, placed.chunk);
  if (count > 0) runs.push_back({placed.tensor, first, count, base + placed.at});
}

}  // namespace

std::vector<Run> runs_of(const Schedule& schedule, const BufferLayout& layout, int index) {
  const auto placed = schedule.at_placed(layout.placed);
  std::vector<Run> runs;
  switch (layout.cut) {
    case Cut::whole:
      for (const Placed& p : placed) runs.push_back({p.tensor, 0, p.elements, p.at});
      break;
    case Cut::flat:
      for (const Placed& p : placed) {
        const std::int64_t begin = std::max(p.at, index * layout.part);
        const std::int64_t end = std::min(p.at + p.elements, (index + 1) * layout.part);
        if (begin >= end) continue;
        runs.push_back({p.tensor, begin - p.at, end - begin, begin - index * layout.part});
      }
      break;
    case Cut::chunks:
      for (const Placed& p : placed) add_chunk(runs, p, index, 0);
      break;
    case Cut::by_rank:
      for (int r = 0; r < schedule.mesh.size(layout.axis); ++r) {
        for (const Placed& p : placed) add_chunk(runs, p, r, r * layout.part);
      }
      break;
  }
  return runs;
}

}  // namespace stepcast

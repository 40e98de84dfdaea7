// The collectives of a plan: where a rank's tensors lie, and what lies there afterwards.
//
// An all-gather in place sends this rank's slot of the output, wherever an average rank's view is.
// Out of place it sends what it reads, as it lies there, if that is just a slot; of larger shards
// (ZeRO-3 fetches some parameters) it first puts what the output's layout wants into the slot.

#include <algorithm>

#include "runtime/train/planner.hpp"

namespace stepcast::runtime {

OpPlan Planner::plan_collective(const Op& op) {
  const std::vector<Extent> reads = reads_of(op);
  const std::vector<Extent> writes = writes_of(op);
  if (reads.empty() || writes.empty()) fail(op, "a collective reads and writes");
  const Extent& from = reads.front();
  const Extent& to = writes.front();
  const Axis axis = schedule_.communicators[static_cast<std::size_t>(op.comm)].axis;
  const int ranks = schedule_.mesh.size(axis);
  const int index = index_in_group(schedule_.mesh, axis, rank_);
  const auto bytes = [](const Extent& e, std::int64_t at) {
    return at * bytes_per_element(e.dtype);
  };
  if (from.dtype != op.dtype || to.dtype != op.dtype) fail(op, "its dtype is not its buffers'");
  std::int64_t given = 0;
  for (const Extent& e : reads) given += e.count();

  CollectivePlan plan{from.view, bytes(from, from.begin), to.view, bytes(to, to.begin), {}, {}};
  switch (op.collective) {
    case CollectiveKind::all_gather: {
      if (op.elements != to.count()) fail(op, "its size is not that of its output");
      const std::int64_t part = op.elements / ranks;
      const std::int64_t slot = to.begin + index * part;
      if (from.buffer == to.buffer) {  // in place: this rank's slot, wherever the view is
        plan.send_at = bytes(to, slot);
      } else if (reads.size() > 1 || given != part) {
        // Some of what the shards hold, as the output wants it.
        const std::vector<Source> sources = sources_of(reads);
        for (const Run& run :
             layout_of(to.buffer) != nullptr ? layout_runs(to.buffer) : std::vector<Run>{}) {
          const Run mine = cut(run, slot, slot + part);
          if (mine.count <= 0) continue;
          for (const Part& p : parts_of(mine.tensor, sources)) {
            const std::int64_t begin = std::max(p.first, mine.first);
            const std::int64_t end = std::min(p.first + p.count, mine.first + mine.count);
            if (begin >= end) continue;
            const Place source{p.place.view, p.place.dtype, p.place.at + begin - p.first};
            plan.before.push_back(
                {source, to.place(mine.at + begin - mine.first), end - begin, 1, false});
          }
        }
        plan.send = to.view;
        plan.send_at = bytes(to, slot);
      }
      if (to.dtype == Dtype::int64) break;  // numbers of the hosts', no tensor's
      if (layout_of(to.buffer) == nullptr) fail(op, "nobody has said what an all-gather makes");
      std::vector<Run> all;
      for (const Run& run : layout_runs(to.buffer)) {
        const Run part_run = cut(run, to.begin, to.end);
        if (part_run.count > 0) all.push_back(part_run);
      }
      contents_.put(to.buffer, to.begin, to.end, all);
      break;
    }
    case CollectiveKind::reduce_scatter: {
      const std::int64_t part = op.elements / ranks;
      if (op.elements != from.count() || to.count() != part) {
        fail(op, "its size is not that of its views");
      }
      std::vector<Run> mine;
      for (Run run : contents_.within(from.buffer, from.begin + index * part,
                                      from.begin + (index + 1) * part)) {
        run.at += to.begin - from.begin - index * part;
        mine.push_back(run);
      }
      contents_.put(to.buffer, to.begin, to.end, mine);
      break;
    }
    case CollectiveKind::reduce: {
      // Only the owner's elements, where the views hold more (ZeRO's reduce to the owners).
      if (op.elements == from.count() && reads.size() == 1) break;
      for (const BufferLayout& layout : schedule_.layouts) {
        const Buffer& buffer = schedule_.buffers[static_cast<std::size_t>(layout.buffer)];
        if (layout.cut != Cut::flat || buffer.kind != BufferKind::gradient) continue;
        std::vector<Run> owned = runs_of(schedule_, layout, op.root);
        std::int64_t total = 0;
        for (const Source& source : sources_of(reads)) {
          for (const Run& own : owned) {
            if (own.tensor != source.run.tensor) continue;
            const std::int64_t begin = std::max(own.first, source.run.first);
            const std::int64_t end =
                std::min(own.first + own.count, source.run.first + source.run.count);
            if (begin >= end) continue;
            Place place = source.place;
            place.at += begin - source.run.first;
            plan.owned.emplace_back(place, end - begin);
            total += end - begin;
          }
        }
        if (total != op.elements) fail(op, "its size is not what its root owns");
        break;
      }
      break;
    }
    case CollectiveKind::all_reduce:
    case CollectiveKind::broadcast:
      if (op.elements != from.count() || op.elements != to.count()) {
        fail(op, "its size is not that of its views");
      }
      if (from.buffer == to.buffer && from.begin != to.begin) {
        fail(op, "reads and writes parts of one buffer that are not the same");
      }
      if (from.buffer != to.buffer) {
        std::vector<Run> same;
        for (Run run : contents_.within(from.buffer, from.begin, from.end)) {
          run.at += to.begin - from.begin;
          same.push_back(run);
        }
        contents_.put(to.buffer, to.begin, to.end, same);
      }
      break;
    case CollectiveKind::scatter:
    case CollectiveKind::gather: fail(op, "is not trained yet");
  }
  return plan;
}

}  // namespace stepcast::runtime

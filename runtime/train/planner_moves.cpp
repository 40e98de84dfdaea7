// Ops that move elements: which go where (planner.hpp), and the few whose places are their own.

#include <algorithm>

#include "runtime/train/planner.hpp"
#include "sim/schedule/buffers.hpp"

namespace stepcast::runtime {

// ---- Elements that are read, and where they belong
// -----------------------------------------------

std::vector<Planner::Source> Planner::sources_of(const std::vector<Extent>& reads) const {
  std::vector<Source> list;
  for (const Extent& from : reads) {
    for (const Run& run : contents_.within(from.buffer, from.begin, from.end)) {
      list.push_back({run, from.place(run.at)});
    }
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const Source& a, const Source& b) { return a.run.tensor < b.run.tensor; });
  return list;
}

std::vector<Run> Planner::targets_of(const Extent& to, const std::vector<Extent>& reads,
                                     std::int64_t& packed) const {
  if (const BufferLayout* layout = layout_of(to.buffer)) {
    std::vector<Run> runs = layout_runs(to.buffer);
    if (layout->cut != Cut::whole) return runs;
    std::vector<Run> mine;
    for (const Run& run : runs) {
      const Run part = cut(run, to.begin, to.end);
      if (part.count > 0) mine.push_back(part);
    }
    return mine;
  }
  for (const Extent& from : reads) {
    if (from.buffer == to.buffer && from.begin < to.end && to.begin < from.end) {
      return contents_.within(to.buffer, to.begin, to.end);
    }
  }
  // One after another: the next to.count() elements of the reads, gaps included.
  std::vector<Run> runs;
  std::int64_t before = 0;
  for (const Extent& from : reads) {
    for (Run run : contents_.within(from.buffer, from.begin, from.end)) {
      run.at += before - from.begin;  // its place among all that is read
      Run part = cut(run, packed, packed + to.count());
      if (part.count <= 0) continue;
      part.at += to.begin - packed;
      runs.push_back(part);
    }
    before += from.count();
  }
  packed += to.count();
  return runs;
}

// ---- Moves --------------------------------------------------------------------------------------

OpPlan Planner::plan_move(const std::vector<Extent>& reads, const Op& op, double factor) {
  const std::vector<Source> sources = sources_of(reads);
  MovePlan plan;
  struct Written {
    Extent to;
    std::vector<Run> runs;
  };
  std::vector<Written> written;
  std::int64_t packed = 0;
  for (const Extent& to : writes_of(op)) {
    Written here{to, {}};
    for (const Run& target : targets_of(to, reads, packed)) {
      std::vector<Move> into;
      const auto first = std::lower_bound(
          sources.begin(), sources.end(), target.tensor,
          [](const Source& s, std::int32_t tensor) { return s.run.tensor < tensor; });
      for (auto s = first; s != sources.end() && s->run.tensor == target.tensor; ++s) {
        const std::int64_t begin = std::max(target.first, s->run.first);
        const std::int64_t end = std::min(target.first + target.count, s->run.first + s->run.count);
        if (begin >= end) continue;
        const std::int64_t at = target.at + begin - target.first;
        const Place from{s->place.view, s->place.dtype, s->place.at + begin - s->run.first};
        into.push_back({from, to.place(at), end - begin, factor, false});
        here.runs.push_back({target.tensor, begin, end - begin, at});
      }
      // What is there already comes first, the rest is added; a part that two sources cover is
      // covered from the first one on.
      const auto in_place = [&](const Move& m) {
        return reads[static_cast<std::size_t>(m.from.view)].buffer == to.buffer &&
               m.from.at == m.to.at;
      };
      std::stable_partition(into.begin(), into.end(), in_place);
      for (std::size_t i = 0; i < into.size(); ++i) {
        for (std::size_t j = 0; j < i && !into[i].add; ++j) {
          into[i].add = into[j].to.at < into[i].to.at + into[i].count &&
                        into[i].to.at < into[j].to.at + into[j].count;
        }
      }
      for (const Move& move : into) {
        if (!(in_place(move) && factor == 1)) plan.moves.push_back(move);
      }
    }
    written.push_back(std::move(here));
  }
  for (Written& here : written) {
    std::sort(here.runs.begin(), here.runs.end(),
              [](const Run& a, const Run& b) { return a.at < b.at; });
    here.runs.erase(std::unique(here.runs.begin(), here.runs.end()), here.runs.end());
    if (layout_of(here.to.buffer) == nullptr) {
      contents_.put(here.to.buffer, here.to.begin, here.to.end, here.runs);
    } else {
      for (const Run& run : here.runs) {
        contents_.put(here.to.buffer, run.at, run.at + run.count, {run});
      }
    }
  }
  return plan;
}

// The view that is read is an average rank's: as large as the part, at the start. A rank's own is
// where the layout of what is written says, anywhere in the buffer.
OpPlan Planner::plan_own_part(const Op& op) {
  std::vector<Extent> reads = reads_of(op);
  const std::vector<Extent> writes = writes_of(op);
  if (reads.size() != 1 || writes.size() != 1) fail(op, "keeps a part of one tensor in one other");
  Extent& from = reads.front();
  if (from.begin != 0 || from.count() != writes.front().count()) {
    fail(op, "reads no average rank's part");
  }
  const Buffer& whole = schedule_.buffers[static_cast<std::size_t>(from.buffer)];
  from.end = whole.bytes / bytes_per_element(whole.dtype);
  return plan_move(reads, op, 1);
}

OpPlan Planner::plan_scale(const Op& op, double factor) {
  MovePlan plan;
  plan.clipped = norm_read_;
  const auto same = [](const View& a, const View& b) {
    return a.buffer == b.buffer && a.offset == b.offset && a.bytes == b.bytes;
  };
  const auto reads = schedule_.at_views(op.reads);
  const auto writes = schedule_.at_views(op.writes);
  if (!std::equal(reads.begin(), reads.end(), writes.begin(), writes.end(), same)) {
    fail(op, "scales in place: it must write what it reads");
  }
  if (factor == 1) return plan;
  for (const Source& source : sources_of(reads_of(op))) {
    plan.moves.push_back({source.place, source.place, source.run.count, factor, false});
  }
  return plan;
}

// Whole tensors one after another become rank 0's chunks, then rank 1's, ... (ZeRO-3 pads each).
OpPlan Planner::plan_interleave(const Op& op) {
  const std::vector<Extent> writes = writes_of(op);
  if (writes.size() != 1) fail(op, "writes one flat tensor");
  const Extent& to = writes.front();
  const int ranks = schedule_.mesh.world_size();
  const std::int64_t part = to.count() / ranks;
  MovePlan plan;
  std::vector<Run> runs;
  std::int64_t at = 0;
  std::vector<Source> sources;
  for (const Extent& from : reads_of(op)) {  // in the order of their places, not by tensor
    for (const Run& run : contents_.within(from.buffer, from.begin, from.end)) {
      sources.push_back({run, from.place(run.at)});
    }
  }
  for (const Source& source : sources) {
    const std::int64_t elements = source.run.count;
    const std::int64_t chunk = ceil_div(elements, ranks);
    for (int r = 0; r < ranks; ++r) {
      const std::int64_t first = r * chunk;
      const std::int64_t count = std::clamp<std::int64_t>(elements - first, 0, chunk);
      if (count == 0) continue;
      const std::int64_t place = to.begin + r * part + at;
      const Place from{source.place.view, source.place.dtype, source.place.at + first};
      plan.moves.push_back({from, to.place(place), count, 1, false});
      runs.push_back({source.run.tensor, source.run.first + first, count, place});
    }
    at += chunk;
  }
  contents_.put(to.buffer, to.begin, to.end, runs);
  return plan;
}

}  // namespace stepcast::runtime

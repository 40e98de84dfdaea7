// The collectives of a plan: where a rank's tensors lie, and what lies there afterwards.
//
// An all-gather in place sends this rank's slot of the output, wherever an average rank's view is.
// Out of place it sends what it reads, as it lies there, if that is just a slot; of larger shards
// (ZeRO-3 fetches some parameters) it first puts what the output's layout wants into the slot.
//
// A rank that is not the root may only read or only write (nn.DataParallel's copies in and out of
// GPU 0). What it then gets, the layout says, as for an all-gather.

#include <algorithm>

#include "runtime/train/planner.hpp"

namespace stepcast::runtime {

OpPlan Planner::plan_collective(const Op& op) {
  static const Name losses("gather_losses");
  const std::vector<Extent> reads = reads_of(op);
  const std::vector<Extent> writes = writes_of(op);
  const auto bytes = [](const Extent& e, std::int64_t at) {
    return at * bytes_per_element(e.dtype);
  };
  CollectivePlan plan;
  plan.losses = op.verb == losses;
  if (reads.empty() && writes.empty() && !plan.losses) fail(op, "reads and writes nothing");
  for (const Extent& e : reads) {
    if (e.dtype != op.dtype) fail(op, "its dtype is not its buffers'");
  }
  for (const Extent& e : writes) {
    if (e.dtype != op.dtype) fail(op, "its dtype is not its buffers'");
  }
  const Extent* from = reads.empty() ? nullptr : &reads.front();
  const Extent* to = writes.empty() ? nullptr : &writes.front();
  plan.send = from != nullptr ? from->view : -1;
  plan.receive = to != nullptr ? to->view : plan.send;
  if (from == nullptr) plan.send = plan.receive;
  const Extent* sent = from != nullptr ? from : to;
  const Extent* received = to != nullptr ? to : from;
  if (sent != nullptr) plan.send_at = bytes(*sent, sent->begin);
  if (received != nullptr) plan.receive_at = bytes(*received, received->begin);

  const Axis axis = schedule_.communicators[static_cast<std::size_t>(op.comm)].axis;
  const int ranks = schedule_.mesh.size(axis);
  const int index = index_in_group(schedule_.mesh, axis, rank_);
  const std::int64_t part = op.elements / ranks;
  const bool root = index == op.root;
  const auto require = [&](const Extent* e, std::int64_t elements) {
    if (e != nullptr && e->count() != elements) fail(op, "its size is not that of its views");
  };
  const auto both = [&] {
    if (from == nullptr || to == nullptr) fail(op, "reads and writes on every rank");
  };
  switch (op.collective) {
    case CollectiveKind::all_gather:
      both();
      gathers(op, reads, plan);
      break;
    case CollectiveKind::reduce_scatter: {
      both();
      require(from, op.elements);
      require(to, part);
      std::vector<Run> mine;
      for (Run run : contents_.within(from->buffer, from->begin + index * part,
                                      from->begin + (index + 1) * part)) {
        run.at += to->begin - from->begin - index * part;
        mine.push_back(run);
      }
      contents_.put(to->buffer, to->begin, to->end, mine);
      break;
    }
    case CollectiveKind::reduce:
      if (from == nullptr || (root && to == nullptr)) fail(op, "every rank gives, the root takes");
      if (op.elements != from->count() || reads.size() > 1) {
        owned_by_root(op, reads, plan);  // only the owner's elements, where the views hold more
        break;
      }
      [[fallthrough]];
    case CollectiveKind::all_reduce:
    case CollectiveKind::broadcast: {
      if (op.collective == CollectiveKind::all_reduce) both();
      if (op.collective == CollectiveKind::broadcast && (root ? from : to) == nullptr) {
        fail(op, "the root gives, every other rank takes");
      }
      require(from, op.elements);
      require(to, op.elements);
      if (to == nullptr) break;
      if (from == nullptr) {
        if (layout_of(to->buffer) == nullptr) fail(op, "nobody has said what it brings");
        std::vector<Run> all;
        for (const Run& run : layout_runs(to->buffer)) {
          const Run some = cut(run, to->begin, to->end);
          if (some.count > 0) all.push_back(some);
        }
        contents_.put(to->buffer, to->begin, to->end, all);
        break;
      }
      if (from->buffer == to->buffer) {
        if (from->begin != to->begin) {
          fail(op, "reads and writes parts of one buffer that are not the same");
        }
        break;
      }
      std::vector<Run> same;
      for (Run run : contents_.within(from->buffer, from->begin, from->end)) {
        run.at += to->begin - from->begin;
        same.push_back(run);
      }
      contents_.put(to->buffer, to->begin, to->end, same);
      break;
    }
    case CollectiveKind::gather:
      if ((from == nullptr && !plan.losses) || (root && to == nullptr)) {
        fail(op, "every rank gives, the root takes");
      }
      require(from, part);
      require(to, op.elements);
      break;
    case CollectiveKind::scatter:
      if ((root ? from : to) == nullptr) fail(op, "the root gives, every other rank takes");
      require(from, op.elements);
      require(to, part);
      break;
  }
  return plan;
}

void Planner::gathers(const Op& op, const std::vector<Extent>& reads, CollectivePlan& plan) {
  const Extent& from = reads.front();
  const Extent to = writes_of(op).front();
  const Axis axis = schedule_.communicators[static_cast<std::size_t>(op.comm)].axis;
  if (op.elements != to.count()) fail(op, "its size is not that of its output");
  const std::int64_t part = op.elements / schedule_.mesh.size(axis);
  const std::int64_t slot = to.begin + index_in_group(schedule_.mesh, axis, rank_) * part;
  const Bytes slot_at = slot * bytes_per_element(to.dtype);
  std::int64_t given = 0;
  for (const Extent& e : reads) given += e.count();
  if (from.buffer == to.buffer) {  // in place: this rank's slot; the view is an average rank's
    if (from.begin != to.begin || from.count() != part) fail(op, "reads no slot of its output");
    plan.send_at = slot_at;
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
    plan.send_at = slot_at;
  }
  if (to.dtype == Dtype::int64) return;  // numbers of the hosts', no tensor's
  if (layout_of(to.buffer) == nullptr) fail(op, "nobody has said what an all-gather makes");
  std::vector<Run> all;
  for (const Run& run : layout_runs(to.buffer)) {
    const Run some = cut(run, to.begin, to.end);
    if (some.count > 0) all.push_back(some);
  }
  contents_.put(to.buffer, to.begin, to.end, all);
}

// ZeRO's reduce to the owners.
void Planner::owned_by_root(const Op& op, const std::vector<Extent>& reads,
                            CollectivePlan& plan) const {
  for (const BufferLayout& layout : schedule_.layouts) {
    const Buffer& buffer = schedule_.buffers[static_cast<std::size_t>(layout.buffer)];
    if (layout.cut != Cut::flat || buffer.kind != BufferKind::gradient) continue;
    const std::vector<Run> owned = runs_of(schedule_, layout, op.root);
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
    return;
  }
  fail(op, "its size is not that of its views");
}

}  // namespace stepcast::runtime

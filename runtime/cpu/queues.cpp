#include "runtime/cpu/queues.hpp"

#include <algorithm>

namespace stepcast::runtime {
namespace {

// The streams whose passing makes a freed buffer's memory usable again.
std::vector<StreamIndex> streams_of_free(const Schedule& schedule, const Op& op) {
  std::vector<StreamIndex> list{schedule.buffers[static_cast<std::size_t>(op.buffer)].pool};
  if (op.free_rule == FreeRule::after_streams) {
    for (const StreamIndex s : schedule.at_streams(op.free_streams)) {
      if (std::find(list.begin(), list.end(), s) == list.end()) list.push_back(s);
    }
  }
  return list;
}

}  // namespace

Queues::Queues(const Schedule& schedule, const StepProgram& program)
    : lanes(schedule.lanes.size()),
      streams(schedule.streams.size()),
      communicators(schedule.communicators.size()),
      first_view(program.ops.size()),
      passes(program.ops.size(), 0) {
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    const auto index = static_cast<OpIndex>(i);
    lanes[static_cast<std::size_t>(op.lane)].push_back(index);
    if (runs_on_stream(op) || op.kind == OpKind::stream_wait) {
      streams[static_cast<std::size_t>(op.stream)].push_back(index);
    }
    if (op.kind == OpKind::collective) {
      communicators[static_cast<std::size_t>(op.comm)].push_back(index);
    }
    if (op.kind == OpKind::free) {
      for (const StreamIndex s : streams_of_free(schedule, op)) {
        streams[static_cast<std::size_t>(s)].push_back(index);
        ++passes[i];
      }
    }
    first_view[i] = views;
    views += op.reads.count + op.writes.count;
  }
}

LaneLocks::LaneLocks(const Schedule& schedule) : of_lane(schedule.lanes.size(), -1) {
  std::vector<Name> locks;
  for (std::size_t lane = 0; lane < of_lane.size(); ++lane) {
    const Name lock = schedule.lanes[lane].lock;
    if (lock.empty()) continue;
    const auto known = std::find(locks.begin(), locks.end(), lock);
    of_lane[lane] = static_cast<int>(known - locks.begin());
    if (known == locks.end()) locks.push_back(lock);
  }
  count = locks.size();
}

}  // namespace stepcast::runtime

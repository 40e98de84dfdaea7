#include "runtime/real_replay.hpp"

#include <algorithm>
#include <utility>

namespace stepcast::runtime {

namespace {

constexpr std::byte small_number{0x3c};  // in every dtype; no zeros, no NaN

// By communicator.
std::vector<std::size_t> largest_of(const Schedule& schedule) {
  std::vector<std::size_t> largest(schedule.communicators.size(), 0);
  for (const Role& role : schedule.roles) {
    for (const StepProgram& step : role.steps) {
      for (const Op& op : step.ops) {
        if (op.kind != OpKind::collective) continue;
        std::size_t& most = largest[static_cast<std::size_t>(op.comm)];
        most = std::max(most, static_cast<std::size_t>(bytes_of(op)));
      }
    }
  }
  return largest;
}

}  // namespace

Bytes RealReplay::memory_of(const Schedule& schedule) {
  Bytes all = 0;
  for (const std::size_t most : largest_of(schedule)) all += 2 * static_cast<Bytes>(most);
  return all * schedule.mesh.world_size();
}

RealReplay::RealReplay(const Schedule& schedule, Durations durations)
    : Replay(schedule, std::move(durations)) {
  const std::vector<std::size_t> largest = largest_of(schedule);
  tensors_.resize(static_cast<std::size_t>(schedule.mesh.world_size()));
  for (std::vector<Pair>& mine : tensors_) {
    for (const std::size_t most : largest) {
      mine.push_back({std::vector<std::byte>(most, small_number), std::vector<std::byte>(most)});
    }
  }
}

Operands RealReplay::operands(const OpContext& c) {
  Pair& pair = tensors_[static_cast<std::size_t>(c.rank)][static_cast<std::size_t>(c.op->comm)];
  return {pair.send.data(), pair.receive.data()};
}

Seconds RealReplay::duration(const OpContext& c) const {
  return c.op->kind == OpKind::collective ? 0 : Replay::duration(c);
}

}  // namespace stepcast::runtime

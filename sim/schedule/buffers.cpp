#include "sim/schedule/buffers.hpp"

namespace stepcast {
namespace {

std::vector<bool> touched_by(const Schedule& schedule, const Role& role) {
  std::vector<bool> touched(schedule.buffers.size(), false);
  for (const StepProgram& step : role.steps) {
    for (const Op& op : step.ops) {
      for (const Range range : {op.reads, op.writes}) {
        for (const View& view : schedule.at_views(range)) {
          touched[static_cast<std::size_t>(owner_of(schedule, view.buffer))] = true;
        }
      }
    }
  }
  return touched;
}

}  // namespace

BufferIndex owner_of(const Schedule& schedule, BufferIndex buffer) {
  while (schedule.buffers[static_cast<std::size_t>(buffer)].view_of >= 0) {
    buffer = schedule.buffers[static_cast<std::size_t>(buffer)].view_of;
  }
  return buffer;
}

std::vector<bool> persistent_of_role(const Schedule& schedule, int role) {
  std::vector<bool> held(schedule.buffers.size(), false);
  for (std::size_t b = 0; b < held.size(); ++b) {
    held[b] = schedule.buffers[b].persistent && schedule.buffers[b].view_of < 0;
  }
  if (schedule.roles.size() < 2) return held;
  std::vector<std::vector<bool>> touched;
  for (const Role& each : schedule.roles) touched.push_back(touched_by(schedule, each));
  for (std::size_t b = 0; b < held.size(); ++b) {
    if (touched[static_cast<std::size_t>(role)][b]) continue;
    for (const std::vector<bool>& of_role : touched) {
      if (of_role[b]) held[b] = false;
    }
  }
  return held;
}

}  // namespace stepcast

#include "sim/engines/memory_samples.hpp"

namespace stepcast {
namespace {

BufferIndex owner_of(const Schedule& schedule, BufferIndex index) {
  while (schedule.buffers[static_cast<std::size_t>(index)].view_of >= 0) {
    index = schedule.buffers[static_cast<std::size_t>(index)].view_of;
  }
  return index;
}

// touched[b]: some op of the role reads or writes buffer b or a view of it.
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

MemorySamples::MemorySamples(const RunPlan& plan, int role) : plan_(plan), role_(role) {
  const Schedule& schedule = plan.schedule();
  std::vector<std::vector<bool>> touched;
  if (plan.roles() > 1) {
    for (const Role& each : schedule.roles) touched.push_back(touched_by(schedule, each));
  }
  const auto belongs = [&](std::size_t buffer) {
    if (touched.empty() || touched[static_cast<std::size_t>(role)][buffer]) return true;
    for (const auto& of_role : touched) {
      if (of_role[buffer]) return false;
    }
    return true;
  };
  for (std::size_t b = 0; b < schedule.buffers.size(); ++b) {
    const Buffer& buffer = schedule.buffers[b];
    if (buffer.persistent && buffer.view_of < 0 && belongs(b)) allocated_ += buffer.bytes;
  }
}

void MemorySamples::add_step(int step, const Seconds* host_times,
                             std::vector<MemorySample>& samples) {
  const std::vector<Op>& ops = plan_.ops_of(role_, step).ops;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Op& op = ops[i];
    if (op.kind != OpKind::alloc && op.kind != OpKind::free) continue;
    const Buffer& buffer = plan_.schedule().buffers[static_cast<std::size_t>(op.buffer)];
    const Bytes bytes = buffer.view_of >= 0 ? 0 : buffer.bytes;
    allocated_ += op.kind == OpKind::alloc ? bytes : -bytes;
    samples.push_back({role_, step, static_cast<OpIndex>(i), host_times[i], allocated_});
  }
}

}  // namespace stepcast

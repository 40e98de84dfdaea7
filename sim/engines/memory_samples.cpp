#include "sim/engines/memory_samples.hpp"

#include "sim/schedule/buffers.hpp"

namespace stepcast {

MemorySamples::MemorySamples(const RunPlan& plan, int role) : plan_(plan), role_(role) {
  const Schedule& schedule = plan.schedule();
  const std::vector<bool> held = persistent_of_role(schedule, role);
  for (std::size_t b = 0; b < held.size(); ++b) {
    if (held[b]) allocated_ += schedule.buffers[b].bytes;
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

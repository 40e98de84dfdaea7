#include "runtime/train/widened.hpp"

namespace stepcast::runtime {
namespace {

bool grows(Dtype dtype) { return dtype == Dtype::fp32 || dtype == Dtype::tf32; }

}  // namespace

Schedule widened(Schedule schedule) {
  std::vector<bool> wide;
  wide.reserve(schedule.buffers.size());
  for (Buffer& buffer : schedule.buffers) {
    wide.push_back(grows(buffer.dtype));
    if (!wide.back()) continue;
    buffer.dtype = Dtype::fp64;
    buffer.bytes *= 2;
    buffer.view_offset *= 2;
  }
  for (View& view : schedule.views) {
    if (!wide[static_cast<std::size_t>(view.buffer)]) continue;
    view.offset *= 2;
    view.bytes *= 2;
  }
  for (Role& role : schedule.roles) {
    for (StepProgram& program : role.steps) {
      for (Op& op : program.ops) {
        if (op.kind == OpKind::collective && grows(op.dtype)) op.dtype = Dtype::fp64;
        if (op.kind != OpKind::copy) continue;
        op.bytes = 0;
        const Range moved = op.reads.count > 0 ? op.reads : op.writes;
        for (const View& view : schedule.at_views(moved)) op.bytes += view.bytes;
      }
    }
  }
  return schedule;
}

}  // namespace stepcast::runtime

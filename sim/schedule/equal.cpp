#include <algorithm>

#include "sim/schedule/schedule.hpp"

namespace stepcast {
namespace {

bool same(const Lane& a, const Lane& b) {
  return a.name == b.name && a.lock == b.lock && a.sharers == b.sharers;
}
bool same(const Stream& a, const Stream& b) { return a.name == b.name && a.priority == b.priority; }
bool same(const Communicator& a, const Communicator& b) {
  return a.name == b.name && a.axis == b.axis;
}
bool same(const Buffer& a, const Buffer& b) {
  return a.name == b.name && a.kind == b.kind && a.dtype == b.dtype && a.bytes == b.bytes &&
         a.pool == b.pool && a.persistent == b.persistent && a.view_of == b.view_of &&
         (a.view_of < 0 || a.view_offset == b.view_offset);
}
bool same(const View& a, const View& b) {
  return a.buffer == b.buffer && a.offset == b.offset && a.bytes == b.bytes;
}
bool same(const OpRef& a, const OpRef& b) { return a.op == b.op && a.steps_back == b.steps_back; }

template <typename ListA, typename ListB>
bool same_list(const ListA& a, const ListB& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return same(x, y); });
}

bool same_of_kind(const Schedule& in_a, const Op& a, const Schedule& in_b, const Op& b) {
  switch (a.kind) {
    case OpKind::collective:
      return a.collective == b.collective && a.reduction == b.reduction && a.dtype == b.dtype &&
             a.comm == b.comm && a.root == b.root && a.elements == b.elements;
    case OpKind::copy: return a.copy == b.copy && a.bytes == b.bytes;
    case OpKind::storage: return a.bytes == b.bytes;
    case OpKind::host_work: return a.cost == b.cost && a.count == b.count;
    case OpKind::host_wait:
      return a.wait_target == b.wait_target &&
             (a.wait_target != WaitTarget::stream || a.wait_stream == b.wait_stream);
    case OpKind::alloc: return a.buffer == b.buffer;
    case OpKind::free: {
      const auto streams_a = in_a.at_streams(a.free_streams);
      const auto streams_b = in_b.at_streams(b.free_streams);
      return a.buffer == b.buffer && a.free_rule == b.free_rule &&
             std::equal(streams_a.begin(), streams_a.end(), streams_b.begin(), streams_b.end());
    }
    case OpKind::compute:
    case OpKind::stream_wait: return true;
  }
  return false;
}

bool same_op(const Schedule& in_a, const Op& a, const Schedule& in_b, const Op& b) {
  const auto kernels_a = in_a.at_kernels(a.kernels);
  const auto kernels_b = in_b.at_kernels(b.kernels);
  return a.kind == b.kind && a.phase == b.phase && a.micro_batch == b.micro_batch &&
         a.unit == b.unit && a.verb == b.verb && a.rule == b.rule && a.lane == b.lane &&
         a.stream == b.stream && a.launches == b.launches && same_of_kind(in_a, a, in_b, b) &&
         same_list(in_a.at_refs(a.waits), in_b.at_refs(b.waits)) &&
         same_list(in_a.at_views(a.reads), in_b.at_views(b.reads)) &&
         same_list(in_a.at_views(a.writes), in_b.at_views(b.writes)) &&
         std::equal(kernels_a.begin(), kernels_a.end(), kernels_b.begin(), kernels_b.end());
}

bool same_role(const Schedule& in_a, const Role& a, const Schedule& in_b, const Role& b) {
  const auto same_step = [&](const StepProgram& x, const StepProgram& y) {
    return x.name == y.name &&
           std::equal(x.ops.begin(), x.ops.end(), y.ops.begin(), y.ops.end(),
                      [&](const Op& p, const Op& q) { return same_op(in_a, p, in_b, q); });
  };
  return a.name == b.name && a.first_rank == b.first_rank && a.rank_count == b.rank_count &&
         (a.rank_count <= 1 || a.rank_stride == b.rank_stride) && a.listed == b.listed &&
         std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(), same_step);
}

}  // namespace

bool equal(const Schedule& a, const Schedule& b) {
  const auto same_roles = [&](const Role& x, const Role& y) { return same_role(a, x, b, y); };
  return a.name == b.name && a.mesh.replicate == b.mesh.replicate && a.mesh.shard == b.mesh.shard &&
         same_list(a.lanes, b.lanes) && same_list(a.streams, b.streams) &&
         same_list(a.communicators, b.communicators) && a.units == b.units &&
         same_list(a.buffers, b.buffers) && a.notes == b.notes &&
         std::equal(a.roles.begin(), a.roles.end(), b.roles.begin(), b.roles.end(), same_roles);
}

}  // namespace stepcast

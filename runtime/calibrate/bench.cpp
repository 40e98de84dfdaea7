#include "runtime/calibrate/bench.hpp"

#include <algorithm>

#include "sim/schedule/builder.hpp"

namespace stepcast::runtime {

namespace {

ScheduleBuilder begin(const char* name, Mesh mesh) {
  ScheduleBuilder b(name, mesh);
  b.lane("main");
  b.role("all", 0, mesh.world_size());
  b.step("steady");
  return b;
}

bool reduces(CollectiveKind op) {
  return op == CollectiveKind::all_reduce || op == CollectiveKind::reduce_scatter ||
         op == CollectiveKind::reduce;
}

// Where cases read and write: one pair of tensors for all of them, so that a bench of many sizes
// takes the memory of the largest.
struct Tensors {
  BufferIndex whole = -1, part = -1;
};

Tensors tensors_for(ScheduleBuilder& b, const std::vector<CollectiveCase>& cases, int ranks) {
  Bytes whole = 0, part = 0;
  for (const CollectiveCase& c : cases) {
    const Bytes bytes = moved_bytes(c, ranks);
    whole = std::max(whole, bytes);
    const bool has_part =
        c.op == CollectiveKind::all_gather || c.op == CollectiveKind::reduce_scatter;
    if (has_part) part = std::max(part, bytes / ranks);
  }
  Tensors tensors;
  tensors.whole = b.persistent("whole", BufferKind::other, Dtype::fp32, whole);
  if (part > 0) tensors.part = b.persistent("part", BufferKind::other, Dtype::fp32, part);
  return tensors;
}

void issue(ScheduleBuilder& b, const Tensors& tensors, CommIndex comm, StreamIndex stream,
           const CollectiveCase& c, int ranks) {
  const Bytes bytes = moved_bytes(c, ranks);
  const View whole{tensors.whole, 0, bytes};
  const View part{tensors.part, 0, bytes / ranks};
  const bool gathers = c.op == CollectiveKind::all_gather;
  const bool scatters = c.op == CollectiveKind::reduce_scatter;
  const bool rooted = c.op == CollectiveKind::broadcast || c.op == CollectiveKind::reduce;
  const View reads[] = {gathers ? part : whole};
  const View writes[] = {scatters ? part : whole};
  b.collective("collective", c.op, comm, stream, c.dtype, bytes / bytes_per_element(c.dtype),
               reduces(c.op) ? Reduction::sum : Reduction::none, reads, writes, rooted ? 0 : -1);
}

void issue_ops(ScheduleBuilder& b, StreamIndex stream, const Kernel& kernel, int ops) {
  const Range kernels = b.kernels({&kernel, 1});
  for (int i = 0; i < ops; ++i) b.compute("op", stream, kernels, {}, {});
}

}  // namespace

Bytes moved_bytes(const CollectiveCase& what, int ranks) {
  const Bytes element = bytes_per_element(what.dtype);
  return round_up(std::max<std::int64_t>(ceil_div(what.bytes, element), 1), ranks) * element;
}

Schedule collectives_bench(Mesh mesh, Axis axis, const std::vector<CollectiveCase>& cases) {
  ScheduleBuilder b = begin("collectives", mesh);
  const int ranks = mesh.size(axis);
  const StreamIndex stream = b.stream("collectives");
  const CommIndex comm = b.communicator(to_string(axis), axis);
  const Tensors tensors = tensors_for(b, cases, ranks);
  for (const CollectiveCase& c : cases) issue(b, tensors, comm, stream, c, ranks);
  b.host_wait_device();
  return b.take();
}

Schedule kernels_bench(Mesh mesh, const std::vector<Kernel>& kernels) {
  ScheduleBuilder b = begin("kernels", mesh);
  const StreamIndex stream = b.stream("compute");
  for (const Kernel& kernel : kernels) b.one_kernel("kernel", stream, kernel, {}, {});
  b.host_wait_device();
  return b.take();
}

Schedule equal_ops_bench(Mesh mesh, const Kernel& kernel, int ops) {
  ScheduleBuilder b = begin("equal ops", mesh);
  issue_ops(b, b.stream("compute"), kernel, ops);
  b.host_wait_device();
  return b.take();
}

Schedule overlap_bench(Mesh mesh, Axis axis, const Kernel& kernel, int ops,
                       const CollectiveCase& what, int collectives) {
  ScheduleBuilder b = begin("overlap", mesh);
  const int ranks = mesh.size(axis);
  const StreamIndex compute = b.stream("compute");
  const StreamIndex stream = b.stream("collectives");
  const CommIndex comm = b.communicator(to_string(axis), axis);
  const Tensors tensors = tensors_for(b, {what}, ranks);
  // Interleaved, so that neither stream waits until the host has issued all of the other's.
  int issued = 0;
  for (int i = 0; i < collectives; ++i) {
    issue(b, tensors, comm, stream, what, ranks);
    const int until = ops * (i + 1) / collectives;
    issue_ops(b, compute, kernel, until - issued);
    issued = until;
  }
  b.host_wait_device();
  return b.take();
}

Durations timed(const Schedule& schedule, Seconds op_seconds) {
  Durations all;
  for (const Role& role : schedule.roles) {
    auto& programs = all.emplace_back();
    for (const StepProgram& step : role.steps) {
      auto& ops = programs.emplace_back();
      for (const Op& op : step.ops) {
        ops.push_back({op.kind == OpKind::compute ? op_seconds : 0, 0});
      }
    }
  }
  return all;
}

namespace {

const Op& op_of(const Schedule& schedule, const Span& span) {
  return schedule.roles.front().steps.back().ops[static_cast<std::size_t>(span.op)];
}

template <typename Visit>
void each_span(const Schedule& schedule, const Timeline& timeline, OpKind kind, Visit&& visit) {
  for (const Span& span : timeline.spans) {
    if (span.role != 0 || span.step == 0 || op_of(schedule, span).kind != kind) continue;
    visit(span);
  }
}

}  // namespace

std::vector<std::vector<Seconds>> durations(const Schedule& schedule, const Timeline& timeline,
                                            OpKind kind) {
  std::vector<std::vector<Seconds>> out;
  std::vector<std::int64_t> case_of(schedule.roles.front().steps.back().ops.size(), -1);
  const std::vector<Op>& ops = schedule.roles.front().steps.back().ops;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind != kind) continue;
    case_of[i] = static_cast<std::int64_t>(out.size());
    out.emplace_back();
  }
  each_span(schedule, timeline, kind, [&](const Span& span) {
    const std::int64_t which = case_of[static_cast<std::size_t>(span.op)];
    out[static_cast<std::size_t>(which)].push_back(span.end - span.start);
  });
  return out;
}

std::vector<Seconds> accompanied(const Schedule& schedule, const Timeline& timeline) {
  std::vector<Seconds> last;  // end of the ops, by repetition
  each_span(schedule, timeline, OpKind::compute, [&](const Span& span) {
    last.resize(std::max(last.size(), static_cast<std::size_t>(span.step)), 0);
    Seconds& end = last[static_cast<std::size_t>(span.step) - 1];
    end = std::max(end, span.end);
  });
  std::vector<Seconds> out;
  each_span(schedule, timeline, OpKind::collective, [&](const Span& span) {
    const auto step = static_cast<std::size_t>(span.step) - 1;
    if (step < last.size() && span.start < last[step]) out.push_back(span.end - span.start);
  });
  return out;
}

std::vector<Seconds> extents(const Schedule& schedule, const Timeline& timeline, OpKind kind) {
  std::vector<Seconds> first, last;
  each_span(schedule, timeline, kind, [&](const Span& span) {
    const auto step = static_cast<std::size_t>(span.step) - 1;
    if (step >= first.size()) {
      first.resize(step + 1, span.start);
      last.resize(step + 1, span.end);
    }
    first[step] = std::min(first[step], span.start);
    last[step] = std::max(last[step], span.end);
  });
  for (std::size_t i = 0; i < first.size(); ++i) last[i] -= first[i];
  return last;
}

}  // namespace stepcast::runtime

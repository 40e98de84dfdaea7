#include "sim/report/step_view.hpp"

#include <utility>

namespace stepcast {

Shade shade_of(const Op& op) {
  static const Name compute("compute");
  static const Name recompute("recompute");
  switch (op.kind) {
    case OpKind::collective:
      if (op.collective == CollectiveKind::all_gather) return Shade::gather;
      if (op.collective == CollectiveKind::reduce_scatter) return Shade::scatter;
      return Shade::reduce;
    case OpKind::compute:
      if (op.phase == Phase::optimizer) return Shade::optimizer;
      if (op.verb == recompute) return Shade::recompute;
      if (op.verb != compute) return Shade::copy;
      return op.phase == Phase::backward ? Shade::backward : Shade::forward;
    case OpKind::copy: return Shade::copy;
    default: return Shade::host;
  }
}

std::string_view to_string(Bound bound) {
  switch (bound) {
    case Bound::start: return "start";
    case Bound::host: return "host";
    case Bound::stream: return "stream";
    case Bound::wait: return "wait";
    case Bound::communicator: return "communicator";
    case Bound::peer: return "peer";
  }
  return "";
}

StepView::StepView(const Schedule& schedule, const Timeline& timeline, int step, std::int32_t role)
    : step_(step < 0 ? static_cast<int>(timeline.steps.size()) - 1 : step), role_(role) {
  const StepSpan& span = timeline.steps.at(static_cast<std::size_t>(step_));
  for (const Role& each : schedule.roles) {
    programs_.push_back(&each.steps.at(static_cast<std::size_t>(span.program_index)));
  }
  begin_ = span.begin;
  end_ = span.end;
  collect(schedule, timeline, role);
  for (std::int32_t other = 0; other < static_cast<std::int32_t>(schedule.roles.size()); ++other) {
    if (other != role) collect(schedule, timeline, other);
  }
  for (const MemorySample& sample : timeline.memory) {
    if (sample.step == step_ && sample.role == role) samples_.push_back(&sample);
  }
}

const Op& StepView::op_of(const Span& span) const {
  return program(span.role).ops[static_cast<std::size_t>(span.op)];
}

void StepView::collect(const Schedule& schedule, const Timeline& timeline, std::int32_t role) {
  const bool asked = role == role_;
  const std::string who = schedule.roles.size() == 1
                              ? ""
                              : schedule.roles[static_cast<std::size_t>(role)].name.str() + " ";
  StepRow host{who + "host", {}};
  std::vector<StepRow> streams;
  for (const Stream& stream : schedule.streams) streams.push_back({who + stream.name.str(), {}});
  for (const Span& span : timeline.spans) {
    if (span.step != step_ || span.role != role || span.end <= span.start) continue;
    if (span.end <= begin_ || span.start >= end_) continue;  // the host, ahead of the device
    const Op& op = op_of(span);
    if (op.stream == 0 && asked) compute_.push_back(&span);
    if (op.stream >= 0) {
      streams[static_cast<std::size_t>(op.stream)].spans.push_back(&span);
    } else if (asked) {
      host.spans.push_back(&span);
    }
  }
  if (!host.spans.empty()) rows_.push_back(std::move(host));
  for (StepRow& row : streams) {
    if (!row.spans.empty()) rows_.push_back(std::move(row));
  }
}

Seconds StepView::reached(OpIndex op, std::size_t& from) const {
  while (from < compute_.size() && compute_[from]->op < op) ++from;
  return from < compute_.size() ? compute_[from]->start : end_;
}

}  // namespace stepcast

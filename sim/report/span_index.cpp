#include "sim/report/span_index.hpp"

namespace stepcast {

SpanIndex::SpanIndex(const Schedule& schedule, const Timeline& timeline, int role)
    : schedule_(schedule), timeline_(timeline), role_(role) {
  const std::size_t steps = timeline.steps.size();
  first_step_ = static_cast<std::int32_t>(steps >= 2 ? steps - 2 : 0);
  of_.resize(steps - static_cast<std::size_t>(first_step_));
  for (std::size_t i = 0; i < of_.size(); ++i) {
    of_[i].assign(program(first_step_ + static_cast<std::int32_t>(i)).ops.size(), -1);
  }
  for (std::size_t i = timeline.spans.size(); i-- > 0;) {
    const Span& span = timeline.spans[i];
    if (span.step < first_step_) break;  // ordered by step
    if (span.role != role) continue;
    of_[static_cast<std::size_t>(span.step - first_step_)][static_cast<std::size_t>(span.op)] =
        static_cast<std::int32_t>(i);
  }
}

const StepProgram& SpanIndex::program(std::int32_t step) const {
  const auto index =
      static_cast<std::size_t>(timeline_.steps[static_cast<std::size_t>(step)].program_index);
  return schedule_.roles[static_cast<std::size_t>(role_)].steps[index];
}

const Span* SpanIndex::find(std::int32_t step, OpIndex op) const {
  if (step < first_step_ || op < 0) return nullptr;
  const auto& ops = of_[static_cast<std::size_t>(step - first_step_)];
  const std::int32_t at = ops[static_cast<std::size_t>(op)];
  return at < 0 ? nullptr : &timeline_.spans[static_cast<std::size_t>(at)];
}

const Span* SpanIndex::before_on_stream(const Span& span) const {
  const StreamIndex stream = op(span).stream;
  OpIndex from = span.op;
  for (std::int32_t step = span.step; step >= first_step_; --step) {
    const std::vector<Op>& ops = program(step).ops;
    if (step != span.step) from = static_cast<OpIndex>(ops.size());
    while (from-- > 0) {
      if (ops[static_cast<std::size_t>(from)].stream != stream) continue;
      if (const Span* found = find(step, from)) return found;
    }
  }
  return nullptr;
}

std::vector<const Span*> SpanIndex::on_stream(StreamIndex stream) const {
  std::vector<const Span*> list;
  const std::vector<Op>& ops = program(last_step()).ops;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].stream != stream || ops[i].kind == OpKind::stream_wait) continue;
    if (const Span* span = find(last_step(), static_cast<OpIndex>(i))) list.push_back(span);
  }
  return list;
}

const Span* SpanIndex::last_to_end() const {
  const Span* last = nullptr;
  const std::size_t ops = program(last_step()).ops.size();
  for (std::size_t i = 0; i < ops; ++i) {
    const Span* span = find(last_step(), static_cast<OpIndex>(i));
    if (span != nullptr && (last == nullptr || span->end > last->end)) last = span;
  }
  return last;
}

StreamIndex compute_stream(const Schedule& schedule, const StepProgram& program) {
  static const Name compute("compute");
  for (std::size_t i = 0; i < schedule.streams.size(); ++i) {
    if (schedule.streams[i].name == compute) return static_cast<StreamIndex>(i);
  }
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::compute) return op.stream;
  }
  return -1;
}

bool is_model_work(const Op& op) {
  static const Name compute("compute");
  static const Name recompute("recompute");
  return op.kind == OpKind::compute && op.phase != Phase::optimizer &&
         (op.verb == compute || op.verb == recompute);
}

}  // namespace stepcast

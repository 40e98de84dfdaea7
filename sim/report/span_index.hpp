#pragma once
// The spans of one role in the last steps of a timeline, findable by op: what walks back from an op
// to the one that bound it needs (split.cpp, sim/explain).

#include <cstdint>
#include <vector>

#include "sim/schedule/schedule.hpp"
#include "sim/schedule/timeline.hpp"

namespace stepcast {

class SpanIndex {
 public:
  // Keeps references: both must outlive it.
  SpanIndex(const Schedule& schedule, const Timeline& timeline, int role);

  std::int32_t last_step() const { return static_cast<std::int32_t>(timeline_.steps.size()) - 1; }
  const StepProgram& program(std::int32_t step) const;
  const Op& op(const Span& span) const {
    return program(span.step).ops[static_cast<std::size_t>(span.op)];
  }
  // nullptr: no such span, or before the last two steps.
  const Span* find(std::int32_t step, OpIndex op) const;
  // The op before it on its stream, in this step or the one before; nullptr: none.
  const Span* before_on_stream(const Span& span) const;
  // The spans of a stream in the last step, in order.
  std::vector<const Span*> on_stream(StreamIndex stream) const;
  // The one of the last step that ends last; nullptr: it has none.
  const Span* last_to_end() const;

 private:
  const Schedule& schedule_;
  const Timeline& timeline_;
  int role_;
  std::int32_t first_step_ = 0;
  std::vector<std::vector<std::int32_t>> of_;  // [step - first_step_][op] -> index of the span
};

// The stream named "compute", else that of the first kernels; -1: there are none.
StreamIndex compute_stream(const Schedule& schedule, const StepProgram& program);
// Forward, backward, recomputation and loss: not the optimizer, not a strategy's copies.
bool is_model_work(const Op& op);

}  // namespace stepcast

#include "runtime/cuda/spans.hpp"

#include <algorithm>

#include "sim/schedule/same_ops.hpp"

namespace stepcast::runtime {
namespace {

struct Place {
  int step = 0;
  OpIndex op = -1;
  Seconds end = 0;
};

class Spans {
 public:
  Spans(const Schedule& schedule, int role, const std::vector<int>& programs,
        const std::vector<std::vector<OpTimes>>& times)
      : schedule_(schedule),
        steps_(schedule.roles[static_cast<std::size_t>(role)].steps),
        programs_(programs),
        times_(times),
        on_stream_(schedule.streams.size()),
        waited_(schedule.streams.size()),
        on_comm_(schedule.communicators.size()),
        same_(steps_),
        role_(role) {}

  std::vector<Span> go() {
    for (std::size_t step = 0; step < programs_.size(); ++step) {
      const StepProgram& program = steps_[static_cast<std::size_t>(programs_[step])];
      for (std::size_t i = 0; i < program.ops.size(); ++i) {
        add(static_cast<int>(step), static_cast<OpIndex>(i), program.ops[i]);
      }
    }
    return std::move(spans_);
  }

 private:
  const OpTimes& times(int step, OpIndex op) const {
    return times_[static_cast<std::size_t>(step)][static_cast<std::size_t>(op)];
  }

  Place awaited(int step, OpRef ref) {
    const int earlier = step - ref.steps_back;
    if (earlier < 0 || ref.op < 0) return {};
    const int here = programs_[static_cast<std::size_t>(step)];
    const int there = programs_[static_cast<std::size_t>(earlier)];
    const OpIndex op =
        same_(static_cast<std::size_t>(here), static_cast<std::size_t>(there), ref.op);
    if (op < 0) return {};
    return {earlier, op, times(earlier, op).end};
  }

  void add(int step, OpIndex index, const Op& op) {
    if (op.kind == OpKind::stream_wait) {
      for (const OpRef ref : schedule_.at_refs(op.waits)) {
        const Place place = awaited(step, ref);
        Place& latest = waited_[static_cast<std::size_t>(op.stream)];
        if (place.op >= 0 && place.end > latest.end) latest = place;
      }
      return;
    }
    if (op.kind == OpKind::alloc || op.kind == OpKind::free) return;
    const OpTimes& when = times(step, index);
    Span span;
    span.role = role_;
    span.step = step;
    span.op = index;
    span.issued = std::min(when.issued, when.start);
    span.start = when.start;
    span.end = when.end;
    span.solo = when.end - when.start;
    if (op.stream < 0) {
      span.bound = op.kind == OpKind::host_wait ? Bound::wait : Bound::host;
      spans_.push_back(span);
      return;
    }
    Seconds latest = when.issued;
    span.bound = Bound::host;
    const auto bound_by = [&](const Place& place, Bound bound) {
      if (place.op < 0 || place.end < latest) return;
      latest = place.end;
      span.bound = bound;
      span.cause = place.op;
      span.cause_step = place.step;
    };
    Place& before = on_stream_[static_cast<std::size_t>(op.stream)];
    Place& wait = waited_[static_cast<std::size_t>(op.stream)];
    bound_by(before, Bound::stream);
    bound_by(wait, Bound::wait);
    if (op.kind == OpKind::collective) {
      Place& comm = on_comm_[static_cast<std::size_t>(op.comm)];
      if (comm.end > latest) bound_by(comm, Bound::communicator);
      comm = {step, index, when.end};
    }
    before = {step, index, when.end};
    wait = {};
    spans_.push_back(span);
  }

  const Schedule& schedule_;
  const std::vector<StepProgram>& steps_;
  const std::vector<int>& programs_;
  const std::vector<std::vector<OpTimes>>& times_;
  std::vector<Place> on_stream_, waited_, on_comm_;
  SameOps same_;
  std::vector<Span> spans_;
  int role_;
};

}  // namespace

std::vector<Span> spans_of(const Schedule& schedule, int role, const std::vector<int>& programs,
                           const std::vector<std::vector<OpTimes>>& times) {
  return Spans(schedule, role, programs, times).go();
}

}  // namespace stepcast::runtime

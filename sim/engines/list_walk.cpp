#include "sim/engines/list_walk.hpp"

#include <algorithm>

#include "sim/engines/constraint.hpp"
#include "sim/engines/memory_samples.hpp"

namespace stepcast {
namespace {

class ListWalk {
 public:
  explicit ListWalk(RunPlan& plan)
      : plan_(plan),
        lanes_(std::max<std::size_t>(1, plan.schedule().lanes.size()), 0.0),
        streams_(plan.schedule().streams.size()),
        comms_(plan.schedule().communicators.size()) {}

  Timeline run() {
    MemorySamples memory(plan_, 0);
    Seconds end = 0;
    for (int step = 0; step < plan_.steps(); ++step) {
      last_end_ = 0;
      on_stream_ = false;
      walk(step);
      for (const Seconds each : ends_.back()) {
        if (!on_stream_) last_end_ = std::max(last_end_, each);
      }
      timeline_.steps.push_back(step_span(plan_, step, end, last_end_));
      const Seconds length = timeline_.steps.back().end - end;
      end = timeline_.steps.back().end;
      if (plan_.options().memory) memory.add_step(step, ends_.back().data(), timeline_.memory);
      if (plan_.steady_after(step, length)) break;
    }
    return std::move(timeline_);
  }

 private:
  void walk(int step) {
    const std::vector<Op>& ops = plan_.ops_of(0, step).ops;
    const std::vector<std::int32_t>& costs = plan_.costs_of(0, step);
    static const OpCost nothing{};
    timeline_.spans.reserve(timeline_.spans.size() + ops.size());
    ends_.emplace_back(ops.size(), 0.0);
    Seconds* ends = ends_.back().data();
    if (!ops.empty()) lanes_[static_cast<std::size_t>(ops[0].lane)] += plan_.delay(0, step);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const Op& op = ops[i];
      const OpCost& cost =
          costs[i] < 0 ? nothing : plan_.costs().costs[static_cast<std::size_t>(costs[i])];
      ends[i] = visit(op, {step, static_cast<OpIndex>(i)}, cost);
    }
  }

  // Moves the op's lane, stream and communicator on; returns when the op is done.
  Seconds visit(const Op& op, OpAt at, const OpCost& cost) {
    Seconds& lane = lanes_[static_cast<std::size_t>(op.lane)];
    const Seconds begin = lane;
    lane += cost.host;
    switch (op.kind) {
      case OpKind::compute:
      case OpKind::copy: return run_on_stream(op, at, cost, begin, nullptr);
      case OpKind::collective:
        return run_on_stream(op, at, cost, begin, &comms_[static_cast<std::size_t>(op.comm)]);
      case OpKind::stream_wait: {
        Constraint& stream = streams_[static_cast<std::size_t>(op.stream)];
        stream.later(lane, Bound::host);
        wait_for(op, at.step, stream);
        return stream.at;
      }
      case OpKind::host_wait: {
        Constraint held{lane, Bound::host, {}};
        wait_for(op, at.step, held);
        if (op.wait_target != WaitTarget::ops) {
          for (std::size_t s = 0; s < streams_.size(); ++s) {
            if (op.wait_target == WaitTarget::stream && op.wait_stream != static_cast<int>(s)) {
              continue;
            }
            held.later(streams_[s].at, Bound::wait, streams_[s].cause);
          }
        }
        add_span(at, begin, begin, held.at, cost.host, held);
        return lane = held.at;
      }
      case OpKind::host_work:
        add_span(at, begin, begin, lane, cost.host, {begin, why_host(begin), {}});
        return lane;
      case OpKind::storage: {
        const Seconds issued = lane;
        lane = issued + cost.solo;
        add_span(at, issued, issued, lane, cost.solo, {issued, why_host(issued), {}});
        return lane;
      }
      case OpKind::alloc:
      case OpKind::free: return lane;
    }
    return lane;
  }

  Seconds run_on_stream(const Op& op, OpAt at, const OpCost& cost, Seconds begin,
                        Constraint* comm) {
    Constraint& stream = streams_[static_cast<std::size_t>(op.stream)];
    Constraint ready = stream;
    if (comm != nullptr) ready.later(comm->at, Bound::communicator, comm->cause);
    const Seconds first = first_launch(begin, op, cost.host);
    ready.later(first, Bound::host);
    const Seconds end =
        std::max(ready.at + cost.solo, earliest_end(op, begin + cost.host, cost.solo));
    add_span(at, first, ready.at, end, cost.solo, ready);
    stream = {end, Bound::stream, at};
    if (comm != nullptr) *comm = stream;
    last_end_ = std::max(last_end_, end);
    on_stream_ = true;
    return end;
  }

  void wait_for(const Op& op, int step, Constraint& held) const {
    for (const OpRef& ref : plan_.schedule().at_refs(op.waits)) {
      const OpAt awaited = plan_.resolve(0, step, ref);
      if (!awaited.exists()) continue;
      held.later(
          ends_[static_cast<std::size_t>(awaited.step)][static_cast<std::size_t>(awaited.op)],
          Bound::wait, awaited);
    }
  }

  static Bound why_host(Seconds begin) { return begin > 0 ? Bound::host : Bound::start; }

  void add_span(OpAt at, Seconds issued, Seconds start, Seconds end, Seconds solo,
                const Constraint& why) {
    timeline_.spans.push_back({0, at.step, at.op, issued, start, end, solo, why.bound, why.cause.op,
                               std::max(0, why.cause.step)});
  }

  RunPlan& plan_;
  Timeline timeline_;
  std::vector<Seconds> lanes_;              // when each lane is free
  std::vector<Constraint> streams_;         // what holds the next op of each stream
  std::vector<Constraint> comms_;           // the same of each communicator
  std::vector<std::vector<Seconds>> ends_;  // per executed step, per op
  Seconds last_end_ = 0;  // of this step: on any stream, or of any op when none is on a stream
  bool on_stream_ = false;
};

}  // namespace

bool is_one_pass(const Schedule& schedule) {
  if (schedule.roles.size() != 1) return false;
  for (std::size_t a = 0; a < schedule.lanes.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const Name lock = schedule.lanes[a].lock;
      if (!lock.empty() && lock == schedule.lanes[b].lock) return false;
    }
  }
  return true;
}

Timeline list_walk(RunPlan& plan) { return ListWalk(plan).run(); }

}  // namespace stepcast

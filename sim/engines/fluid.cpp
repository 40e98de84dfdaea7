// The fluid engine: the ready queue says what may start, SimGrid says how long it takes beside what
// else is running.
//
// Resources: each resource of the cost table, of every role. A segment is one SimGrid task that
// asks each of them for its demand and, as long as nothing holds it, takes its time alone: nothing
// runs faster. A collective is one task on the resources of all roles in it: it moves at the pace
// of the most contended. The streams of a role share the role's resources; that is all the
// contention there is (a stream runs one op at a time, so it needs no resource of its own).
//
// Example: GEMM (sm 1 ms) beside a collective that holds 15 % of the SMs for 1 ms: the collective
// ends at 1 ms, the GEMM at 1.15 ms.
//
// A segment that took as long as alone, up to the rounding of SimGrid's clock, is given exactly
// that time: where nothing contends the timeline equals the formula engine's to the last digit, and
// does not depend on what ran before in the process.
//
// Cost: 2 to 3 us a segment. Tested by tests/unit/engines (by hand) and tests/differential.

#include <algorithm>
#include <exception>
#include <string>

#include "base/error.hpp"
#include "sim/engines/engine.hpp"
#include "sim/engines/ready_queue.hpp"
#include "sim/engines/simgrid_tasks.hpp"

namespace stepcast {
namespace {

class FluidRun final : public ReadyQueue, private SimgridTasks::Listener {
 public:
  explicit FluidRun(RunPlan& plan)
      : ReadyQueue(plan), kinds_(static_cast<int>(plan.costs().resources.size())) {}

  Timeline run() {
    SimgridTasks tasks(*this);
    tasks_ = &tasks;
    guarded([this] { settle(); });
    tasks.run();
    if (failure_) std::rethrow_exception(failure_);
    if (!complete()) deadlock();
    return timeline();
  }

 private:
  static constexpr int lock_bell = -1;

  enum class Phase { to_start, running, to_end };
  struct Progress {  // of the activity with this id
    Phase phase = Phase::to_start;
    std::int32_t segment = 0;
    bool contended = false;
    Seconds segment_start = 0;
    Seconds segment_solo = 0;
    Seconds end = 0;
  };

  // ---- what the queue asks
  void begin(int id) override {
    if (progress_.size() <= at(id)) progress_.resize(at(id) + 1);
    progress_[at(id)] = Progress{};
    const Seconds start = activity(id).start;
    if (start > tasks_->now() + tasks_->resolution()) {
      tasks_->ring_at(start, id);
    } else {
      progress_[at(id)].segment_start = start;
      next_segment(id);
    }
  }

  bool may_grant(Seconds request) override {
    if (request <= tasks_->now() + tasks_->resolution()) return true;
    if (request != next_request_) tasks_->ring_at(request, lock_bell);
    next_request_ = request;
    return false;
  }

  // ---- what SimGrid tells
  void task_ended(int id) override {
    guarded([this, id] {
      Progress& of = progress_[at(id)];
      const Seconds exact = of.segment_start + of.segment_solo;
      const Seconds now = tasks_->now();
      const bool alone = now - exact <= 1e-9 * of.segment_solo + tasks_->resolution();
      of.contended = of.contended || !alone;
      of.segment_start = alone ? exact : now;
      ++of.segment;
      next_segment(id);
      settle();
    });
  }

  void bell(int id) override {
    guarded([this, id] {
      if (id != lock_bell && progress_[at(id)].phase == Phase::to_end) {
        ended(id, progress_[at(id)].end);
      } else if (id != lock_bell) {
        progress_[at(id)].segment_start = activity(id).start;
        next_segment(id);
      }
      settle();
    });
  }

  // SimGrid's frames must not see an exception; keep it for run().
  template <typename Action>
  void guarded(Action&& action) {
    try {
      action();
    } catch (...) {
      failure_ = std::current_exception();
    }
    if (failure_ || complete()) tasks_->silence();
  }

  // ---- activities
  void next_segment(int id) {
    Progress& of = progress_[at(id)];
    of.phase = Phase::running;
    while (collect(id, of.segment)) {
      if (of.segment_solo > 0) {
        tasks_->start(id, of.segment_solo, asks_);
        return;
      }
      ++of.segment;
    }
    const Activity& done = activity(id);
    of.end = std::max(of.contended ? of.segment_start : done.start + done.solo, done.earliest_end);
    if (of.end > tasks_->now() + tasks_->resolution()) {
      of.phase = Phase::to_end;
      tasks_->ring_at(of.end, id);
    } else {
      ended(id, of.end);
    }
  }

  // What the n-th segments of all members ask together; false when none has one.
  bool collect(int id, std::int32_t n) {
    Seconds solo = -1;
    for (const Member& member : activity(id).members) {
      const auto segments = plan().costs().segments_of(plan().cost(member.role, member.at));
      if (at(n) < segments.size()) solo = std::max(solo, segments[at(n)].solo);
    }
    asks_.clear();
    for (const Member& member : activity(id).members) {
      const auto segments = plan().costs().segments_of(plan().cost(member.role, member.at));
      if (at(n) >= segments.size()) continue;
      const std::size_t own = asks_.size();
      for (const Demand& demand : plan().costs().demands_of(segments[at(n)])) {
        if (demand.seconds > 0) {
          ask(own, member.role * kinds_ + demand.resource, demand.seconds / solo);
        }
      }
    }
    progress_[at(id)].segment_solo = solo;
    return solo >= 0;
  }

  // Adds to what is asked of the same resource from index `own` on, if it is.
  void ask(std::size_t own, int resource, double share) {
    for (std::size_t i = own; i < asks_.size(); ++i) {
      if (asks_[i].resource != resource) continue;
      asks_[i].share = std::min(1.0, asks_[i].share + share);
      return;
    }
    asks_.push_back({resource, std::min(1.0, share)});
  }

  int kinds_;  // resources of a role; those of role r are r * kinds_ ...
  SimgridTasks* tasks_ = nullptr;
  std::vector<Progress> progress_;
  std::vector<Ask> asks_;
  Seconds next_request_ = -1;  // of a lock; a bell is set for it
  std::exception_ptr failure_;
};

class FluidEngine final : public Engine {
 public:
  std::string name() const override { return "fluid"; }
  Timeline run(const Schedule& schedule, const CostTable& costs,
               const RunOptions& options) override {
    RunPlan plan(schedule, costs, options);
    Timeline timeline = FluidRun(plan).run();
    timeline.engine = name();
    return timeline;
  }
};

}  // namespace

std::unique_ptr<Engine> make_fluid_engine() { return std::make_unique<FluidEngine>(); }

}  // namespace stepcast

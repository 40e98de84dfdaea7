// The fluid engine: the ready queue says what may start, SimGrid says how long it takes beside what
// else is running.
//
// Resources: each resource of the cost table, of every role (fluid_asks.hpp). A segment is one
// SimGrid task that asks each of them for its demand and, as long as nothing holds it, takes its
// time alone: nothing runs faster. A collective is one task on the resources of all roles in it: it
// moves at the pace of the most contended. The streams of a role share the role's resources; that
// is all the contention there is (a stream runs one op at a time, so it needs no resource of its
// own).
//
// Example: GEMM (sm 1 ms) beside a collective that holds 15 % of the SMs for 1 ms: the collective
// ends at 1 ms, the GEMM at 1.15 ms.
//
// A segment that took as long as alone, up to the rounding of SimGrid's clock, is given exactly
// that time: where nothing contends the timeline equals the formula engine's to the last digit, and
// does not depend on what ran before in the process.
//
// What has no company needs no task. As long as nothing that runs asks for a resource of an
// activity, its segments take their time alone, so one bell at its end stands for all of them; when
// company comes, the rest of the segment that it is in, and those behind, become tasks:
//
//   GEMM, norm, GEMM of 1 ms each; a collective comes at 1.5 ms and goes at 1.7 ms
//   bell for 3.0  ->  at 1.5 a task for what is left of the norm, 0.5 ms; at 2.0 a bell for 3.0
//
// A bell that was set for nothing rings all the same and is known by its generation. In a step of
// llama-3-70b under HSDP with a slow rank this spares two tasks of three.
//
// Waiting is not free: a role that came to a collective before the others has its kernel on the
// SMs, where it spins. From then until the collective begins it holds the collective's share of
// "sm": a GEMM beside a collective of 15 % that waits for a late rank runs at 85 %.
//
// Cost: 1 to 3 us a task, a fifth of one a bell. Tested by tests/unit/engines (by hand) and
// tests/differential.

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <string>

#include "base/error.hpp"
#include "sim/engines/engine.hpp"
#include "sim/engines/fluid_asks.hpp"
#include "sim/engines/fluid_run.hpp"
#include "sim/engines/message_traffic.hpp"
#include "sim/engines/ready_queue.hpp"
#include "sim/engines/simgrid_tasks.hpp"

namespace stepcast {
namespace {

// Ids of activities are used again, so one that is too high means so many at a time.
InputError too_many() {
  return {
      {.file = "engine", .line = 0, .key = ""},
      fmt::format("fluid plays at most {} kernels and collectives at a time, and each rank that "
                  "differs from all others has its own; accepted: formula, or fewer such ranks",
                  SimgridTasks::max_tasks)};
}

class FluidRun final : public ReadyQueue, private SimgridTasks::Listener {
 public:
  explicit FluidRun(RunPlan& plan, const StepMessages* messages = nullptr,
                    MessageCarrier* carrier = nullptr)
      : ReadyQueue(plan), messages_(messages), asks_(plan), present_(at(plan.roles())) {
    if (carrier == nullptr) return;
    traffic_ = std::make_unique<MessageTraffic>(messages->connections, *carrier,
                                                [this](int id) { carried(id); });
  }

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
  static constexpr std::int64_t lock_bell = -1;
  static constexpr std::int64_t first_spin_bell = -2;  // less the spin's number
  using Kinds = FluidAsks::Kinds;

  enum class Phase { to_start, alone, task, to_send, sending, to_end };
  struct Progress {  // of the activity with this id
    Phase phase = Phase::to_start;
    std::int32_t generation = 0;  // of its bells
    std::int32_t segment = 0;
    bool contended = false;
    Seconds segment_start = 0;
    Seconds segment_solo = 0;  // of the task: what was left of the segment when it began
    Seconds end = 0;
    std::vector<int> holds;  // of a collective that goes by messages
  };
  // An activity that asks for resources of a role; or, by a negative id, a spin.
  struct Present {
    int id = 0;
    Kinds kinds = 0;
  };
  // A kernel that waits for its peers.
  struct Spin {
    int number = 0;
    Member member;
    double share = 0;
    int hold = -1;  // SimgridTasks', when it began
  };

  // ---- what the queue asks
  void begin(int id) override {
    if (progress_.size() <= at(id)) progress_.resize(at(id) + 1);
    Progress fresh;
    fresh.generation = progress_[at(id)].generation;
    progress_[at(id)] = std::move(fresh);
    const Seconds start = activity(id).start;
    if (start > tasks_->now() + tasks_->resolution()) {
      ring_at(start, id);
    } else {
      come(id);
    }
  }

  void waits(const Member& member, Seconds since) override {
    const double share = asks_.waiting_share(member.role, member.at);
    if (share <= 0) return;
    const int number = spin_count_++;
    spins_.push_back({number, member, share, -1});
    if (since > tasks_->now() + tasks_->resolution()) {
      tasks_->ring_at(since, first_spin_bell - number);
    } else {
      begin_spin(number);
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
      go_on(id);
      settle();
    });
  }

  void bell(std::int64_t which) override {
    if (which <= first_spin_bell) {
      guarded([this, which] { begin_spin(static_cast<int>(first_spin_bell - which)); });
      return;
    }
    if (which != lock_bell) {
      const int id = static_cast<int>(which & 0xffffffff);
      if (progress_[at(id)].generation != static_cast<std::int32_t>(which >> 32)) return;
    }
    guarded([this, which] {
      if (which != lock_bell) {
        const int id = static_cast<int>(which & 0xffffffff);
        switch (progress_[at(id)].phase) {
          case Phase::to_start: come(id); break;
          case Phase::to_send: send(id); break;
          default: leave(id);
        }
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
  // The last bell set for an activity is the one that counts.
  void ring_at(Seconds time, int id) {
    const std::int64_t generation = ++progress_[at(id)].generation;
    tasks_->ring_at(time, generation << 32 | id);
  }

  // It starts: those whose resources it asks for have company from now on.
  void come(int id) {
    progress_[at(id)].segment_start = activity(id).start;
    if (messages_of(id) >= 0) {
      come_by_messages(id);
      return;
    }
    for (const Member& member : activity(id).members) {
      end_spin(member);
      add_present(member.role, {id, asks_.kinds_of(member.role, member.at)});
    }
    go_on(id);
  }

  void add_present(int role, Present added) {
    if (added.kinds == 0) return;
    for (const Present& other : present_[at(role)]) {
      if ((other.kinds & added.kinds) != 0 && other.id >= 0) get_company(other.id);
    }
    present_[at(role)].push_back(added);
  }

  void remove_present(int role, int id) {
    std::vector<Present>& present = present_[at(role)];
    const auto here = std::find_if(present.begin(), present.end(),
                                   [id](const Present& each) { return each.id == id; });
    if (here != present.end()) present.erase(here);
  }

  // ---- kernels that wait for their peers
  void begin_spin(int number) {
    const auto spin = std::find_if(spins_.begin(), spins_.end(),
                                   [number](const Spin& each) { return each.number == number; });
    if (spin == spins_.end()) return;  // its peers came before it
    add_present(spin->member.role, {-1 - number, asks_.sm_kind()});
    const Ask ask = asks_.waiting(spin->member.role, spin->share);
    spin->hold = hold({&ask, 1});
  }

  int hold(std::span<const Ask> asks) {
    const auto free = std::find(held_.begin(), held_.end(), false);
    const auto number = static_cast<int>(free - held_.begin());
    if (free == held_.end()) held_.push_back(false);
    held_[at(number)] = true;
    tasks_->hold(number, asks);
    return number;
  }
  void let_go(int number) {
    tasks_->let_go(number);
    held_[at(number)] = false;
  }

  void end_spin(const Member& member) {
    const auto spin = std::find_if(spins_.begin(), spins_.end(), [&](const Spin& each) {
      return each.member.role == member.role && each.member.at == member.at;
    });
    if (spin == spins_.end()) return;
    if (spin->hold >= 0) {
      let_go(spin->hold);
      remove_present(member.role, -1 - spin->number);
    }
    spins_.erase(spin);
  }

  // ---- collectives that go by messages
  std::int32_t messages_of(int id) const {
    if (messages_ == nullptr || activity(id).communicator < 0) return -1;
    const Member& first = activity(id).members.front();
    return messages_->of_op[at(first.role)][at(plan().program(first.at.step))][at(first.at.op)];
  }

  // It holds its part of every member's SMs and memory until its last message came.
  void come_by_messages(int id) {
    for (const Member& member : activity(id).members) {
      end_spin(member);
      asks_.clear();
      const Kinds kinds = asks_.add_held(member.role, member.at);
      if (kinds == 0) continue;
      progress_[at(id)].holds.push_back(hold(asks_.asks()));
      add_present(member.role, {id, kinds});  // others' tasks may start: asks_ is theirs then
    }
    const Seconds begin = activity(id).start + messages_->collectives[at(messages_of(id))].before;
    progress_[at(id)].phase = Phase::to_send;
    if (begin > tasks_->now() + tasks_->resolution()) {
      ring_at(begin, id);
    } else {
      send(id);
    }
  }

  void send(int id) {
    progress_[at(id)].phase = Phase::sending;
    traffic_->begin(messages_->collectives[at(messages_of(id))].collective, id);
  }

  void carried(int id) {
    guarded([this, id] {
      for (const int number : progress_[at(id)].holds) let_go(number);
      progress_[at(id)].holds.clear();
      progress_[at(id)].end = tasks_->now();  // what the cost table says of its time is not asked
      leave(id);
      settle();
    });
  }

  // ---- progress

  void leave(int id) {
    for (const Member& member : activity(id).members) remove_present(member.role, id);
    ended(id, progress_[at(id)].end);
  }

  bool has_company(int id) const {
    for (const Member& member : activity(id).members) {
      const Kinds kinds = asks_.kinds_of(member.role, member.at);
      if (kinds == 0) continue;
      for (const Present& other : present_[at(member.role)]) {
        if (other.id != id && (other.kinds & kinds) != 0) return true;
      }
    }
    return false;
  }

  // From the segment it is at: by one bell, or by a task for each.
  void go_on(int id) {
    Progress& of = progress_[at(id)];
    if (has_company(id)) {
      start_task(id);
      return;
    }
    const Activity& whole = activity(id);
    of.phase = Phase::alone;
    of.end = whole.start + whole.solo;
    if (of.contended) {
      of.end = of.segment_start;
      for (std::int32_t n = of.segment; collect(id, n); ++n) of.end += of.segment_solo;
    }
    end_at(id, of.end);
  }

  void end_at(int id, Seconds work_done) {
    Progress& of = progress_[at(id)];
    of.end = std::max(work_done, activity(id).earliest_end);
    if (of.end > tasks_->now() + tasks_->resolution()) {
      ring_at(of.end, id);
    } else {
      leave(id);
    }
  }

  // It ran by a bell and must not any more, unless all that is left of it is its last launch.
  void get_company(int id) {
    Progress& of = progress_[at(id)];
    if (of.phase != Phase::alone) return;
    const Seconds now = tasks_->now() + tasks_->resolution();
    while (collect(id, of.segment)) {
      if (of.segment_start + of.segment_solo > now) {
        start_task(id);
        return;
      }
      of.segment_start += of.segment_solo;
      ++of.segment;
    }
  }

  void start_task(int id) {
    Progress& of = progress_[at(id)];
    for (; collect(id, of.segment); ++of.segment) {
      // Of a segment that began before, what is left.
      const Seconds run = std::max(0.0, tasks_->now() - of.segment_start);
      if (run > tasks_->resolution()) {
        of.segment_solo -= run;
        of.segment_start += run;
      }
      if (of.segment_solo <= 0) continue;
      of.phase = Phase::task;
      ++of.generation;
      if (id >= SimgridTasks::max_tasks) throw too_many();
      tasks_->start(id, of.segment_solo, asks_.asks());
      return;
    }
    of.phase = Phase::to_end;
    end_at(id, of.contended ? of.segment_start : activity(id).start + activity(id).solo);
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
      if (at(n) < segments.size()) asks_.add_segment(member.role, segments[at(n)], solo);
    }
    progress_[at(id)].segment_solo = solo;
    return solo >= 0;
  }

  const StepMessages* messages_;
  std::unique_ptr<MessageTraffic> traffic_;
  FluidAsks asks_;
  std::vector<Spin> spins_;
  int spin_count_ = 0;
  std::vector<bool> held_;                     // by number of the hold
  std::vector<std::vector<Present>> present_;  // by role
  SimgridTasks* tasks_ = nullptr;
  std::vector<Progress> progress_;
  Seconds next_request_ = -1;  // of a lock; a bell is set for it
  std::exception_ptr failure_;
};

class FluidEngine final : public Engine {
 public:
  std::string name() const override { return "fluid"; }
  Timeline run(const Schedule& schedule, const CostTable& costs,
               const RunOptions& options) override {
    RunPlan plan(schedule, costs, options);
    Timeline timeline = run_fluid(plan);
    timeline.engine = name();
    return timeline;
  }
};

}  // namespace

Timeline run_fluid(RunPlan& plan) { return FluidRun(plan).run(); }

Timeline run_fluid(RunPlan& plan, const StepMessages& messages, MessageCarrier& carrier) {
  return FluidRun(plan, &messages, &carrier).run();
}

std::unique_ptr<Engine> make_fluid_engine() { return std::make_unique<FluidEngine>(); }

}  // namespace stepcast

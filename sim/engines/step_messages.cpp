#include "sim/engines/step_messages.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "sim/engines/child_process.hpp"
#include "sim/engines/constraint.hpp"
#include "sim/engines/fluid_run.hpp"
#include "sim/engines/run_plan.hpp"
#include "sim/engines/simgrid_tasks.hpp"

namespace stepcast {
namespace {

// A timeline or a deadlock, as bytes.
std::string packed(const Timeline& timeline) {
  std::string bytes;
  put(bytes, std::vector<char>{});
  put(bytes, timeline.steps);
  put(bytes, timeline.spans);
  put(bytes, timeline.memory);
  return bytes;
}

std::string packed(const Deadlock& deadlock) {
  std::string bytes;
  const std::string what = deadlock.what();
  put(bytes, std::vector<char>(what.begin(), what.end()));
  put(bytes, std::vector<int>{static_cast<int>(deadlock.stalls.size())});
  for (const Deadlock::Stall& stall : deadlock.stalls) {
    put(bytes, std::vector<int>{stall.role, stall.step, stall.op});
    put(bytes, std::vector<Seconds>{stall.since, stall.issued});
    put(bytes, stall.missing);
  }
  return bytes;
}

[[noreturn]] void throw_deadlock(const std::string& what, const std::string& bytes,
                                 std::size_t from) {
  std::vector<Deadlock::Stall> stalls(at(take<int>(bytes, from).front()));
  for (Deadlock::Stall& stall : stalls) {
    const std::vector<int> where = take<int>(bytes, from);
    const std::vector<Seconds> when = take<Seconds>(bytes, from);
    stall = {where[0], where[1], where[2], when[0], when[1], take<int>(bytes, from)};
  }
  throw Deadlock(what, std::move(stalls));
}

class MessagesEngine final : public Engine {
 public:
  explicit MessagesEngine(StepMessages messages) : messages_(std::move(messages)) {}

  std::string name() const override { return "messages"; }

  Timeline run(const Schedule& schedule, const CostTable& costs,
               const RunOptions& options) override {
    check(costs, schedule);
    STEPCAST_ASSERT(messages_.of_op.size() == schedule.roles.size(), "messages of other roles");
    const std::string bytes = output_of_child([&] {
      RunPlan plan(schedule, costs, options);
      if (!SimgridTasks::with_network(messages_.links, messages_.connections)) {
        throw std::runtime_error(
            "the messages engine cannot run after the fluid engine in one process: SimGrid keeps "
            "the platform it was first given");
      }
      try {
        return packed(run_fluid(plan, messages_, SimgridTasks::network()));
      } catch (const Deadlock& deadlock) {
        return packed(deadlock);
      }
    });
    std::size_t from = 0;
    const std::vector<char> what = take<char>(bytes, from);
    if (!what.empty()) throw_deadlock({what.begin(), what.end()}, bytes, from);
    Timeline timeline;
    timeline.engine = name();
    // Names are addresses of this process, which the child has from it.
    timeline.steps = take<StepSpan>(bytes, from);
    timeline.spans = take<Span>(bytes, from);
    timeline.memory = take<MemorySample>(bytes, from);
    return timeline;
  }

 private:
  StepMessages messages_;
};

}  // namespace

std::int64_t count_messages(const StepMessages& messages, int program) {
  std::vector<std::int64_t> of_each;
  for (const StepMessages::Carried& each : messages.collectives) {
    of_each.push_back(count_messages(each.collective));
  }
  std::int64_t count = 0;
  // Of a collective's members the one of the lowest role counts: the first to name it so often.
  std::vector<std::int64_t> calls(of_each.size(), 0);
  for (const auto& role : messages.of_op) {
    std::vector<std::int64_t> own(of_each.size(), 0);
    for (const std::int32_t index : role[at(program)]) {
      if (index >= 0) ++own[at(index)];
    }
    for (std::size_t i = 0; i < own.size(); ++i) calls[i] = std::max(calls[i], own[i]);
  }
  for (std::size_t i = 0; i < calls.size(); ++i) count += calls[i] * of_each[i];
  return count;
}

std::unique_ptr<Engine> make_messages_engine(StepMessages messages) {
  return std::make_unique<MessagesEngine>(std::move(messages));
}

}  // namespace stepcast

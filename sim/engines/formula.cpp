// The formula engine: every op takes its time alone, the rest is max and plus. One role is walked
// in one pass (list_walk.hpp); several roles or lanes that share a lock go through the ready queue,
// which then decides in whatever order things become known.

#include "sim/engines/engine.hpp"
#include "sim/engines/list_walk.hpp"
#include "sim/engines/ready_queue.hpp"

namespace stepcast {

namespace {

class FormulaQueue final : public ReadyQueue {
 public:
  using ReadyQueue::ReadyQueue;

  Timeline run() {
    settle();
    if (!complete()) deadlock();
    return timeline();
  }

 private:
  void begin(int id) override {
    const Activity& starting = activity(id);
    ended(id, std::max(starting.start + starting.solo, starting.earliest_end));
  }
  // All that can be decided without a lock has been; every request still to come is later.
  bool may_grant(Seconds) override { return true; }
};

class FormulaEngine final : public Engine {
 public:
  std::string name() const override { return "formula"; }
  Timeline run(const Schedule& schedule, const CostTable& costs,
               const RunOptions& options) override {
    RunPlan plan(schedule, costs, options);
    Timeline timeline = is_one_pass(schedule) ? list_walk(plan) : formula_queue(plan);
    timeline.engine = name();
    return timeline;
  }
};

}  // namespace

Timeline formula_queue(RunPlan& plan) { return FormulaQueue(plan).run(); }

std::unique_ptr<Engine> make_formula_engine() { return std::make_unique<FormulaEngine>(); }

}  // namespace stepcast

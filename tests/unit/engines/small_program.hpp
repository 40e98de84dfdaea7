#pragma once
// A schedule of a few ops with the cost of each written beside it, for tests of one rule at a time:
//
//   SmallProgram p;
//   auto gemm = p.compute("gemm", "compute", {.solo = 1e-3, .demands = {{"sm", 1e-3}}});
//   p.wait("nccl", gemm);
//   Timeline t = p.run(engine);   p.at(t, "gemm").end
//
// Op names must be unique in a step of a role.

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "sim/engines/engine.hpp"
#include "sim/schedule/builder.hpp"

namespace stepcast::testing {

struct Cost {
  struct Part {
    Seconds solo = 0;
    std::vector<std::pair<std::string, Seconds>> demands = {};
  };
  Seconds solo = 0;  // one segment of this, unless `parts` are given
  std::vector<std::pair<std::string, Seconds>> demands = {};
  std::vector<Part> parts = {};
  Seconds host = 0;
  int launches = 1;
};

class SmallProgram {
 public:
  // One role "all" of all ranks and one step "steady", unless role() and step() are called.
  explicit SmallProgram(Mesh mesh = {2, 1}) : mesh_(mesh), builder_("small", mesh) {}

  void lane(const std::string& name, const std::string& lock = "") {
    builder_.on_lane(builder_.lane(name, lock));
  }
  void role(const std::string& name, int first, int count, int stride = 1) {
    builder_.role(name, first, count, stride);
    costs_.cost_of.emplace_back();
    has_step_ = false;
  }
  void step(const std::string& name) {
    if (costs_.cost_of.empty()) role("all", 0, mesh_.world_size());
    builder_.step(name);
    costs_.cost_of.back().emplace_back();
    has_step_ = true;
  }

  OpIndex compute(const std::string& name, const std::string& stream, const Cost& cost) {
    begin();
    return add(builder_.compute(name, builder_.stream(stream), {}, {}, {}), cost);
  }
  OpIndex compute_with_views(const std::string& name, const std::string& stream,
                             const std::vector<View>& reads) {
    begin();
    return add(builder_.compute(name, builder_.stream(stream), {}, reads, {}));
  }
  OpIndex all_reduce(const std::string& name, const std::string& comm, const std::string& stream,
                     const Cost& cost, std::int64_t elements = 1, Axis axis = Axis::world) {
    begin();
    return add(
        builder_.collective(name, CollectiveKind::all_reduce, builder_.communicator(comm, axis),
                            builder_.stream(stream), Dtype::fp32, elements, Reduction::sum, {}, {}),
        cost);
  }
  OpIndex wait(const std::string& stream, OpIndex op, int steps_back = 0) {
    begin();
    const OpRef ref{op, static_cast<std::int8_t>(steps_back)};
    return add(builder_.stream_wait(builder_.stream(stream), std::span<const OpRef>(&ref, 1)));
  }
  OpIndex host_work(const std::string& name, Seconds seconds) {
    begin();
    return add(builder_.host_work(name, 1), {.host = seconds});
  }
  OpIndex host_wait(OpIndex op, int steps_back = 0) {
    begin();
    const OpRef ref{op, static_cast<std::int8_t>(steps_back)};
    return add(builder_.host_wait(std::span<const OpRef>(&ref, 1)));
  }
  OpIndex host_wait_stream(const std::string& stream) {
    begin();
    return add(builder_.host_wait_stream(builder_.stream(stream)));
  }
  OpIndex host_wait_device() {
    begin();
    return add(builder_.host_wait_device());
  }
  OpIndex storage(const std::string& name, const Cost& cost) {
    begin();
    return add(builder_.storage(name, 1, {}, {}), cost);
  }
  OpIndex alloc(BufferIndex buffer) {
    begin();
    return add(builder_.alloc(buffer));
  }
  OpIndex free(BufferIndex buffer) {
    begin();
    return add(builder_.free(buffer));
  }

  ScheduleBuilder& builder() { return builder_; }
  const CostTable& costs() const { return costs_; }

  // The program is finished with the first call; more runs of the same program may follow.
  const Schedule& schedule() {
    if (!taken_) {
      schedule_ = builder_.take();
      for (const auto& [where, launches] : launches_) {
        schedule_.roles[where[0]].steps[where[1]].ops[where[2]].launches = launches;
      }
      taken_ = true;
    }
    return schedule_;
  }
  Timeline run(Engine& engine, const RunOptions& options = {.programs = {0}}) {
    return engine.run(schedule(), costs_, options);
  }

  // The span of the op of this name; fails the test when there is none.
  Span at(const Timeline& timeline, const std::string& op, int role = 0, int step = 0) {
    for (const Span& span : timeline.spans) {
      if (span.role == role && span.step == step && name(timeline, role, step, span.op) == op) {
        return span;
      }
    }
    FAIL("no span of " << op);
    return {};
  }
  std::string cause(const Timeline& timeline, const Span& span) {
    return span.cause < 0 ? "" : name(timeline, span.role, span.cause_step, span.cause);
  }

 private:
  void begin() {
    if (!has_step_) step("steady");
  }
  OpIndex add(OpIndex op, const Cost& cost = {}) {
    auto parts = cost.parts;
    if (parts.empty() && cost.solo > 0) parts.push_back({cost.solo, cost.demands});
    OpCost total;
    total.segments.first = static_cast<std::int32_t>(costs_.segments.size());
    total.host = cost.host;
    for (const auto& part : parts) {
      Segment segment{part.solo, {static_cast<std::int32_t>(costs_.demands.size()), 0}};
      for (const auto& [resource, seconds] : part.demands) {
        costs_.demands.push_back({costs_.resource(resource), seconds});
        ++segment.demands.count;
      }
      costs_.segments.push_back(segment);
      ++total.segments.count;
      total.solo += part.solo;
    }
    costs_.costs.push_back(total);
    auto& of_role = costs_.cost_of.back();
    of_role.back().push_back(static_cast<std::int32_t>(costs_.costs.size()) - 1);
    if (cost.launches != 1) {
      launches_.push_back(
          {{costs_.cost_of.size() - 1, of_role.size() - 1, static_cast<std::size_t>(op)},
           cost.launches});
    }
    return op;
  }
  std::string name(const Timeline& timeline, int role, int step, OpIndex op) {
    const auto program = timeline.steps[static_cast<std::size_t>(step)].program_index;
    return schedule()
        .roles[static_cast<std::size_t>(role)]
        .steps[static_cast<std::size_t>(program)]
        .ops[static_cast<std::size_t>(op)]
        .verb.str();
  }

  Mesh mesh_;
  ScheduleBuilder builder_;
  CostTable costs_;
  Schedule schedule_;
  std::vector<std::pair<std::vector<std::size_t>, int>> launches_;  // role, step, op -> launches
  bool has_step_ = false;
  bool taken_ = false;
};

}  // namespace stepcast::testing

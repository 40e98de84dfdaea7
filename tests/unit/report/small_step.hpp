#pragma once
// A step small enough to work out by hand: two gathered units, one backward, one reduce-scatter.
//
//   all_gather   |AG0 2|----AG1 4----|
//   compute            |--F0 3--| 1  |--F1 3--|-----B 6------|     | opt 1|
//   reduce_scatter                                           |RS 2 |
//   time         0     2        5    6        9             15    17     18

#include <string_view>

#include "sim/engines/cost_table.hpp"
#include "sim/engines/engine.hpp"
#include "sim/schedule/builder.hpp"

namespace stepcast {

inline Schedule small_step() {
  ScheduleBuilder b("small", Mesh{1, 8});
  const LaneIndex main = b.lane("main");
  const StreamIndex compute = b.stream("compute");
  const StreamIndex gather = b.stream("all_gather");
  const StreamIndex scatter = b.stream("reduce_scatter");
  const CommIndex shard = b.communicator("shard", Axis::shard);
  b.role("all", 0, 8);
  b.step("steady");
  b.on_lane(main);
  const auto all_gather = [&](const char* unit, std::int64_t elements) {
    b.at(Phase::forward, b.unit(unit));
    return b.collective("all_gather", CollectiveKind::all_gather, shard, gather, Dtype::bf16,
                        elements, Reduction::none, {}, {});
  };
  const OpIndex ag0 = all_gather("u0", 1000);
  const OpIndex ag1 = all_gather("u1", 2000);
  b.at(Phase::forward, b.unit("u0"));
  b.stream_wait(compute, ag0);
  b.compute("compute", compute, {}, {}, {});
  b.at(Phase::forward, b.unit("u1"));
  b.stream_wait(compute, ag1);
  b.compute("compute", compute, {}, {}, {});
  b.at(Phase::backward, b.unit("u1"));
  const OpIndex backward = b.compute("compute", compute, {}, {}, {});
  b.stream_wait(scatter, backward);
  const OpIndex rs = b.collective("reduce_scatter", CollectiveKind::reduce_scatter, shard, scatter,
                                  Dtype::fp32, 3000, Reduction::avg, {}, {});
  b.at(Phase::optimizer);
  b.stream_wait(compute, rs);
  b.compute("adamw", compute, {}, {}, {});
  return b.take();
}

inline double small_step_seconds(const Schedule& schedule, const Op& op) {
  if (op.kind == OpKind::collective) {
    return op.elements == 1000 ? 2 : op.elements == 2000 ? 4 : 2;
  }
  if (op.phase == Phase::optimizer) return 1;
  (void)schedule;
  return op.phase == Phase::backward ? 6 : 3;
}

inline CostTable small_step_costs(const Schedule& schedule) {
  return costs_by(schedule, [&](const Op& op) { return small_step_seconds(schedule, op); });
}

inline Timeline run_once(const Schedule& schedule, const CostTable& costs) {
  RunOptions options;
  options.programs = {0};
  return make_formula_engine()->run(schedule, costs, options);
}

}  // namespace stepcast

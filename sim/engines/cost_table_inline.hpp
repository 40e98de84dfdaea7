#pragma once
// Template members of cost_table.hpp.

namespace stepcast {

template <typename SecondsOf>
CostTable costs_by(const Schedule& schedule, SecondsOf&& seconds_of) {
  CostTable table;
  for (const Role& role : schedule.roles) {
    auto& programs = table.cost_of.emplace_back();
    for (const StepProgram& step : role.steps) {
      auto& ops = programs.emplace_back();
      ops.reserve(step.ops.size());
      for (const Op& op : step.ops) {
        if (op.stream < 0 || op.kind == OpKind::stream_wait) {
          ops.push_back(-1);
        } else {
          ops.push_back(table.add(seconds_of(op), {}, 0.0, Provenance::assumed, "given"));
        }
      }
    }
  }
  return table;
}

}  // namespace stepcast

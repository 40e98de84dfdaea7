#include <algorithm>

#include "sim/report/summary.hpp"

namespace stepcast {

std::vector<CollectiveRow> collective_rows(const Schedule& schedule, const Timeline& timeline,
                                           const Collectives& collectives) {
  std::vector<CollectiveRow> rows;
  std::vector<Reduction> reductions;  // of rows
  const auto last_step = static_cast<std::int32_t>(timeline.steps.size()) - 1;
  const auto program = static_cast<std::size_t>(timeline.steps.back().program_index);
  const std::vector<Op>& ops = schedule.roles.front().steps[program].ops;
  for (std::size_t i = timeline.spans.size(); i-- > 0;) {
    const Span& span = timeline.spans[i];
    if (span.step != last_step) break;
    if (span.role != 0) continue;
    const Op& op = ops[static_cast<std::size_t>(span.op)];
    if (op.kind != OpKind::collective) continue;
    const Axis axis = schedule.communicators[static_cast<std::size_t>(op.comm)].axis;
    if (schedule.mesh.size(axis) == 1) continue;  // issued, but there is nobody to send to
    std::size_t r = 0;
    while (r < rows.size() &&
           !(rows[r].kind == op.collective && rows[r].axis == axis && rows[r].dtype == op.dtype &&
             rows[r].bytes == bytes_of(op) && reductions[r] == op.reduction)) {
      ++r;
    }
    if (r == rows.size()) {
      CollectiveRow& row = rows.emplace_back();
      row.kind = op.collective;
      row.axis = axis;
      row.dtype = op.dtype;
      row.bytes = bytes_of(op);
      row.ranks = collectives.ranks(axis);
      row.cost = collectives.cost(axis, op.collective, row.bytes, op.dtype, op.reduction);
      reductions.push_back(op.reduction);
    }
    rows[r].calls += 1;
    rows[r].mean_seconds += span.end - span.start;
  }
  for (CollectiveRow& row : rows) {
    row.mean_seconds /= row.calls;
    if (row.mean_seconds > 0) {
      row.busbw_gbps = bus_bandwidth_gbps(row.kind, row.bytes, row.mean_seconds, row.ranks);
    }
  }
  std::stable_sort(rows.begin(), rows.end(), [](const CollectiveRow& a, const CollectiveRow& b) {
    return a.bytes * a.calls > b.bytes * b.calls;
  });
  return rows;
}

}  // namespace stepcast

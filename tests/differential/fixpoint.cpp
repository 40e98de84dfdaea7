#include "tests/differential/fixpoint.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace stepcast::testing {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// The n-th collective of a communicator, of all roles or of one (role -1: all).
using Key = std::pair<std::pair<int, int>, int>;

struct Walk {
  const Schedule& schedule;
  const CostTable& costs;
  const std::vector<int>& programs;
  std::map<Key, Seconds> start;     // guesses
  std::map<Key, Seconds> arrival;   // of the last role, found with these guesses
  std::map<Key, Seconds> earliest;  // end by launches, likewise
  std::map<Key, std::vector<Seconds>> segments;
  OpTimes times;

  void role(int r) {
    const auto& steps = schedule.roles[at(r)].steps;
    std::vector<Seconds> lane(schedule.lanes.size(), 0), stream(schedule.streams.size(), 0);
    std::vector<Seconds> comm_free(schedule.communicators.size(), 0);
    std::vector<int> count(schedule.communicators.size(), 0);
    for (std::size_t step = 0; step < programs.size(); ++step) {
      const auto& ops = steps[at(programs[step])].ops;
      times[at(r)][step].assign(ops.size(), {});
      for (std::size_t i = 0; i < ops.size(); ++i) {
        const Op& op = ops[i];
        const OpCost& cost = costs.cost(r, programs[step], static_cast<OpIndex>(i));
        const int n = std::max(1, op.launches);
        const Seconds first = lane[at(op.lane)] + cost.host / n;
        const Seconds last = lane[at(op.lane)] += cost.host;
        OpTime& of = times[at(r)][step][i];
        Seconds awaited = 0;
        for (const OpRef& ref : schedule.at_refs(op.waits)) {
          const int back = static_cast<int>(step) - ref.steps_back;
          if (back < 0) continue;
          OpIndex target = ref.op;
          if (programs[at(back)] != programs[step]) {
            target = SameOp(steps[at(programs[step])], steps[at(programs[at(back)])])(ref.op);
          }
          if (target >= 0) awaited = std::max(awaited, times[at(r)][at(back)][at(target)].end);
        }
        switch (op.kind) {
          case OpKind::stream_wait:
            stream[at(op.stream)] = std::max({stream[at(op.stream)], awaited, last});
            of.end = stream[at(op.stream)];
            break;
          case OpKind::host_wait:
            if (op.wait_target == WaitTarget::stream) awaited = stream[at(op.wait_stream)];
            if (op.wait_target == WaitTarget::device) {
              awaited = *std::max_element(stream.begin(), stream.end());
            }
            of.end = lane[at(op.lane)] = std::max(last, awaited);
            break;
          case OpKind::storage: of.end = lane[at(op.lane)] += cost.solo; break;
          case OpKind::compute:
          case OpKind::copy:
            of.start = std::max(stream[at(op.stream)], first);
            of.end = std::max(of.start + cost.solo, last + cost.solo / n);
            stream[at(op.stream)] = of.end;
            break;
          case OpKind::collective: {
            const bool alone = schedule.communicators[at(op.comm)].axis == Axis::shard;
            const Key key{{alone ? r : -1, op.comm}, count[at(op.comm)]++};
            const Seconds ready = std::max({stream[at(op.stream)], comm_free[at(op.comm)], first});
            arrival[key] = std::max(arrival[key], ready);
            auto& parts = segments[key];
            parts.resize(std::max(parts.size(), at(cost.segments.count)), 0.0);
            for (std::size_t s = 0; s < costs.segments_of(cost).size(); ++s) {
              parts[s] = std::max(parts[s], costs.segments_of(cost)[s].solo);
            }
            Seconds solo = 0;
            for (const Seconds part : parts) solo += part;
            earliest[key] = std::max(earliest[key], last + solo / n);
            of.start = start[key];
            of.end = std::max(of.start + solo, earliest[key]);
            stream[at(op.stream)] = comm_free[at(op.comm)] = of.end;
            break;
          }
          case OpKind::host_work:
          case OpKind::alloc:
          case OpKind::free: of.end = lane[at(op.lane)];
        }
      }
    }
  }
};

}  // namespace

OpTimes fixpoint(const Schedule& schedule, const CostTable& costs,
                 const std::vector<int>& programs) {
  Walk walk{schedule, costs, programs, {}, {}, {}, {}, {}};
  walk.times.resize(schedule.roles.size());
  for (auto& steps : walk.times) steps.resize(programs.size());
  for (bool moved = true; moved;) {
    const OpTimes before = walk.times;
    walk.arrival.clear();
    for (int r = 0; r < static_cast<int>(schedule.roles.size()); ++r) walk.role(r);
    moved = walk.start != walk.arrival;
    walk.start = walk.arrival;
    for (std::size_t r = 0; r < before.size(); ++r) {
      for (std::size_t s = 0; s < before[r].size(); ++s) {
        for (std::size_t i = 0; i < walk.times[r][s].size(); ++i) {
          moved = moved || before[r][s].empty() || before[r][s][i].end != walk.times[r][s][i].end;
        }
      }
    }
  }
  return walk.times;
}

}  // namespace stepcast::testing

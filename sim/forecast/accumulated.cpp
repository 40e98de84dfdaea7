#include "sim/forecast/accumulated.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

#include "base/error.hpp"
#include "sim/report/format.hpp"

namespace stepcast {
namespace {

struct Pair {
  int few, more;
};
constexpr Pair pairs[] = {{8, 16}, {24, 32}, {56, 64}};
constexpr double as_long = 1 - 1e-4;  // a period that is no shorter than this of a lane's

// What is so much after few micro-batches and so much after more, after n.
class Line {
 public:
  Line(Pair from, int micro_batches)
      : from_(from),
        periods_(static_cast<double>(micro_batches - from.more) / (from.more - from.few)) {}
  double operator()(double few, double more) const { return more + periods_ * (more - few); }
  // The same of what cannot be less than nothing.
  double part(double few, double more) const { return std::max(0.0, (*this)(few, more)); }
  int count(int few, int more) const { return static_cast<int>(std::lround((*this)(few, more))); }
  double a_micro_batch(double few, double more) const {
    return (more - few) / (from_.more - from_.few);
  }

 private:
  Pair from_;
  double periods_;
};

TimeSplit extended(const TimeSplit& few, const TimeSplit& more, const Line& line) {
  TimeSplit split;
  split.compute = line.part(few.compute, more.compute);
  split.copies = line.part(few.copies, more.copies);
  split.interference = line.part(few.interference, more.interference);
  split.optimizer = line.part(few.optimizer, more.optimizer);
  split.host = line.part(few.host, more.host);
  split.other = line.part(few.other, more.other);
  for (const ExposedPart& part : more.exposed) {
    split.exposed.push_back({part.cause, line.part(few.exposed_by(part.cause), part.seconds)});
  }
  for (std::size_t p = 0; p < std::size(split.by_provenance); ++p) {
    split.by_provenance[p] = line.part(few.by_provenance[p], more.by_provenance[p]);
  }
  for (std::size_t r = 0; r < split.by_rate.size(); ++r) {
    split.by_rate[r] = line.part(few.by_rate[r], more.by_rate[r]);
  }
  return split;
}

void sort(std::vector<ExposedPart>& parts) {
  std::sort(parts.begin(), parts.end(), [](const ExposedPart& a, const ExposedPart& b) {
    return a.seconds != b.seconds ? a.seconds > b.seconds : a.cause < b.cause;
  });
}

// A part that shrinks with every micro-batch ends at nothing: the others are then too long by it.
void scale(TimeSplit& split, Seconds total) {
  if (split.total() <= 0) return;
  const double by = total / split.total();
  for (Seconds* part : {&split.compute, &split.copies, &split.interference, &split.optimizer,
                        &split.host, &split.other}) {
    *part *= by;
  }
  for (ExposedPart& part : split.exposed) part.seconds *= by;
  for (Seconds& part : split.by_provenance) part *= by;
  for (Seconds& part : split.by_rate) part *= by;
}

void add_wait(TimeSplit& split, const std::string& cause, Seconds seconds) {
  for (ExposedPart& part : split.exposed) {
    if (part.cause != cause) continue;
    part.seconds += seconds;
    return;
  }
  split.exposed.push_back({cause, seconds});
}

bool same_calls(const CollectiveRow& a, const CollectiveRow& b) {
  return a.kind == b.kind && a.axis == b.axis && a.dtype == b.dtype && a.bytes == b.bytes &&
         a.ranks == b.ranks;
}

CollectiveRow extended(const CollectiveRow& more, const std::vector<CollectiveRow>& all_few,
                       const Line& line) {
  CollectiveRow none;
  none.calls = 0;
  const auto found = std::find_if(all_few.begin(), all_few.end(),
                                  [&](const CollectiveRow& row) { return same_calls(row, more); });
  const CollectiveRow& few = found == all_few.end() ? none : *found;
  CollectiveRow row = more;
  row.calls = line.count(few.calls, more.calls);
  if (row.calls <= 0) return more;
  const Seconds all = line.part(few.calls * few.mean_seconds, more.calls * more.mean_seconds);
  row.mean_seconds = all / row.calls;
  if (row.mean_seconds > 0) row.busbw_gbps = more.busbw_gbps * more.mean_seconds / row.mean_seconds;
  return row;
}

// "backward.compute.layers.31.m15" is of the last micro-batch, whose number is another.
std::string moment_of(const std::string& moment, int last, int micro_batches) {
  const std::string from = fmt::format(".m{}", last - 1);
  if (!moment.ends_with(from)) return moment;
  return moment.substr(0, moment.size() - from.size()) + fmt::format(".m{}", micro_batches - 1);
}

// The allocator reserves no more than there is.
ReservedMemory extended(const ReservedMemory& few, const ReservedMemory& more, const Line& line,
                        Bytes room) {
  const auto bytes = [&](Bytes before, Bytes after) {
    const double grown = line.part(static_cast<double>(before), static_cast<double>(after));
    return std::max(after, static_cast<Bytes>(std::min(grown, static_cast<double>(room))));
  };
  ReservedMemory reserved = more;
  reserved.peak = bytes(few.peak, more.peak);
  reserved.peak_active = bytes(few.peak_active, more.peak_active);
  reserved.waiting = std::min(bytes(few.waiting, more.waiting), reserved.peak - more.allocated);
  reserved.cached = reserved.peak - more.allocated - reserved.waiting;
  reserved.retries = std::max(0, line.count(few.retries, more.retries));
  reserved.retry_wait = line.part(few.retry_wait, more.retry_wait);
  if (few.retried_step > 0 && more.retried_step > 0) {
    reserved.retried_step = line(few.retried_step, more.retried_step);
  }
  return reserved;
}

void extend_memory(RoleMemory& role, const RoleMemory& few, Bytes capacity, int last,
                   int micro_batches, const Line& line) {
  role.peak_moment = moment_of(role.peak_moment, last, micro_batches);
  if (!role.reserved) return;
  const Bytes room = room_for_blocks(role, capacity);
  if (few.reserved) role.reserved = extended(*few.reserved, *role.reserved, line, room);
  role.reserved->moment = moment_of(role.reserved->moment, last, micro_batches);
}

// Whether some lane or stream has more to do in a micro-batch than the period that was found.
bool one_falls_behind(const ShortStep& few, const ShortStep& more, const Line& line) {
  const Seconds period = line.a_micro_batch(few.report.step_time, more.report.step_time);
  for (std::size_t i = 0; i < more.busy.parts.size(); ++i) {
    const Seconds own = line.a_micro_batch(few.busy.parts[i].seconds, more.busy.parts[i].seconds);
    if (period < as_long * own) return true;
  }
  return false;
}

// No step is shorter than what one of them has to do in it.
void book_what_is_behind(const ShortStep& few, const ShortStep& more, const Line& line,
                         Report& report) {
  Busy::Part longest;
  for (std::size_t i = 0; i < more.busy.parts.size(); ++i) {
    Busy::Part part = more.busy.parts[i];
    part.seconds = line(few.busy.parts[i].seconds, part.seconds);
    if (part.seconds > longest.seconds) longest = part;
  }
  const Seconds behind = longest.seconds - report.step_time;
  if (behind <= 0) return;
  report.step_time = longest.seconds;
  switch (longest.who) {
    case Busy::Who::loader: add_wait(report.split, "loader", behind); break;
    case Busy::Who::host: report.split.host += behind; break;
    case Busy::Who::stream: report.split.other += behind; break;
  }
}

Report extended(const ShortStep& few, const ShortStep& more, Pair from, int micro_batches) {
  const Line line(from, micro_batches);
  Report report = more.report;
  report.accumulation = micro_batches;
  report.step_time = line(few.report.step_time, more.report.step_time);
  report.split = extended(few.report.split, more.report.split, line);
  book_what_is_behind(few, more, line, report);
  sort(report.split.exposed);
  scale(report.split, report.step_time);
  for (CollectiveRow& row : report.collectives) row = extended(row, few.report.collectives, line);
  report.ops_per_step = line.count(few.report.ops_per_step, more.report.ops_per_step);
  for (std::size_t i = 0; i < report.memory.size(); ++i) {
    extend_memory(report.memory[i], few.report.memory[i], report.capacity, from.more, micro_batches,
                  line);
  }
  report.notes.push_back(
      fmt::format("the step of {} micro-batches is worked out from those of {} and {}: in between "
                  "they repeat",
                  grouped(micro_batches), from.few, from.more));
  return report;
}

}  // namespace

bool is_worked_out(const Resolved& r) {
  return r.step.accumulation > most_whole_micro_batches && !r.first_step &&
         r.perturbations.empty() && r.engine != "messages";
}

Busy busy(const Schedule& schedule, const CostTable& costs) {
  Busy all;
  for (std::size_t role = 0; role < schedule.roles.size(); ++role) {
    const std::vector<StepProgram>& programs = schedule.roles[role].steps;
    const auto program = static_cast<int>(programs.size()) - 1;
    // By lane; those that run one at a time add up on the first of them.
    std::vector<std::size_t> place;
    for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
      std::size_t first = lane;
      for (std::size_t other = 0; other < lane && first == lane; ++other) {
        const bool together = !schedule.lanes[lane].lock.str().empty() &&
                              schedule.lanes[other].lock == schedule.lanes[lane].lock;
        if (together) first = other;
      }
      place.push_back(first);
    }
    std::vector<Busy::Part> lanes(schedule.lanes.size()), streams(schedule.streams.size());
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      const bool loads = schedule.lanes[lane].name == Name("loader");
      lanes[lane].who = loads ? Busy::Who::loader : Busy::Who::host;
    }
    const std::vector<Op>& ops = programs.back().ops;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (costs.cost_of[role][static_cast<std::size_t>(program)][i] < 0) continue;
      const OpCost& cost = costs.cost(static_cast<int>(role), program, static_cast<OpIndex>(i));
      const auto lane = static_cast<std::size_t>(ops[i].lane);
      lanes[place[lane]].seconds += cost.host;
      if (ops[i].stream >= 0) streams[static_cast<std::size_t>(ops[i].stream)].seconds += cost.solo;
    }
    all.parts.insert(all.parts.end(), lanes.begin(), lanes.end());
    all.parts.insert(all.parts.end(), streams.begin(), streams.end());
  }
  return all;
}

Report worked_out(int micro_batches, const std::function<ShortStep(int)>& run) {
  STEPCAST_ASSERT(micro_batches > most_whole_micro_batches, "otherwise it is run whole");
  for (const Pair& from : pairs) {
    if (from.more >= micro_batches) break;
    const ShortStep few = run(from.few), more = run(from.more);
    STEPCAST_ASSERT(few.busy.parts.size() == more.busy.parts.size(), "the same lanes and streams");
    const bool last = from.more == std::end(pairs)[-1].more;
    if (!last && one_falls_behind(few, more, Line(from, micro_batches))) continue;
    return extended(few, more, from, micro_batches);
  }
  return run(micro_batches).report;
}

}  // namespace stepcast

#include "validate/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.hpp"
#include "sim/engines/engine.hpp"
#include "sim/forecast/stragglers.hpp"
#include "sim/report/format.hpp"
#include "sim/schedule/buffers.hpp"

namespace stepcast {

namespace {

// Spans of role 0 in the last step.
std::vector<Span> last_spans(const Timeline& timeline) {
  const auto last = static_cast<std::int32_t>(timeline.steps.size()) - 1;
  std::vector<Span> spans;
  for (const Span& span : timeline.spans) {
    if (span.step == last && span.role == 0) spans.push_back(span);
  }
  return spans;
}

const std::vector<Op>& last_ops(const Schedule& schedule, const Timeline& timeline) {
  const auto program = static_cast<std::size_t>(timeline.steps.back().program_index);
  return schedule.roles.front().steps[program].ops;
}

// ---- Where the time went

void add_split(const TimeSplit& forecast, const TimeSplit& measured,
               std::vector<ComparedNumber>& parts) {
  parts.push_back({"compute", forecast.compute + forecast.interference,
                   measured.compute + measured.interference});
  parts.push_back({"optimizer", forecast.optimizer, measured.optimizer});
  parts.push_back({"copies of the strategy", forecast.copies, measured.copies});
  std::map<std::string, std::pair<Seconds, Seconds>> exposed;
  for (const ExposedPart& part : forecast.exposed) exposed[part.cause].first += part.seconds;
  for (const ExposedPart& part : measured.exposed) exposed[part.cause].second += part.seconds;
  for (const auto& [cause, seconds] : exposed) {
    std::string words = cause;
    std::replace(words.begin(), words.end(), '_', ' ');
    parts.push_back({"exposed: " + words, seconds.first, seconds.second});
  }
  parts.push_back({"exposed communication", forecast.exposed_total(), measured.exposed_total()});
  parts.push_back({"waiting for the host", forecast.host, measured.host});
  parts.push_back({"waiting for other ops", forecast.other, measured.other});
}

// From the first start to the last end of the ops on streams, by phase.
std::map<Phase, Seconds> phases(const Schedule& schedule, const Timeline& timeline) {
  std::map<Phase, std::pair<Seconds, Seconds>> ends;
  const std::vector<Op>& ops = last_ops(schedule, timeline);
  for (const Span& span : last_spans(timeline)) {
    const Op& op = ops[static_cast<std::size_t>(span.op)];
    if (op.stream < 0) continue;
    const auto [known, first] = ends.try_emplace(op.phase, span.start, span.end);
    if (first) continue;
    known->second.first = std::min(known->second.first, span.start);
    known->second.second = std::max(known->second.second, span.end);
  }
  std::map<Phase, Seconds> lengths;
  for (const auto& [phase, both] : ends) lengths[phase] = both.second - both.first;
  return lengths;
}

void add_phases(const Forecast& f, const Timeline& measured, std::vector<ComparedNumber>& parts) {
  const auto forecast = phases(f.schedule, f.timeline);
  auto other = phases(f.schedule, measured);
  for (const auto& [phase, seconds] : forecast) {
    parts.push_back({fmt::format("{}, first to last op", to_string(phase)), seconds, other[phase]});
  }
}

// ---- Memory

Bytes peak_of(const Timeline& timeline) {
  Bytes peak = 0;
  for (const MemorySample& sample : timeline.memory) {
    if (sample.role == 0) peak = std::max(peak, sample.allocated);
  }
  return peak;
}

// By stream: the most that was allocated from its pool at once, persistent buffers included.
std::vector<Bytes> pool_peaks(const Schedule& schedule, const Timeline& timeline) {
  std::vector<Bytes> now(schedule.streams.size(), 0);
  const auto add = [&](BufferIndex index, int sign) {
    const Buffer& buffer = schedule.buffers[static_cast<std::size_t>(index)];
    const auto pool = static_cast<std::size_t>(buffer.pool);
    if (buffer.view_of < 0 && pool < now.size()) now[pool] += sign * buffer.bytes;
  };
  const std::vector<bool> held = persistent_of_role(schedule, 0);
  for (std::size_t b = 0; b < held.size(); ++b) {
    if (held[b]) add(static_cast<BufferIndex>(b), 1);
  }
  std::vector<Bytes> peaks = now;
  for (const MemorySample& sample : timeline.memory) {
    if (sample.role != 0) continue;
    const auto step = static_cast<std::size_t>(sample.step);
    const auto program = static_cast<std::size_t>(timeline.steps[step].program_index);
    const Op& op = schedule.roles.front().steps[program].ops[static_cast<std::size_t>(sample.op)];
    add(op.buffer, op.kind == OpKind::alloc ? 1 : -1);
    for (std::size_t s = 0; s < now.size(); ++s) peaks[s] = std::max(peaks[s], now[s]);
  }
  return peaks;
}

void add_memory(const Forecast& f, const Measured& m, std::vector<ComparedNumber>& memory) {
  const auto number = [](Bytes bytes) { return static_cast<double>(bytes); };
  if (!m.peak.empty()) {
    memory.push_back({"allocated at the peak", number(peak_of(f.timeline)), number(m.peak[0])});
  }
  const std::vector<Bytes> pools = pool_peaks(f.schedule, f.timeline);
  for (std::size_t s = 0; s < m.pools.size() && s < pools.size(); ++s) {
    if (m.pools[s] == 0 && pools[s] == 0) continue;
    memory.push_back(
        {fmt::format("the pool of stream {} at its own", f.schedule.streams[s].name.str()),
         number(pools[s]), number(m.pools[s])});
  }
}

// ---- Blame

std::string group_of(const Schedule& schedule, const Op& op) {
  if (op.kind == OpKind::collective) {
    const Axis axis = schedule.communicators[static_cast<std::size_t>(op.comm)].axis;
    return fmt::format("{} of {}, {}", to_string(op.collective),
                       human_bytes(static_cast<double>(bytes_of(op))), to_string(axis));
  }
  if (op.kind == OpKind::copy) return "copies";
  return fmt::format("kernels of {}", to_string(op.phase));
}

struct Group {
  int calls = 0;
  Seconds forecast = 0, measured = 0;
  std::vector<std::int32_t> costs;
};

// Every cost index belongs to the group of the first op that has it.
std::map<std::string, Group> groups_of(const Forecast& f, const Timeline& measured) {
  std::map<std::int32_t, std::string> owner;
  std::map<std::string, Group> groups;
  const std::vector<Op>& ops = last_ops(f.schedule, f.timeline);
  const auto program = static_cast<std::size_t>(f.timeline.steps.back().program_index);
  std::vector<Seconds> took(ops.size(), -1);
  for (const Span& span : last_spans(measured)) {
    took[static_cast<std::size_t>(span.op)] = span.end - span.start;
  }
  for (const Span& span : last_spans(f.timeline)) {
    const auto i = static_cast<std::size_t>(span.op);
    const std::int32_t cost = f.costs.cost_of[0][program][i];
    if (ops[i].stream < 0 || cost < 0 || took[i] < 0) continue;
    if (ops[i].kind == OpKind::collective &&
        f.schedule.mesh.size(
            f.schedule.communicators[static_cast<std::size_t>(ops[i].comm)].axis) == 1) {
      continue;
    }
    const auto [known, is_new] = owner.try_emplace(cost, group_of(f.schedule, ops[i]));
    Group& group = groups[known->second];
    if (is_new) group.costs.push_back(cost);
    ++group.calls;
    group.forecast += span.end - span.start;
    group.measured += took[i];
  }
  return groups;
}

void scale(CostTable& table, const Group& group) {
  if (group.forecast <= 0) return;
  const double ratio = group.measured / group.forecast;
  for (const std::int32_t index : group.costs) {
    OpCost& cost = table.costs[static_cast<std::size_t>(index)];
    cost.solo = 0;
    for (std::int32_t s = 0; s < cost.segments.count; ++s) {
      Segment& segment = table.segments[static_cast<std::size_t>(cost.segments.first + s)];
      segment.solo *= ratio;
      cost.solo += segment.solo;
      for (std::int32_t d = 0; d < segment.demands.count; ++d) {
        table.demands[static_cast<std::size_t>(segment.demands.first + d)].seconds *= ratio;
      }
    }
  }
}

void add_blame(const Forecast& f, const Timeline& measured, Comparison& c) {
  const std::unique_ptr<Engine> engine =
      f.resolved.engine == "formula" ? make_formula_engine() : make_fluid_engine();
  RunOptions options;
  options.memory = false;
  if (f.resolved.first_step) {
    for (const StepSpan& step : f.timeline.steps) options.programs.push_back(step.program_index);
  }
  const auto step_of = [&](const CostTable& costs) {
    return step_with_slowest(*engine, f.schedule, costs, options, f.resolved.profile);
  };
  const std::map<std::string, Group> groups = groups_of(f, measured);
  CostTable all = f.costs;
  for (const auto& [name, group] : groups) {
    CostTable one = f.costs;
    scale(one, group);
    scale(all, group);
    Blame blame;
    blame.what = name;
    blame.calls = group.calls;
    blame.ratio = group.forecast > 0 ? group.measured / group.forecast : 1;
    blame.step = step_of(one);
    c.blame.push_back(blame);
  }
  c.step_all = step_of(all);
  std::stable_sort(c.blame.begin(), c.blame.end(), [&](const Blame& a, const Blame& b) {
    return std::abs(a.step - c.step.measured) < std::abs(b.step - c.step.measured);
  });
}

}  // namespace

Timeline typical_step(const Timeline& timeline) {
  STEPCAST_ASSERT(!timeline.steps.empty(), "a run has a step");
  std::vector<std::pair<Seconds, std::size_t>> lengths;
  for (std::size_t i = timeline.steps.size() > 1 ? 1 : 0; i < timeline.steps.size(); ++i) {
    lengths.emplace_back(timeline.steps[i].end - timeline.steps[i].begin, i);
  }
  std::sort(lengths.begin(), lengths.end());
  const auto typical = static_cast<std::int32_t>(lengths[(lengths.size() - 1) / 2].second);
  Timeline out;
  out.engine = timeline.engine;
  out.steps.assign(timeline.steps.begin(), timeline.steps.begin() + typical + 1);
  for (const Span& span : timeline.spans) {
    if (span.step <= typical) out.spans.push_back(span);
  }
  for (const MemorySample& sample : timeline.memory) {
    if (sample.step <= typical) out.memory.push_back(sample);
  }
  return out;
}

Comparison compare(const Forecast& f, const Measured& m) {
  const Timeline measured = typical_step(m.timeline);
  const Collectives collectives(f.resolved.cluster, f.resolved.step.mesh, f.resolved.collectives);
  const Report report = report_of(f.resolved, f.schedule, f.costs, measured, collectives);
  Comparison c;
  c.model = f.report.model;
  c.strategy = f.report.strategy;
  c.ranks = f.report.gpus;
  c.executor = measured.engine;
  c.title = fmt::format("{}, {} ranks, {}", f.schedule.name, c.ranks, c.executor);
  c.steps = std::max(1, static_cast<int>(m.timeline.steps.size()) - 1);
  Seconds shortest = 0, longest = 0;
  for (std::size_t i = m.timeline.steps.size() > 1 ? 1 : 0; i < m.timeline.steps.size(); ++i) {
    const Seconds length = m.timeline.steps[i].end - m.timeline.steps[i].begin;
    shortest = shortest == 0 ? length : std::min(shortest, length);
    longest = std::max(longest, length);
  }
  c.step = {"step time", f.report.step_time, measured.period()};
  c.spread = c.step.measured > 0 ? (longest - shortest) / c.step.measured : 0;
  c.samples_per_step = f.report.samples_per_step;
  add_split(f.report.split, report.split, c.parts);
  add_phases(f, measured, c.parts);
  for (std::size_t i = 0; i < f.report.collectives.size(); ++i) {
    const CollectiveRow& row = f.report.collectives[i];
    for (const CollectiveRow& other : report.collectives) {
      const bool same = other.kind == row.kind && other.axis == row.axis &&
                        other.dtype == row.dtype && other.bytes == row.bytes;
      if (same) c.collectives.push_back({row, other.mean_seconds});
    }
  }
  add_memory(f, m, c.memory);
  add_blame(f, measured, c);
  c.notes = f.report.notes;
  return c;
}

}  // namespace stepcast

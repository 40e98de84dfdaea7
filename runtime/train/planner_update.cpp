// What comes between the reduced gradients and the next step: norms, clipping, the optimizer. Where
// each of them finds its elements.
//
// Clipping (sim/strategies/common/clip.hpp) has a slot for every tensor; a strategy that knows
// fewer of them (FSDP1's flat parameters) shares slots. The number that is all-reduced and becomes
// the coefficient is the sum of squares throughout.
//
// An optimizer state is its moments and, in recipes with one, the master copy, each one slot an
// element: [m of all | v of all | master of all]. SGD with momentum has one moment, without none.

#include <algorithm>

#include "runtime/train/planner.hpp"
#include "runtime/train/verbs.hpp"

namespace stepcast::runtime {

// ---- Norms --------------------------------------------------------------------------------------

OpPlan Planner::plan_norm(const Op& op) {
  const std::vector<Extent> writes = writes_of(op);
  if (writes.empty() || writes.front().count() < 1) fail(op, "writes a number");
  NormPlan plan;
  for (const Source& source : sources_of(reads_of(op))) {
    plan.from.emplace_back(source.place, source.run.count);
  }
  plan.to = writes.front().place(writes.front().begin);
  norm_read_ = true;
  return plan;
}

OpPlan Planner::plan_norms(const Op& op) const {
  const std::vector<Extent> writes = writes_of(op);
  if (writes.size() != 1 || writes.front().count() < 1) fail(op, "writes norms");
  NormsPlan plan;
  plan.to = writes.front().place(writes.front().begin);
  plan.slots = writes.front().count();
  for (const Source& source : sources_of(reads_of(op))) {
    plan.from.push_back({source.run.tensor % plan.slots, source.place, source.run.count});
  }
  return plan;
}

OpPlan Planner::plan_sum_squares(const Op& op) const {
  const std::vector<Extent> reads = reads_of(op);
  const std::vector<Extent> writes = writes_of(op);
  if (reads.size() != 1 || writes.size() != 1) fail(op, "makes one number of many");
  const Extent& from = reads.front();
  NormPlan plan;
  plan.from.emplace_back(from.place(from.begin), from.count());
  plan.to = writes.front().place(writes.front().begin);
  return plan;
}

OpPlan Planner::plan_coefficient(const Op& op) const {
  const std::vector<Extent> reads = reads_of(op);
  const std::vector<Extent> writes = writes_of(op);
  const bool in_place = reads.size() == 1 && writes.size() == 1 &&
                        reads.front().buffer == writes.front().buffer &&
                        reads.front().begin == writes.front().begin && reads.front().count() == 1;
  if (!in_place) fail(op, "turns one number into another in its place");
  return CoefficientPlan{writes.front().place(writes.front().begin)};
}

OpPlan Planner::plan_clip(const Op& op) const {
  std::vector<Extent> reads = reads_of(op);
  const std::vector<Extent> writes = writes_of(op);
  if (reads.size() != writes.size() + 1) fail(op, "reads the gradients and the coefficient");
  ScalePlan plan;
  plan.coefficient = reads.back().place(reads.back().begin);
  reads.pop_back();
  for (std::size_t i = 0; i < reads.size(); ++i) {
    if (reads[i].buffer != writes[i].buffer || reads[i].begin != writes[i].begin ||
        reads[i].end != writes[i].end) {
      fail(op, "scales in place: it must write what it reads");
    }
  }
  for (const Source& source : sources_of(reads)) {
    plan.moves.push_back({source.place, source.place, source.run.count, 1, false});
  }
  return plan;
}

// ---- The optimizer ------------------------------------------------------------------------------

namespace {

int moments_of(UpdateRule rule) {
  switch (rule) {
    case UpdateRule::adamw: return 2;
    case UpdateRule::sgd_momentum: return 1;
    case UpdateRule::sgd: return 0;
  }
  return 0;
}

}  // namespace

std::vector<Run> Planner::one_after_another(const std::vector<Extent>& extents) const {
  std::vector<Run> runs;
  std::int64_t before = 0;
  for (const Extent& e : extents) {
    for (Run run : contents_.within(e.buffer, e.begin, e.end)) {
      run.at += before - e.begin;
      runs.push_back(run);
    }
    before += e.count();
  }
  return runs;
}

// The order of the gradients when the optimizer first ran, whatever the order is later (DDP
// rebuilds its buckets). Slots may be left over: a parameter that nobody uses has no gradient.
const Planner::StatePlaces& Planner::places_of(const Op& op, const Extent& state, int moments,
                                               bool master, const std::vector<Extent>& gradients) {
  StatePlaces& places = states_[{state.buffer, state.begin}];
  std::int64_t total = 0;
  for (const Extent& e : gradients) total += e.count();
  const int parts = moments + (master ? 1 : 0);
  if (parts == 0 || state.count() % parts != 0 || state.count() / parts < total) {
    fail(op, "its state has another size");
  }
  if (!places.runs.empty()) {
    if (places.slots != state.count() / parts) fail(op, "its state has another size than before");
    return places;
  }
  places.runs = one_after_another(gradients);
  places.slots = state.count() / parts;
  if (master) {
    places.master = moments * places.slots;
    MasterCopy copy{state.buffer, places.runs};
    for (Run& run : copy.runs) run.at += state.begin + places.master;
    masters_.push_back(std::move(copy));
  }
  return places;
}

// It updates in place: what it writes, it reads, and the other way round.
void Planner::check_updated_in_place(const Op& op, const std::vector<Extent>& all) const {
  const auto same = [](const Extent& a, const Extent& b) {
    return a.buffer == b.buffer && a.begin == b.begin && a.end == b.end;
  };
  const auto has = [&](const Extent& e, auto begin, auto end) {
    return std::any_of(begin, end, [&](const Extent& other) { return same(e, other); });
  };
  const auto written = all.begin() + op.reads.count;
  for (const Extent& e : all) {
    const BufferKind kind = kind_of(e);
    if (e.view >= op.reads.count) {
      if (kind != BufferKind::workspace && !has(e, all.begin(), written)) {
        fail(op, "writes a view that it does not read");
      }
      continue;
    }
    const bool updated = kind == BufferKind::optimizer_state || kind == BufferKind::parameter;
    if (updated && !has(e, written, all.end())) fail(op, "reads a view that it does not update");
  }
}

OpPlan Planner::plan_update(const Op& op) {
  const UpdateRule rule = update_rule_of(schedule_, op);
  const int moments = moments_of(rule);
  std::vector<Extent> states;
  std::vector<Extent> gradients;
  std::vector<Extent> parameters;
  std::vector<Activation> scratch;
  std::vector<Extent> all = reads_of(op);
  const std::vector<Extent> writes = writes_of(op);
  all.insert(all.end(), writes.begin(), writes.end());
  check_updated_in_place(op, all);
  for (const Extent& e : all) {
    const bool read = e.view < op.reads.count;
    const BufferKind kind = kind_of(e);
    if (kind == BufferKind::workspace) {
      if (!read) scratch.push_back(activation(e));
    } else if (kind == BufferKind::optimizer_state) {
      if (read && e.count() > 0) states.push_back(e);  // plain SGD has none
    } else if (kind == BufferKind::parameter) {
      if (!read) parameters.push_back(e);
    } else if (read) {
      gradients.push_back(e);
    }
  }
  if (states.size() != gradients.size() && states.size() > 1) {
    fail(op, "has states for some of its gradients");
  }
  // Where a parameter's elements lie in the buffers it writes, wherever the view is.
  std::vector<Source> places;
  for (const Extent& e : parameters) {
    if (layout_of(e.buffer) == nullptr) fail(op, "writes parameters without a layout");
    for (const Run& run : layout_runs(e.buffer)) places.push_back({run, e.place(run.at)});
  }

  std::vector<AdamPart> update;
  // Elements [begin, end) of a tensor, whose gradient lies there.
  const auto add = [&](int tensor, std::int64_t begin, std::int64_t end, AdamPart part) {
    part.count = end - begin;
    part.parameter.view = -1;
    if (parameters.empty()) {
      update.push_back(part);
      return;
    }
    for (const Part& p : parts_of(tensor, places)) {
      const std::int64_t from = std::max(p.first, begin);
      const std::int64_t to = std::min(p.first + p.count, end);
      if (from >= to) continue;
      AdamPart piece = part;
      piece.count = to - from;
      for (Place* place :
           {&piece.gradient, &piece.first_moment, &piece.second_moment, &piece.master}) {
        place->at += from - begin;
      }
      piece.parameter = {p.place.view, p.place.dtype, p.place.at + from - p.first};
      update.push_back(piece);
    }
  };
  const auto none = [] {
    AdamPart part;
    part.first_moment.view = part.second_moment.view = part.master.view = -1;
    return part;
  };
  if (states.empty()) {
    if (moments > 0) fail(op, "has no state");
    for (const Source& g : sources_of(gradients)) {
      AdamPart part = none();
      part.gradient = g.place;
      add(g.run.tensor, g.run.first, g.run.first + g.run.count, part);
    }
  }
  for (std::size_t s = 0; s < states.size(); ++s) {
    const std::vector<Extent> mine =
        states.size() == 1 ? gradients : std::vector<Extent>{gradients[s]};
    const Extent& state = states[s];
    // 16-bit parameters have their master copy beside moments of fp32.
    const bool master = parameters.empty() || bytes_per_element(parameters.front().dtype) <
                                                  bytes_per_element(state.dtype);
    const StatePlaces& at_state = places_of(op, state, moments, master, mine);
    const std::vector<Source> sources = sources_of(mine);
    for (const Run& at : at_state.runs) {
      std::int64_t found = 0;
      for (const Part& g : parts_of(at.tensor, sources)) {
        const std::int64_t begin = std::max(g.first, at.first);
        const std::int64_t end = std::min(g.first + g.count, at.first + at.count);
        if (begin >= end) continue;
        found += end - begin;
        const std::int64_t position = state.begin + at.at + begin - at.first;
        AdamPart part = none();
        part.gradient = {g.place.view, g.place.dtype, g.place.at + begin - g.first};
        if (moments > 0) part.first_moment = state.place(position);
        if (moments > 1) part.second_moment = state.place(position + at_state.slots);
        if (master) part.master = state.place(position + at_state.master);
        add(at.tensor, begin, end, part);
      }
      if (found != at.count) fail(op, "a gradient that it needs has not come");
    }
  }
  switch (rule) {
    case UpdateRule::adamw: return AdamPlan{std::move(update), std::move(scratch)};
    case UpdateRule::sgd_momentum:
    case UpdateRule::sgd: return SgdPlan{std::move(update), std::move(scratch)};
  }
  return {};
}

OpPlan Planner::plan_from_master(const Op& op) {
  MovePlan plan;
  for (const Extent& state : reads_of(op)) {
    const auto known = states_.find({state.buffer, state.begin});
    if (known == states_.end() || known->second.master < 0) {
      fail(op, "comes before the optimizer");
    }
    std::vector<Source> sources;
    for (const Run& run : known->second.runs) {
      sources.push_back({run, state.place(state.begin + run.at + known->second.master)});
    }
    for (const Extent& to : writes_of(op)) {
      if (layout_of(to.buffer) == nullptr) fail(op, "writes parameters without a layout");
      for (const Run& run : layout_runs(to.buffer)) {
        for (const Part& p : parts_of(run.tensor, sources)) {
          const std::int64_t begin = std::max(p.first, run.first);
          const std::int64_t end = std::min(p.first + p.count, run.first + run.count);
          if (begin >= end) continue;
          const Place from{p.place.view, p.place.dtype, p.place.at + begin - p.first};
          plan.moves.push_back({from, to.place(run.at + begin - run.first), end - begin, 1, false});
        }
      }
    }
  }
  return plan;
}

}  // namespace stepcast::runtime

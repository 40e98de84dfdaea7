#include "runtime/train/planner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "runtime/train/verbs.hpp"
#include "sim/schedule/buffers.hpp"

namespace stepcast::runtime {

Planner::Planner(const Schedule& schedule, const MlpShape& shape, int rank, int role)
    : schedule_(schedule),
      shape_(shape),
      rank_(rank),
      role_(role),
      divisor_(gradient_divisor(schedule)),
      at_work_(ranks_at_work(schedule)) {
  static const Name inputs("inputs");
  const auto& steady = schedule.roles[static_cast<std::size_t>(role)].steps.back().ops;
  takes_batches_ =
      std::any_of(steady.begin(), steady.end(), [](const Op& op) { return op.verb == inputs; });
  for (const BufferLayout& layout : schedule.layouts) layouts_[layout.buffer] = &layout;
  layer_of_unit_["embedding"] = 0;
  for (int b = 0; b < shape.blocks; ++b) layer_of_unit_["layers." + std::to_string(b)] = b + 1;
  layer_of_unit_["head"] = shape.blocks + 1;
  for (const auto& [buffer, runs] : parameters()) {
    const Buffer& declared = schedule.buffers[static_cast<std::size_t>(buffer)];
    contents_.put(buffer, 0, declared.bytes / bytes_per_element(declared.dtype), runs);
  }
}

std::vector<std::pair<BufferIndex, std::vector<Run>>> Planner::parameters() const {
  std::vector<std::pair<BufferIndex, std::vector<Run>>> list;
  const std::vector<bool> held = persistent_of_role(schedule_, role_);
  for (const auto& [buffer, layout] : layouts_) {
    const auto b = static_cast<std::size_t>(buffer);
    if (!held[b] || schedule_.buffers[b].kind != BufferKind::parameter) continue;
    list.emplace_back(buffer, layout_runs(buffer));
  }
  return list;
}

void Planner::fail(const Op& op, const std::string& why) const {
  const std::string unit =
      op.unit < 0 ? "" : "." + schedule_.units[static_cast<std::size_t>(op.unit)].str();
  throw std::runtime_error(fmt::format("{}.{}{} (micro-batch {}): {}", to_string(op.phase),
                                       op.verb.str(), unit, op.micro_batch, why));
}

std::shared_ptr<const StepPlan> Planner::next_step(int program) {
  if (program == last_program_ && contents_ == before_) return last_plan_;
  before_ = contents_;
  last_program_ = program;
  norm_read_ = false;
  auto step = std::make_shared<StepPlan>();
  const auto& ops =
      schedule_.roles[static_cast<std::size_t>(role_)].steps[static_cast<std::size_t>(program)].ops;
  for (const Op& op : ops) {
    if (op.kind == OpKind::alloc || op.kind == OpKind::free) contents_.clear(op.buffer);
    step->ops.push_back(plan(op));
  }
  last_plan_ = step;
  return last_plan_;
}

OpPlan Planner::plan(const Op& op) {
  if (op.kind == OpKind::collective) return plan_collective(op);
  if (op.kind != OpKind::compute && op.kind != OpKind::copy) return {};
  const VerbMeaning meaning = meaning_of(schedule_, op, divisor_);
  switch (meaning.meaning) {
    case Meaning::move: return plan_move(reads_of(op), op, meaning.factor);
    case Meaning::own_part: return plan_own_part(op);
    case Meaning::scale: return plan_scale(op, meaning.factor);
    case Meaning::interleave: return plan_interleave(op);
    case Meaning::norm: return plan_norm(op);
    case Meaning::norms: return plan_norms(op);
    case Meaning::sum_squares: return plan_sum_squares(op);
    case Meaning::coefficient: return plan_coefficient(op);
    case Meaning::clip: return plan_clip(op);
    case Meaning::update: return plan_update(op);
    case Meaning::from_master: return plan_from_master(op);
    case Meaning::layer: return plan_layer(op);
    case Meaning::load: {
      const std::vector<Extent> writes = writes_of(op);
      if (writes.empty()) fail(op, "loads nowhere");
      return LoadPlan{activation(writes.front())};
    }
    case Meaning::order: {
      const bool check = op.writes.count == 0;
      const std::vector<Extent> views = check ? reads_of(op) : writes_of(op);
      if (views.empty()) fail(op, "has no view");
      return OrderPlan{activation(views.front()), check};
    }
    case Meaning::zero: return plan_zero(op);
    case Meaning::fill: return plan_fill(op);
    case Meaning::check: return plan_check(op);
    case Meaning::numbers: return {};
  }
  return {};
}

// ---- Numbers ------------------------------------------------------------------------------------

OpPlan Planner::plan_zero(const Op& op) {
  ZeroPlan zero;
  for (const Extent& e : writes_of(op)) {
    zero.views.push_back(activation(e));
    if (layout_of(e.buffer) == nullptr) continue;
    for (const Run& run : layout_runs(e.buffer)) {
      const Run part = cut(run, e.begin, e.end);
      if (part.count > 0) contents_.put(e.buffer, part.at, part.at + part.count, {part});
    }
  }
  return zero;
}

// Used maps count ranks, join() counts those at work and looks for the highest of them.
OpPlan Planner::plan_fill(const Op& op) const {
  static const Name zero("used_map_zero");
  static const Name join("join_fill");
  const std::vector<Extent> writes = writes_of(op);
  if (writes.empty()) fail(op, "writes nothing");
  double value = op.verb == zero ? 0 : 1;
  if (op.verb == join) {
    const bool source = name_of(writes.front()).rfind("join_source", 0) == 0;
    value = takes_batches_ ? (source ? rank_ : 1) : (source ? -1 : 0);
  }
  return FillPlan{activation(writes.front()), value};
}

OpPlan Planner::plan_check(const Op& op) const {
  static const Name join("join_download");
  const std::vector<Extent> reads = reads_of(op);
  if (reads.empty()) fail(op, "reads nothing");
  const Activation numbers = activation(reads.front());
  if (op.verb != join) return CheckPlan{numbers, 0, static_cast<double>(at_work_)};
  const bool source = name_of(reads.front()).rfind("join_source", 0) == 0;
  const double answer = source ? at_work_ - 1 : at_work_;  // ranks run out of data from the end
  return CheckPlan{numbers, answer, answer};
}

// ---- Views in elements --------------------------------------------------------------------------

const std::string& Planner::name_of(const Extent& e) const {
  return schedule_.buffers[static_cast<std::size_t>(e.buffer)].name.str();
}

BufferKind Planner::kind_of(const Extent& e) const {
  return schedule_.buffers[static_cast<std::size_t>(e.buffer)].kind;
}

Planner::Extent Planner::extent(const View& view, int index) const {
  const Buffer& buffer = schedule_.buffers[static_cast<std::size_t>(view.buffer)];
  const Bytes size = bytes_per_element(buffer.dtype);
  return {index, view.buffer, buffer.dtype, view.offset / size, (view.offset + view.bytes) / size};
}

std::vector<Planner::Extent> Planner::reads_of(const Op& op) const {
  std::vector<Extent> list;
  for (const View& view : schedule_.at_views(op.reads)) {
    list.push_back(extent(view, static_cast<int>(list.size())));
  }
  return list;
}

std::vector<Planner::Extent> Planner::writes_of(const Op& op) const {
  std::vector<Extent> list;
  for (const View& view : schedule_.at_views(op.writes)) {
    list.push_back(extent(view, op.reads.count + static_cast<int>(list.size())));
  }
  return list;
}

const BufferLayout* Planner::layout_of(BufferIndex buffer) const {
  const auto found = layouts_.find(buffer);
  return found == layouts_.end() ? nullptr : found->second;
}

std::vector<Run> Planner::layout_runs(BufferIndex buffer) const {
  const BufferLayout& layout = *layouts_.at(buffer);
  return runs_of(schedule_, layout, index_in_group(schedule_.mesh, layout.axis, rank_));
}

std::vector<Planner::Source> Planner::sources_of(const std::vector<Extent>& reads) const {
  std::vector<Source> list;
  for (const Extent& from : reads) {
    for (const Run& run : contents_.within(from.buffer, from.begin, from.end)) {
      list.push_back({run, from.place(run.at)});
    }
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const Source& a, const Source& b) { return a.run.tensor < b.run.tensor; });
  return list;
}

std::vector<Run> Planner::targets_of(const Extent& to, const std::vector<Extent>& reads,
                                     std::int64_t& packed) const {
  if (const BufferLayout* layout = layout_of(to.buffer)) {
    std::vector<Run> runs = layout_runs(to.buffer);
    if (layout->cut != Cut::whole) return runs;
    std::vector<Run> mine;
    for (const Run& run : runs) {
      const Run part = cut(run, to.begin, to.end);
      if (part.count > 0) mine.push_back(part);
    }
    return mine;
  }
  for (const Extent& from : reads) {
    if (from.buffer == to.buffer && from.begin < to.end && to.begin < from.end) {
      return contents_.within(to.buffer, to.begin, to.end);
    }
  }
  // One after another: the next to.count() elements of the reads, gaps included.
  std::vector<Run> runs;
  std::int64_t before = 0;
  for (const Extent& from : reads) {
    for (Run run : contents_.within(from.buffer, from.begin, from.end)) {
      run.at += before - from.begin;  // its place among all that is read
      Run part = cut(run, packed, packed + to.count());
      if (part.count <= 0) continue;
      part.at += to.begin - packed;
      runs.push_back(part);
    }
    before += from.count();
  }
  packed += to.count();
  return runs;
}

// ---- Moves --------------------------------------------------------------------------------------

OpPlan Planner::plan_move(const std::vector<Extent>& reads, const Op& op, double factor) {
  const std::vector<Source> sources = sources_of(reads);
  MovePlan plan;
  struct Written {
    Extent to;
    std::vector<Run> runs;
  };
  std::vector<Written> written;
  std::int64_t packed = 0;
  for (const Extent& to : writes_of(op)) {
    Written here{to, {}};
    for (const Run& target : targets_of(to, reads, packed)) {
      std::vector<Move> into;
      const auto first = std::lower_bound(
          sources.begin(), sources.end(), target.tensor,
          [](const Source& s, std::int32_t tensor) { return s.run.tensor < tensor; });
      for (auto s = first; s != sources.end() && s->run.tensor == target.tensor; ++s) {
        const std::int64_t begin = std::max(target.first, s->run.first);
        const std::int64_t end = std::min(target.first + target.count, s->run.first + s->run.count);
        if (begin >= end) continue;
        const std::int64_t at = target.at + begin - target.first;
        const Place from{s->place.view, s->place.dtype, s->place.at + begin - s->run.first};
        into.push_back({from, to.place(at), end - begin, factor, false});
        here.runs.push_back({target.tensor, begin, end - begin, at});
      }
      // What is there already comes first, the rest is added; a part that two sources cover is
      // covered from the first one on.
      const auto in_place = [&](const Move& m) {
        return reads[static_cast<std::size_t>(m.from.view)].buffer == to.buffer &&
               m.from.at == m.to.at;
      };
      std::stable_partition(into.begin(), into.end(), in_place);
      for (std::size_t i = 0; i < into.size(); ++i) {
        for (std::size_t j = 0; j < i && !into[i].add; ++j) {
          into[i].add = into[j].to.at < into[i].to.at + into[i].count &&
                        into[i].to.at < into[j].to.at + into[j].count;
        }
      }
      for (const Move& move : into) {
        if (!(in_place(move) && factor == 1)) plan.moves.push_back(move);
      }
    }
    written.push_back(std::move(here));
  }
  for (Written& here : written) {
    std::sort(here.runs.begin(), here.runs.end(),
              [](const Run& a, const Run& b) { return a.at < b.at; });
    here.runs.erase(std::unique(here.runs.begin(), here.runs.end()), here.runs.end());
    if (layout_of(here.to.buffer) == nullptr) {
      contents_.put(here.to.buffer, here.to.begin, here.to.end, here.runs);
    } else {
      for (const Run& run : here.runs) {
        contents_.put(here.to.buffer, run.at, run.at + run.count, {run});
      }
    }
  }
  return plan;
}

// The view that is read is an average rank's: as large as the part, at the start. A rank's own is
// where the layout of what is written says, anywhere in the buffer.
OpPlan Planner::plan_own_part(const Op& op) {
  std::vector<Extent> reads = reads_of(op);
  const std::vector<Extent> writes = writes_of(op);
  if (reads.size() != 1 || writes.size() != 1) fail(op, "keeps a part of one tensor in one other");
  Extent& from = reads.front();
  if (from.begin != 0 || from.count() != writes.front().count()) {
    fail(op, "reads no average rank's part");
  }
  const Buffer& whole = schedule_.buffers[static_cast<std::size_t>(from.buffer)];
  from.end = whole.bytes / bytes_per_element(whole.dtype);
  return plan_move(reads, op, 1);
}

OpPlan Planner::plan_scale(const Op& op, double factor) {
  MovePlan plan;
  plan.clipped = norm_read_;
  const auto same = [](const View& a, const View& b) {
    return a.buffer == b.buffer && a.offset == b.offset && a.bytes == b.bytes;
  };
  const auto reads = schedule_.at_views(op.reads);
  const auto writes = schedule_.at_views(op.writes);
  if (!std::equal(reads.begin(), reads.end(), writes.begin(), writes.end(), same)) {
    fail(op, "scales in place: it must write what it reads");
  }
  if (factor == 1) return plan;
  for (const Source& source : sources_of(reads_of(op))) {
    plan.moves.push_back({source.place, source.place, source.run.count, factor, false});
  }
  return plan;
}

// Whole tensors one after another become rank 0's chunks, then rank 1's, ... (ZeRO-3 pads each).
OpPlan Planner::plan_interleave(const Op& op) {
  const std::vector<Extent> writes = writes_of(op);
  if (writes.size() != 1) fail(op, "writes one flat tensor");
  const Extent& to = writes.front();
  const int ranks = schedule_.mesh.world_size();
  const std::int64_t part = to.count() / ranks;
  MovePlan plan;
  std::vector<Run> runs;
  std::int64_t at = 0;
  std::vector<Source> sources;
  for (const Extent& from : reads_of(op)) {  // in the order of their places, not by tensor
    for (const Run& run : contents_.within(from.buffer, from.begin, from.end)) {
      sources.push_back({run, from.place(run.at)});
    }
  }
  for (const Source& source : sources) {
    const std::int64_t elements = source.run.count;
    const std::int64_t chunk = ceil_div(elements, ranks);
    for (int r = 0; r < ranks; ++r) {
      const std::int64_t first = r * chunk;
      const std::int64_t count = std::clamp<std::int64_t>(elements - first, 0, chunk);
      if (count == 0) continue;
      const std::int64_t place = to.begin + r * part + at;
      const Place from{source.place.view, source.place.dtype, source.place.at + first};
      plan.moves.push_back({from, to.place(place), count, 1, false});
      runs.push_back({source.run.tensor, source.run.first + first, count, place});
    }
    at += chunk;
  }
  contents_.put(to.buffer, to.begin, to.end, runs);
  return plan;
}

}  // namespace stepcast::runtime

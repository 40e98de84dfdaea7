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

}  // namespace stepcast::runtime

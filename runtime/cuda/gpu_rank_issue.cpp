// What a rank's lanes issue, and when.

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "runtime/cuda/gpu_rank.hpp"

namespace stepcast::runtime {
namespace {

constexpr int most_ahead = 256;  // issued ops that are not done

// Takes place on a stream or changes memory: issued in the program's order.
bool is_ordered(const Op& op) {
  return runs_on_stream(op) || op.kind == OpKind::stream_wait || op.kind == OpKind::alloc ||
         op.kind == OpKind::free;
}

}  // namespace

std::vector<OpIndex> issue_order_of(const StepProgram& program) {
  std::vector<OpIndex> order;
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    if (is_ordered(program.ops[i])) order.push_back(static_cast<OpIndex>(i));
  }
  return order;
}

// ---- Lanes --------------------------------------------------------------------------------------

bool GpuRank::advance() {
  bool went = collect();
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) went = advance_lane(lane) || went;
  return went;
}

bool GpuRank::done() const {
  const auto ended = [&](const Lane& lane) {
    if (lane.cursor.step >= static_cast<int>(run_.programs.size())) return true;
    return false;
  };
  return std::all_of(lanes_.begin(), lanes_.end(), ended) &&
         std::all_of(pending_.begin(), pending_.end(), [](const auto& p) { return p.empty(); });
}

bool GpuRank::advance_lane(std::size_t which) {
  Lane& lane = lanes_[which];
  const At at = lane_head(which);
  if (at.op < 0) return false;
  state(at);
  const Op& o = op(at);
  const bool locks = locks_.takes(which, o);
  const auto lock = static_cast<std::size_t>(std::max(locks_.of_lane[which], 0));
  if (!lane.begun) {
    if (locks && locked_[lock]) return false;
    if (!is_free_to_go(at)) return false;
    lane.begin = now();
    if (o.kind == OpKind::storage) {
      bind(at);
      run_.work.run(context(at), nullptr);
    }
    lane.until = lane.begin + run_.work.host_duration(context(at));
    lane.begun = true;
    if (locks) locked_[lock] = true;
  }
  if (now() < lane.until) return false;
  if (o.kind == OpKind::host_wait) {
    const auto waits_for_stream = [&](std::size_t s) {
      return drained(at, static_cast<StreamIndex>(s));
    };
    if (o.wait_target == WaitTarget::ops && !awaited_done(at)) return false;
    if (o.wait_target == WaitTarget::stream &&
        !waits_for_stream(static_cast<std::size_t>(o.wait_stream))) {
      return false;
    }
    if (o.wait_target == WaitTarget::device) {
      for (std::size_t s = 0; s < pending_.size(); ++s) {
        if (!waits_for_stream(s)) return false;
      }
    }
  }
  OpTimes& times = times_[static_cast<std::size_t>(at.step)][static_cast<std::size_t>(at.op)];
  times.issued = is_ordered(o) ? now() : lane.begin;
  issue(at);
  if (!is_ordered(o)) {
    times.start = lane.begin;
    times.end = now();
  }
  if (locks) locked_[lock] = false;
  lane.begun = false;
  ++lane.cursor.at;
  return true;
}

// The order of issue over all lanes, and room in the queue of launches. A host_wait for a stream
// or the device needs all that stands before it issued.
bool GpuRank::is_free_to_go(At at) {
  const Op& o = op(at);
  if (o.kind == OpKind::stream_wait && !host_ops_done(at)) return false;
  const bool waits = o.kind == OpKind::host_wait && o.wait_target != WaitTarget::ops;
  if (!is_ordered(o) && !waits) return true;
  if (runs_on_stream(o) && ahead_ >= most_ahead) return false;
  for (; next_issue_.step < static_cast<int>(run_.programs.size());
       ++next_issue_.step, next_issue_.at = 0) {
    const auto& list = run_.issue_order[static_cast<std::size_t>(role_)]
                                       [static_cast<std::size_t>(program(next_issue_.step))];
    if (next_issue_.at >= list.size()) continue;
    const std::pair next{next_issue_.step, list[next_issue_.at]};
    const std::pair mine{at.step, at.op};
    return waits ? mine < next : mine == next;
  }
  return waits;
}

void GpuRank::bind(At at) {
  const Op& o = op(at);
  const OpContext c = context(at);
  auto* views = const_cast<std::byte**>(c.memory);
  std::int32_t next = 0;
  for (const Range range : {o.reads, o.writes}) {
    for (const View& view : run_.schedule.at_views(range)) {
      std::byte* start = memory_->at(view.buffer);
      if (start == nullptr) {
        throw std::runtime_error(
            run_.names[static_cast<std::size_t>(role_)][static_cast<std::size_t>(c.program)]
                      [static_cast<std::size_t>(at.op)] +
            " uses buffer " +
            run_.schedule.buffers[static_cast<std::size_t>(view.buffer)].name.str() +
            ", which is not allocated");
      }
      views[next++] = start;
    }
  }
}

void GpuRank::issue(At at) {
  const Op& o = op(at);
  OpState& mine = state(at);
  mine.issued = true;
  if (is_ordered(o)) ++next_issue_.at;
  switch (o.kind) {
    case OpKind::alloc:
      memory_->alloc(o.buffer);
      sample(at);
      break;
    case OpKind::free:
      mine.freed = memory_->free(o.buffer);
      sample(at);
      if (mine.freed == nullptr) break;
      if (o.free_rule == FreeRule::after_op && !awaited_done(at)) {
        waiting_frees_.push_back(at);
      } else {
        release(at);
      }
      break;
    case OpKind::stream_wait: {
      GpuStream* stream = streams_[static_cast<std::size_t>(o.stream)];
      for (const OpRef ref : run_.schedule.at_refs(o.waits)) {
        const auto awaited = resolve(at.step, ref);
        if (!awaited) continue;
        const OpState& other = state(*awaited);
        if (!other.done && other.behind != nullptr) gpu_.wait(stream, other.behind);
      }
      break;
    }
    case OpKind::compute:
    case OpKind::collective:
    case OpKind::copy: enqueue(at); return;
    case OpKind::host_work:
    case OpKind::host_wait:
    case OpKind::storage: break;
  }
  mine.done = true;
}

void GpuRank::enqueue(At at) {
  const Op& o = op(at);
  OpState& mine = state(at);
  GpuStream* stream = streams_[static_cast<std::size_t>(o.stream)];
  bind(at);
  memory_->before_op(o.stream);
  const OpContext c = context(at);
  gpu_.push_range(run_.names[static_cast<std::size_t>(role_)][static_cast<std::size_t>(c.program)]
                            [static_cast<std::size_t>(at.op)]
                                .c_str());
  mine.before = event();
  mine.behind = event();
  if (o.kind == OpKind::collective) {
    const Operands operands = run_.work.operands(c, stream);
    gpu_.record(mine.before, stream);
    entering_[static_cast<std::size_t>(o.comm)].push_back(at);
    pending_[static_cast<std::size_t>(o.stream)].push_back(at);
    ++ahead_;
    comms_->start(o.comm, stream, {o.collective, o.reduction, o.dtype, o.elements, o.root},
                  operands);
    run_.work.after(c, stream);
  } else {
    gpu_.record(mine.before, stream);
    run_.work.run(c, stream);
    pending_[static_cast<std::size_t>(o.stream)].push_back(at);
    ++ahead_;
  }
  gpu_.record(mine.behind, stream);
  gpu_.pop_range();
}

void GpuRank::release(At at) {
  const Op& o = op(at);
  DeviceMemory::Block* block = std::exchange(state(at).freed, nullptr);
  std::vector<StreamIndex> streams;
  if (o.free_rule == FreeRule::after_streams) {
    const auto list = run_.schedule.at_streams(o.free_streams);
    streams.assign(list.begin(), list.end());
  }
  memory_->reuse(block, streams);
}

}  // namespace stepcast::runtime

#include "runtime/cuda/gpu_rank.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

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

GpuRank::GpuRank(const GpuRun& run, int rank, int role)
    : run_(run),
      gpu_(run.gpu),
      rank_(rank),
      role_(role),
      steps_(run.programs.size()),
      views_(run.programs.size()),
      times_(run.programs.size()),
      lanes_(run.schedule.lanes.size()),
      pending_(run.schedule.streams.size()),
      entering_(run.schedule.communicators.size()),
      through_(run.schedule.communicators.size(), 0),
      same_(run.schedule.roles[static_cast<std::size_t>(role)].steps) {
  std::vector<Name> locks;
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    const Name lock = run.schedule.lanes[l].lock;
    if (lock.empty()) continue;
    const auto known = std::find(locks.begin(), locks.end(), lock);
    lanes_[l].lock = static_cast<int>(known - locks.begin());
    if (known == locks.end()) locks.push_back(lock);
  }
  locked_.resize(locks.size(), false);
  const int most_urgent = gpu_.most_urgent();
  for (const Stream& stream : run.schedule.streams) {
    streams_.push_back(gpu_.new_stream(std::clamp(stream.priority, most_urgent, 0)));
  }
  if (streams_.empty()) streams_.push_back(gpu_.new_stream(0));
  memory_ = std::make_unique<DeviceMemory>(run.schedule, role, gpu_, streams_, run.work.poisons());
  std::vector<std::byte*> buffers(run.schedule.buffers.size());
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    buffers[b] = memory_->at(static_cast<BufferIndex>(b));
  }
  run.work.start(rank, buffers.data(), streams_.front());
  for (GpuStream* stream : streams_) gpu_.synchronize(stream);
}

GpuRank::~GpuRank() {
  try {
    memory_.reset();
    for (auto& step : steps_) {
      for (const OpState& s : step) {
        if (s.before != nullptr) gpu_.end_event(s.before);
        if (s.behind != nullptr) gpu_.end_event(s.behind);
      }
    }
    for (GpuEvent* each : idle_events_) gpu_.end_event(each);
    if (zero_ != nullptr) gpu_.end_event(zero_);
    for (GpuStream* stream : streams_) gpu_.end_stream(stream);
  } catch (const GpuError&) {
    // The device is broken, and why has been said.
  }
}

void GpuRank::begin(Communicators& comms) {
  comms_ = &comms;
  zero_ = gpu_.new_event();
  gpu_.record(zero_, streams_.front());
  gpu_.synchronize(streams_.front());
  began_ = std::chrono::steady_clock::now();
}

void GpuRank::end() {
  std::vector<std::byte*> buffers(run_.schedule.buffers.size());
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    buffers[b] = memory_->at(static_cast<BufferIndex>(b));
  }
  run_.work.end(rank_, buffers.data(), streams_.front());
}

Seconds GpuRank::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
}

// ---- Places in the run --------------------------------------------------------------------------

const Op& GpuRank::op(At at) const {
  return run_.schedule.roles[static_cast<std::size_t>(role_)]
      .steps[static_cast<std::size_t>(program(at.step))]
      .ops[static_cast<std::size_t>(at.op)];
}

const Queues& GpuRank::queues(int step) const {
  return run_.queues[static_cast<std::size_t>(role_)][static_cast<std::size_t>(program(step))];
}

GpuRank::OpState& GpuRank::state(At at) {
  auto& step = steps_[static_cast<std::size_t>(at.step)];
  if (step.empty()) {
    const Queues& q = queues(at.step);
    step.resize(q.first_view.size());
    times_[static_cast<std::size_t>(at.step)].resize(q.first_view.size());
    views_[static_cast<std::size_t>(at.step)].resize(static_cast<std::size_t>(q.views), nullptr);
  }
  return step[static_cast<std::size_t>(at.op)];
}

std::optional<GpuRank::At> GpuRank::resolve(int step, OpRef ref) {
  const int earlier = step - ref.steps_back;
  if (earlier < 0 || ref.op < 0) return std::nullopt;
  const int here = program(step);
  const int there = program(earlier);
  const OpIndex op = same_(static_cast<std::size_t>(here), static_cast<std::size_t>(there), ref.op);
  if (op < 0) return std::nullopt;
  return At{earlier, op};
}

bool GpuRank::awaited_done(At at) {
  for (const OpRef ref : run_.schedule.at_refs(op(at).waits)) {
    const auto awaited = resolve(at.step, ref);
    if (awaited && !state(*awaited).done) return false;
  }
  return true;
}

// A stream cannot wait for what the host does: its lane does, before it issues the wait.
bool GpuRank::host_ops_done(At at) {
  for (const OpRef ref : run_.schedule.at_refs(op(at).waits)) {
    const auto awaited = resolve(at.step, ref);
    if (awaited && !runs_on_stream(op(*awaited)) && !state(*awaited).done) return false;
  }
  return true;
}

// Everything that was issued to the stream before `upto` is done. What stands before it in the
// program has been issued: host waits hold their lane, and the order of issue is the program's.
bool GpuRank::drained(At upto, StreamIndex stream) const {
  const auto& list = pending_[static_cast<std::size_t>(stream)];
  return list.empty() ||
         std::pair{list.front().step, list.front().op} > std::pair{upto.step, upto.op};
}

OpContext GpuRank::context(At at) {
  const Queues& q = queues(at.step);
  return {rank_,
          role_,
          at.step,
          program(at.step),
          at.op,
          &op(at),
          views_[static_cast<std::size_t>(at.step)].data() +
              q.first_view[static_cast<std::size_t>(at.op)]};
}

GpuRank::At GpuRank::lane_head(std::size_t lane) {
  Cursor& cursor = lanes_[lane].cursor;
  for (; cursor.step < static_cast<int>(run_.programs.size()); ++cursor.step, cursor.at = 0) {
    const std::vector<OpIndex>& list = queues(cursor.step).lanes[lane];
    if (cursor.at < list.size()) return {cursor.step, list[cursor.at]};
  }
  return {};
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
  const bool locks = lane.lock >= 0 && o.kind != OpKind::host_wait && o.kind != OpKind::storage;
  const auto lock = static_cast<std::size_t>(std::max(lane.lock, 0));
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

// ---- What is done -------------------------------------------------------------------------------

bool GpuRank::collect() {
  bool went = false;
  for (auto& list : pending_) {
    while (!list.empty()) {
      const OpState& s = state(list.front());
      if (!gpu_.done(s.behind)) break;
      const At at = list.front();
      list.pop_front();
      finish(at);
      went = true;
    }
  }
  return went;
}

void GpuRank::finish(At at) {
  const Op& o = op(at);
  OpState& mine = state(at);
  mine.done = true;
  --ahead_;
  OpTimes& times = times_[static_cast<std::size_t>(at.step)][static_cast<std::size_t>(at.op)];
  times.start = gpu_.between(zero_, mine.before);
  times.end = std::max(times.start, gpu_.between(zero_, mine.behind));
  idle_events_.push_back(std::exchange(mine.before, nullptr));
  idle_events_.push_back(std::exchange(mine.behind, nullptr));
  if (o.kind == OpKind::collective) {
    auto& list = entering_[static_cast<std::size_t>(o.comm)];
    list.erase(std::find_if(list.begin(), list.end(),
                            [&](At each) { return each.step == at.step && each.op == at.op; }));
    ++through_[static_cast<std::size_t>(o.comm)];
  }
  run_.work.done(context(at));
  for (std::size_t i = waiting_frees_.size(); i-- > 0;) {
    if (!awaited_done(waiting_frees_[i])) continue;
    release(waiting_frees_[i]);
    waiting_frees_.erase(waiting_frees_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

GpuEvent* GpuRank::event() {
  if (idle_events_.empty()) return gpu_.new_event();
  GpuEvent* last = idle_events_.back();
  idle_events_.pop_back();
  return last;
}

void GpuRank::sample(At at) {
  samples_.push_back({role_, at.step, at.op, now(), memory_->allocated()});
}

RankStanding GpuRank::standing() {
  RankStanding s;
  s.ended = done();
  // The oldest op that is not done; else what the host is at.
  At oldest;
  for (const auto& list : pending_) {
    if (list.empty()) continue;
    const At at = list.front();
    if (oldest.op < 0 || std::pair{at.step, at.op} < std::pair{oldest.step, oldest.op}) oldest = at;
  }
  for (std::size_t lane = 0; lane < lanes_.size() && oldest.op < 0; ++lane) {
    oldest = lane_head(lane);
  }
  if (oldest.op >= 0) s.at = {role_, oldest.step, program(oldest.step), oldest.op};
  for (std::size_t c = 0; c < through_.size(); ++c) {
    CommStanding comm;
    comm.through = through_[c];
    if (!entering_[c].empty()) {
      const At at = entering_[c].front();
      const Op& o = op(at);
      const OpState& its = state(at);
      comm.entered = its.before != nullptr && gpu_.done(its.before);
      comm.what = {o.collective, o.reduction, o.dtype, o.elements, o.root};
      comm.at = {role_, at.step, program(at.step), at.op};
    }
    s.comms.push_back(comm);
  }
  return s;
}

}  // namespace stepcast::runtime

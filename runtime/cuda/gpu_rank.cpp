#include "runtime/cuda/gpu_rank.hpp"

#include <algorithm>
#include <utility>

namespace stepcast::runtime {

GpuRank::GpuRank(const GpuRun& run, int rank, int role)
    : run_(run),
      gpu_(run.gpu),
      rank_(rank),
      role_(role),
      steps_(run.programs.size()),
      views_(run.programs.size()),
      times_(run.programs.size()),
      lanes_(run.schedule.lanes.size()),
      locks_(run.schedule),
      locked_(locks_.count, false),
      pending_(run.schedule.streams.size()),
      entering_(run.schedule.communicators.size()),
      through_(run.schedule.communicators.size(), 0),
      same_(run.schedule.roles[static_cast<std::size_t>(role)].steps) {
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

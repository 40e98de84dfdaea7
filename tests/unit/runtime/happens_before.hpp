#pragma once
// Which pairs of conflicting ops of a rank's program are ordered, and how: what tells a mutant that
// only lost a superfluous wait from one that lost an order.
//
// Two ops conflict when both touch bytes of one buffer and one of them writes. The programs of a
// role are unrolled in their order, the last one twice. Every op has two moments, issued (I) and
// done (D); arrows:
//   I -> I   the next op of its lane           I -> D   of one op
//   D -> D   the next op of its stream or communicator; an awaited op to the stream_wait
//   D -> I   an awaited op to the host_wait
// A free writes its buffer (poison) once the streams of its rule have passed it.
// Collectives tie ranks together, but every path through another rank of a role is a path through
// the rank itself too: they run one program.

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace stepcast::testing {

class HappensBefore {
 public:
  explicit HappensBefore(const Schedule& schedule, int role = 0)
      : s_(schedule), programs_(schedule.roles[static_cast<std::size_t>(role)].steps) {
    for (std::size_t p = 0; p < programs_.size(); ++p) unrolled_.push_back(p);
    unrolled_.push_back(programs_.size() - 1);
    int nodes = 0;
    for (const std::size_t p : unrolled_) {
      first_.push_back(nodes);
      nodes += 2 * static_cast<int>(programs_[p].ops.size());
    }
    words_ = (static_cast<std::size_t>(nodes) + 63) / 64;
    before_.assign(static_cast<std::size_t>(nodes) * words_, 0);
    lane_.assign(s_.lanes.size(), -1);
    stream_.assign(s_.streams.size(), -1);
    comm_.assign(s_.communicators.size(), -1);
    lives_.assign(s_.buffers.size(), 0);
    for (std::size_t step = 0; step < unrolled_.size(); ++step) {
      for (std::size_t i = 0; i < ops(step).size(); ++i) follow_op(step, i);
    }
  }

  // Ordered conflicting pairs, by names that survive a mutation.
  using Pairs = std::set<std::pair<std::size_t, std::size_t>>;
  Pairs ordered() const {
    std::vector<std::vector<std::size_t>> names;  // by step, op
    for (std::size_t step = 0; step < unrolled_.size(); ++step) {
      names.emplace_back();
      for (const std::string& name : op_names(s_, programs_[unrolled_[step]])) {
        names.back().push_back(std::hash<std::string>()(name + "@" + std::to_string(step)));
      }
    }
    Pairs pairs;
    for (const auto& [place, touches] : touches_) {
      for (const Touch& x : touches) {
        for (const Touch& y : touches) {
          if (!(x.write || y.write) || x.end <= y.begin || y.end <= x.begin) continue;
          if (is_before(done(x.step, x.op), done(y.step, y.op))) {
            pairs.emplace(names[x.step][x.op], names[y.step][y.op]);
          }
        }
      }
    }
    return pairs;
  }

 private:
  struct Touch {
    std::size_t step, op;
    Bytes begin, end;
    bool write;
  };
  const std::vector<Op>& ops(std::size_t step) const { return programs_[unrolled_[step]].ops; }
  int issued(std::size_t step, std::size_t op) const {
    return first_[step] + 2 * static_cast<int>(op);
  }
  int done(std::size_t step, std::size_t op) const { return issued(step, op) + 1; }

  void follow_op(std::size_t step, std::size_t i) {
    const Op& op = ops(step)[i];
    const int i_node = issued(step, i);
    const int d_node = done(step, i);
    follow(i_node, lane_[static_cast<std::size_t>(op.lane)]);
    lane_[static_cast<std::size_t>(op.lane)] = i_node;
    if (op.kind == OpKind::host_wait) {
      wait(op, step, i_node);
      if (op.wait_target == WaitTarget::stream) {
        follow(i_node, stream_[static_cast<std::size_t>(op.wait_stream)]);
      }
      if (op.wait_target == WaitTarget::device) {
        for (const int last : stream_) follow(i_node, last);
      }
    }
    follow(d_node, i_node);
    if (op.kind == OpKind::alloc) ++lives_[static_cast<std::size_t>(op.buffer)];
    if (op.kind == OpKind::free) {
      const Buffer& buffer = s_.buffers[static_cast<std::size_t>(op.buffer)];
      follow(d_node, stream_[static_cast<std::size_t>(buffer.pool)]);
      for (const StreamIndex named : s_.at_streams(op.free_streams)) {
        follow(d_node, stream_[static_cast<std::size_t>(named)]);
      }
      if (op.free_rule == FreeRule::after_op) wait(op, step, d_node);
      touch(step, i, {op.buffer, 0, buffer.bytes}, true);
    }
    if (op.stream < 0) return;
    const auto at = static_cast<std::size_t>(op.stream);
    follow(d_node, stream_[at]);
    if (op.kind == OpKind::stream_wait) wait(op, step, d_node);
    stream_[at] = d_node;
    if (op.kind == OpKind::collective) {
      follow(d_node, comm_[static_cast<std::size_t>(op.comm)]);
      comm_[static_cast<std::size_t>(op.comm)] = d_node;
    }
    for (const View& v : s_.at_views(op.reads)) touch(step, i, v, false);
    for (const View& v : s_.at_views(op.writes)) touch(step, i, v, true);
  }

  void follow(int later, int earlier) {
    if (earlier < 0) return;
    const auto l = static_cast<std::size_t>(later) * words_;
    const auto e = static_cast<std::size_t>(earlier);
    for (std::size_t w = 0; w < words_; ++w) before_[l + w] |= before_[e * words_ + w];
    before_[l + e / 64] |= std::uint64_t{1} << (e % 64);
  }
  void wait(const Op& op, std::size_t step, int moment) {
    for (const OpRef ref : s_.at_refs(op.waits)) {
      const auto back = static_cast<std::size_t>(ref.steps_back);
      if (back > step) continue;
      const std::size_t then = unrolled_[step - back];
      const OpIndex awaited = then == unrolled_[step]
                                  ? ref.op
                                  : SameOp(programs_[unrolled_[step]], programs_[then])(ref.op);
      if (awaited >= 0) follow(moment, done(step - back, static_cast<std::size_t>(awaited)));
    }
  }
  bool is_before(int earlier, int later) const {
    const auto e = static_cast<std::size_t>(earlier);
    return (before_[static_cast<std::size_t>(later) * words_ + e / 64] >> (e % 64) & 1) != 0;
  }
  // From one alloc to the next a buffer is other memory.
  void touch(std::size_t step, std::size_t op, const View& v, bool write) {
    touches_[{v.buffer, lives_[static_cast<std::size_t>(v.buffer)]}].push_back(
        {step, op, v.offset, v.offset + v.bytes, write});
  }

  const Schedule& s_;
  const std::vector<StepProgram>& programs_;
  std::vector<std::size_t> unrolled_;  // by step: which program
  std::vector<int> first_;             // by step: its first node
  std::size_t words_ = 0;
  std::vector<std::uint64_t> before_;
  std::vector<int> lane_, stream_, comm_;  // the last moment on each
  std::map<std::pair<BufferIndex, int>, std::vector<Touch>> touches_;
  std::vector<int> lives_;  // by buffer: allocs so far
};

}  // namespace stepcast::testing

#pragma once
// Which pairs of conflicting ops of a rank's program are ordered, and how: what tells a mutant that
// only lost a superfluous wait from one that lost an order.
//
// Two ops conflict when both touch bytes of one buffer and one of them writes. The program is
// unrolled over two steps. Every op has two moments, issued (I) and done (D); arrows:
//   I -> I   the next op of its lane           I -> D   of one op
//   D -> D   the next op of its stream or communicator; an awaited op to the stream_wait
//   D -> I   an awaited op to the host_wait
// A free writes its buffer (poison) once the streams of its rule have passed it.
// Collectives tie ranks together, but every path through another rank of a role is a path through
// the rank itself too: they run one program.

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace stepcast::testing {

class HappensBefore {
 public:
  explicit HappensBefore(const Schedule& schedule) : s_(schedule) {
    const auto& ops = s_.roles[0].steps.back().ops;
    n_ = static_cast<int>(ops.size());
    const int nodes = 4 * n_;  // two steps, two moments
    words_ = (static_cast<std::size_t>(nodes) + 63) / 64;
    before_.assign(static_cast<std::size_t>(nodes) * words_, 0);
    std::vector<int> lane(s_.lanes.size(), -1);
    std::vector<int> stream(s_.streams.size(), -1);
    std::vector<int> comm(s_.communicators.size(), -1);
    lives_.assign(s_.buffers.size(), 0);
    for (int step = 0; step < 2; ++step) {
      for (int i = 0; i < n_; ++i) {
        const Op& op = ops[static_cast<std::size_t>(i)];
        const int issued = node(step, i, false);
        const int done = node(step, i, true);
        follow(issued, lane[static_cast<std::size_t>(op.lane)]);
        lane[static_cast<std::size_t>(op.lane)] = issued;
        if (op.kind == OpKind::host_wait) {
          wait(op, step, issued);
          if (op.wait_target == WaitTarget::stream) {
            follow(issued, stream[static_cast<std::size_t>(op.wait_stream)]);
          }
          if (op.wait_target == WaitTarget::device) {
            for (const int last : stream) follow(issued, last);
          }
        }
        follow(done, issued);
        if (op.kind == OpKind::alloc) ++lives_[static_cast<std::size_t>(op.buffer)];
        if (op.kind == OpKind::free) {
          const Buffer& buffer = s_.buffers[static_cast<std::size_t>(op.buffer)];
          follow(done, stream[static_cast<std::size_t>(buffer.pool)]);
          for (const StreamIndex named : s_.at_streams(op.free_streams)) {
            follow(done, stream[static_cast<std::size_t>(named)]);
          }
          if (op.free_rule == FreeRule::after_op) wait(op, step, done);
          touch(step, i, op.buffer, 0, buffer.bytes, true);
        }
        if (op.stream < 0) continue;
        const auto at = static_cast<std::size_t>(op.stream);
        follow(done, stream[at]);
        if (op.kind == OpKind::stream_wait) wait(op, step, done);
        stream[at] = done;
        if (op.kind == OpKind::collective) {
          follow(done, comm[static_cast<std::size_t>(op.comm)]);
          comm[static_cast<std::size_t>(op.comm)] = done;
        }
        for (const View& v : s_.at_views(op.reads)) {
          touch(step, i, v.buffer, v.offset, v.offset + v.bytes, false);
        }
        for (const View& v : s_.at_views(op.writes)) {
          touch(step, i, v.buffer, v.offset, v.offset + v.bytes, true);
        }
      }
    }
  }

  // Ordered conflicting pairs, by names that survive a mutation.
  std::set<std::string> ordered(const std::vector<std::string>& names) const {
    std::set<std::string> pairs;
    for (std::size_t a = 0; a < touches_.size(); ++a) {
      for (std::size_t b = 0; b < touches_.size(); ++b) {
        const Touch& x = touches_[a];
        const Touch& y = touches_[b];
        if (x.buffer != y.buffer || x.life != y.life || !(x.write || y.write)) continue;
        if (x.end <= y.begin || y.end <= x.begin) continue;
        if (!is_before(node(x.step, x.op, true), node(y.step, y.op, true))) continue;
        pairs.insert(names[static_cast<std::size_t>(x.op)] + "@" + std::to_string(x.step) + " < " +
                     names[static_cast<std::size_t>(y.op)] + "@" + std::to_string(y.step));
      }
    }
    return pairs;
  }

 private:
  struct Touch {
    int step, op;
    BufferIndex buffer;
    int life;  // from one alloc to the next it is other memory
    Bytes begin, end;
    bool write;
  };
  int node(int step, int op, bool done) const { return 2 * (step * n_ + op) + (done ? 1 : 0); }
  void follow(int later, int earlier) {
    if (earlier < 0) return;
    const auto l = static_cast<std::size_t>(later) * words_;
    const auto e = static_cast<std::size_t>(earlier);
    for (std::size_t w = 0; w < words_; ++w) before_[l + w] |= before_[e * words_ + w];
    before_[l + e / 64] |= std::uint64_t{1} << (e % 64);
  }
  void wait(const Op& op, int step, int moment) {
    for (const OpRef ref : s_.at_refs(op.waits)) {
      if (step - ref.steps_back >= 0) follow(moment, node(step - ref.steps_back, ref.op, true));
    }
  }
  bool is_before(int earlier, int later) const {
    const auto e = static_cast<std::size_t>(earlier);
    return (before_[static_cast<std::size_t>(later) * words_ + e / 64] >> (e % 64) & 1) != 0;
  }
  void touch(int step, int op, BufferIndex buffer, Bytes begin, Bytes end, bool write) {
    const int life = lives_[static_cast<std::size_t>(buffer)];
    touches_.push_back({step, op, buffer, life, begin, end, write});
  }

  const Schedule& s_;
  int n_ = 0;
  std::size_t words_ = 0;
  std::vector<std::uint64_t> before_;
  std::vector<Touch> touches_;
  std::vector<int> lives_;  // by buffer: allocs so far
};

}  // namespace stepcast::testing

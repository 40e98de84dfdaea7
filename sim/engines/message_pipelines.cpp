// How collectives become messages.
//
// Ring: its bytes go in loops, each of one chunk a rank. Message (loop l, step j, position i) goes
// over connection i. Step 0 is the rank's own chunk; step j may leave when step j-1 came in from
// the rank before. All-reduce: 2(n-1) steps; all-gather, reduce-scatter: n-1. A rank begins loop l
// when it has the last message of loop l - window (NCCL's slots: 8, of which a chunk takes 4). The
// last loop's chunk is what is left, divided.
//
// Tree: its bytes go in chunks. Up: chunk k leaves a rank for its parent when k came from all its
// children. The root then sends k down, and each rank passes on what comes from above. Both go on
// at once. A leaf begins chunk k when its parent has chunk k - window.
//
// Example: all-reduce of 8 MB, 2 ranks, one ring of 20 GB/s, chunks of 1 MB, 10 us a message. A
// loop is 2 MB, so 4 loops of 2 steps; a message takes 50 us on the link. Window 1: each loop is
// 2 * (50 + 10), 480 us in all. Window 2: at 0 both loops 0 and 1 are ready; the link goes on with
// loop 1 while the first message is still on its way, so it is never idle: 8 messages of 50 us,
// and the last one's 10 us: 410 us.
//
// Chain: its bytes go in chunks, each over one connection after the other: around a ring from its
// root, into and out of a switch that copies or reduces. The first place begins chunk k when chunk
// k - window has left it for good.
//
// Nothing is created before it may start: each connection has a queue of the messages that are
// ready. State is a few integers a position and loop under way. Cost: docs/engines.md.

#include "sim/engines/message_pipelines.hpp"

#include <algorithm>
#include <cmath>
#include <deque>

#include "base/error.hpp"
#include "sim/engines/constraint.hpp"

namespace stepcast {
namespace {

// Bytes cut into rounds of at most `most`.
struct Rounds {
  Rounds(double bytes, double most)
      : all(bytes),
        each(most),
        count(
            std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(bytes / most - 1e-9)))) {}
  double bytes(std::int64_t round) const {
    return round + 1 < count ? each : all - each * static_cast<double>(count - 1);
  }
  double all, each;
  std::int64_t count;
};

class Ring final : public Pipeline {
 public:
  Ring(const MessageRing& ring, const MessageCollective& of, int id)
      : ring_(ring),
        id_(id),
        ranks_(of.ranks),
        steps_(of.op == MessagesOp::all_reduce ? 2 * (of.ranks - 1) : of.ranks - 1),
        rounds_(of.bytes * ring.share, ring.chunk_bytes * of.ranks) {}

  std::int64_t messages() const override { return rounds_.count * ranks_ * steps_; }

  void begin(Outbox& out) override {
    for (std::int64_t loop = 0; loop < std::min<std::int64_t>(ring_.window, rounds_.count);
         ++loop) {
      for (int i = 0; i < ranks_; ++i) send(i, loop, 0, out);
    }
  }

  void arrived(const Message& message, Outbox& out) override {
    const int here = (message.place + 1) % ranks_;
    if (message.step + 1 < steps_) {
      send(here, message.round, message.step + 1, out);
    } else if (message.round + ring_.window < rounds_.count) {
      send(here, message.round + ring_.window, 0, out);
    }
  }

 private:
  void send(int place, std::int64_t loop, int step, Outbox& out) {
    out.ready(ring_.connections[at(place)], {id_, place, loop, step, rounds_.bytes(loop) / ranks_});
  }

  const MessageRing& ring_;
  int id_, ranks_, steps_;
  Rounds rounds_;
};

class Tree final : public Pipeline {
 public:
  Tree(const MessageTree& tree, const MessageCollective& of, int id)
      : tree_(tree),
        id_(id),
        rounds_(of.bytes * tree.share, tree.chunk_bytes),
        children_(tree.parent.size()),
        missing_(tree.parent.size()) {
    for (int rank = 0; rank < static_cast<int>(tree.parent.size()); ++rank) {
      if (tree.parent[at(rank)] >= 0) children_[at(tree.parent[at(rank)])].push_back(rank);
    }
  }

  std::int64_t messages() const override {
    return rounds_.count * 2 * (static_cast<std::int64_t>(tree_.parent.size()) - 1);
  }

  void begin(Outbox& out) override {
    for (std::int64_t k = 0; k < std::min<std::int64_t>(tree_.window, rounds_.count); ++k) {
      for (int rank = 0; rank < static_cast<int>(children_.size()); ++rank) {
        if (children_[at(rank)].empty()) send_up(rank, k, out);
      }
    }
  }

  void arrived(const Message& message, Outbox& out) override {
    const int sender = message.place / 2;  // down: who receives
    if (message.place % 2 == 1) return pass_down(sender, message.round, out);
    const bool leaf = children_[at(sender)].empty();
    if (leaf && message.round + tree_.window < rounds_.count) {
      send_up(sender, message.round + tree_.window, out);
    }
    const int here = tree_.parent[at(sender)];
    if (!complete(here, message.round)) return;
    if (tree_.parent[at(here)] < 0) return pass_down(here, message.round, out);
    send_up(here, message.round, out);
  }

 private:
  // One more child's chunk k is there; true when it was the last. The chunks of a child come in
  // order, so at most the front ones are incomplete.
  bool complete(int rank, std::int64_t k) {
    std::deque<int>& missing = missing_[at(rank)].counts;
    std::int64_t& first = missing_[at(rank)].first;
    while (first + static_cast<std::int64_t>(missing.size()) <= k) {
      missing.push_back(static_cast<int>(children_[at(rank)].size()));
    }
    const bool all = --missing[static_cast<std::size_t>(k - first)] == 0;
    while (!missing.empty() && missing.front() == 0) {
      missing.pop_front();
      ++first;
    }
    return all;
  }

  void send_up(int rank, std::int64_t k, Outbox& out) {
    out.ready(tree_.up[at(rank)], {id_, 2 * rank, k, 0, rounds_.bytes(k)});
  }
  void pass_down(int rank, std::int64_t k, Outbox& out) {
    for (const int child : children_[at(rank)]) {
      out.ready(tree_.down[at(child)], {id_, 2 * child + 1, k, 0, rounds_.bytes(k)});
    }
  }

  struct Missing {
    std::int64_t first = 0;  // chunk of counts[0]
    std::deque<int> counts;  // children whose chunk is not there yet
  };
  const MessageTree& tree_;
  int id_;
  Rounds rounds_;
  std::vector<std::vector<int>> children_;
  std::vector<Missing> missing_;
};
class Chain final : public Pipeline {
 public:
  Chain(const MessageChain& chain, const MessageCollective& of, int id)
      : chain_(chain), id_(id), rounds_(of.bytes * chain.share, chain.chunk_bytes) {}

  std::int64_t messages() const override {
    return rounds_.count * static_cast<std::int64_t>(chain_.connections.size());
  }

  void begin(Outbox& out) override {
    for (std::int64_t k = 0; k < std::min<std::int64_t>(chain_.window, rounds_.count); ++k) {
      send(0, k, out);
    }
  }

  void arrived(const Message& message, Outbox& out) override {
    if (message.place == 0 && message.round + chain_.window < rounds_.count) {
      send(0, message.round + chain_.window, out);
    }
    if (at(message.place + 1) < chain_.connections.size()) {
      send(message.place + 1, message.round, out);
    }
  }

 private:
  void send(int place, std::int64_t k, Outbox& out) {
    out.ready(chain_.connections[at(place)], {id_, place, k, 0, rounds_.bytes(k)});
  }

  const MessageChain& chain_;
  int id_;
  Rounds rounds_;
};

}  // namespace

std::vector<std::unique_ptr<Pipeline>> pipelines_of(const MessageCollective& of, int first) {
  STEPCAST_ASSERT(of.bytes > 0, "a collective of nothing");
  STEPCAST_ASSERT(of.trees.empty() || of.op == MessagesOp::all_reduce, "trees only all-reduce");
  std::vector<std::unique_ptr<Pipeline>> made;
  for (const MessageRing& ring : of.rings) {
    STEPCAST_ASSERT(of.ranks >= 2 && static_cast<int>(ring.connections.size()) == of.ranks,
                    "a ring of others");
    made.push_back(std::make_unique<Ring>(ring, of, first++));
  }
  for (const MessageTree& tree : of.trees) {
    made.push_back(std::make_unique<Tree>(tree, of, first++));
  }
  for (const MessageChain& chain : of.chains) {
    made.push_back(std::make_unique<Chain>(chain, of, first++));
  }
  return made;
}

}  // namespace stepcast

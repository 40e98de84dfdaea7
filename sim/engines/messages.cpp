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
// Nothing is created before it may start: each connection has a queue of the messages that are
// ready. State is a few integers a position and loop under way. Cost: docs/engines.md.

#include "sim/engines/messages.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <memory>
#include <stdexcept>

#include "base/error.hpp"
#include "sim/engines/constraint.hpp"
#include "sim/engines/simgrid_flows.hpp"

namespace stepcast {
namespace {

struct Message {
  int pipeline = 0;
  int place = 0;  // position in the ring; 2 * rank + (1: down) in the tree
  std::int64_t round = 0;
  int step = 0;
  double bytes = 0;
};

// Where pipelines hand in what may be sent.
class Outbox {
 public:
  virtual ~Outbox() = default;
  virtual void ready(int connection, const Message& message) = 0;
};

class Pipeline {
 public:
  virtual ~Pipeline() = default;
  virtual void begin(Outbox& out) = 0;
  virtual void arrived(const Message& message, Outbox& out) = 0;
  virtual std::int64_t messages() const = 0;
};

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

struct Pipelines {
  std::vector<std::unique_ptr<Pipeline>> all;
  std::vector<int> collective;  // of each
};

Pipelines lowered(const MessagesInput& input) {
  Pipelines made;
  for (int c = 0; c < static_cast<int>(input.collectives.size()); ++c) {
    const MessageCollective& of = input.collectives[at(c)];
    STEPCAST_ASSERT(of.ranks >= 2 && of.bytes > 0, "a collective of nothing");
    STEPCAST_ASSERT(of.trees.empty() || of.op == MessagesOp::all_reduce, "trees only all-reduce");
    for (const MessageRing& ring : of.rings) {
      STEPCAST_ASSERT(static_cast<int>(ring.connections.size()) == of.ranks, "a ring of others");
      made.all.push_back(std::make_unique<Ring>(ring, of, static_cast<int>(made.all.size())));
      made.collective.push_back(c);
    }
    for (const MessageTree& tree : of.trees) {
      STEPCAST_ASSERT(static_cast<int>(tree.parent.size()) == of.ranks, "a tree of others");
      made.all.push_back(std::make_unique<Tree>(tree, of, static_cast<int>(made.all.size())));
      made.collective.push_back(c);
    }
  }
  return made;
}

class MessageRun final : private Outbox, private SimgridFlows::Listener {
 public:
  explicit MessageRun(const MessagesInput& input)
      : input_(input),
        pipelines_(lowered(input)),
        wires_(input.connections.size()),
        flows_(input, *this) {}

  // The ends, by collective.
  std::vector<Seconds> run() {
    ends_.assign(input_.collectives.size(), 0);
    for (const auto& pipeline : pipelines_.all) pipeline->begin(*this);
    flows_.run();
    std::int64_t expected = 0;
    for (const auto& pipeline : pipelines_.all) expected += pipeline->messages();
    STEPCAST_ASSERT(expected == arrived_, "messages that never came");
    return ends_;
  }

 private:
  struct Wire {
    bool busy = false;
    std::deque<Message> queue;      // ready; the front is on the wire when busy
    std::deque<Message> under_way;  // sent, not there yet: they come in order
  };

  void ready(int connection, const Message& message) override {
    Wire& wire = wires_[at(connection)];
    wire.queue.push_back(message);
    if (!wire.busy) next(connection);
  }

  void next(int connection) {
    Wire& wire = wires_[at(connection)];
    wire.busy = !wire.queue.empty();
    if (wire.busy) flows_.start(connection, wire.queue.front().bytes);
  }

  void flow_ended(int connection) override {
    Wire& wire = wires_[at(connection)];
    const Message sent = wire.queue.front();
    wire.queue.pop_front();
    const Seconds latency = input_.connections[at(connection)].latency;
    if (latency > 0) {
      wire.under_way.push_back(sent);
      flows_.ring_at(flows_.now() + latency, connection);
    } else {
      arrive(sent);  // what it makes ready here waits for next(): the wire still counts as busy
    }
    next(connection);
  }

  void bell(std::int64_t connection) override {
    Wire& wire = wires_[static_cast<std::size_t>(connection)];
    const Message message = wire.under_way.front();
    wire.under_way.pop_front();
    arrive(message);
  }

  void arrive(const Message& message) {
    ++arrived_;
    Seconds& end = ends_[at(pipelines_.collective[at(message.pipeline)])];
    end = std::max(end, flows_.now());
    pipelines_.all[at(message.pipeline)]->arrived(message, *this);
  }

  const MessagesInput& input_;
  Pipelines pipelines_;
  std::vector<Wire> wires_;
  std::vector<Seconds> ends_;
  std::int64_t arrived_ = 0;
  SimgridFlows flows_;
};

// All of it through the pipe, or false.
bool write_all(int pipe, const std::vector<Seconds>& values) {
  const char* from = reinterpret_cast<const char*>(values.data());
  std::size_t left = values.size() * sizeof(Seconds);
  while (left > 0) {
    const ssize_t n = write(pipe, from, left);
    if (n <= 0) return false;
    from += n;
    left -= static_cast<std::size_t>(n);
  }
  return true;
}

bool read_all(int pipe, std::vector<Seconds>& values) {
  char* into = reinterpret_cast<char*>(values.data());
  std::size_t left = values.size() * sizeof(Seconds);
  while (left > 0) {
    const ssize_t n = read(pipe, into, left);
    if (n <= 0) return false;
    into += n;
    left -= static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

std::int64_t count_messages(const MessagesInput& input) {
  std::int64_t count = 0;
  for (const auto& pipeline : lowered(input).all) count += pipeline->messages();
  return count;
}

MessagesResult simulate_messages(const MessagesInput& input) {
  MessagesResult result;
  result.messages = count_messages(input);
  result.ends.resize(input.collectives.size());
  if (!SimgridFlows::possible()) {
    throw std::runtime_error(
        "the messages engine cannot run after the fluid engine in one process: SimGrid keeps the "
        "model it was first given");
  }
  std::fflush(nullptr);  // or what is buffered would be written twice
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("the messages engine got no pipe");
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("the messages engine got no process");
  if (child == 0) {
    close(ends[0]);
    bool done = false;
    try {
      done = write_all(ends[1], MessageRun(input).run());
    } catch (...) {
      done = false;
    }
    _exit(done ? 0
               : 1);  // neither SimGrid's nor our own clean-up: it is the parent's process image
  }
  close(ends[1]);
  const bool heard = read_all(ends[0], result.ends);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!heard || status != 0) throw std::runtime_error("the messages engine's process failed");
  for (const Seconds end : result.ends) result.seconds = std::max(result.seconds, end);
  return result;
}

}  // namespace stepcast

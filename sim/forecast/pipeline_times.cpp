#include "sim/forecast/pipeline_times.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

namespace stepcast {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// An edge of a tree in one direction.
struct Edge {
  const MessageConnection* connection = nullptr;
  double bytes = 0;
  double chunk = 0;
  std::vector<int> next;  // edges that go on with what it brings
  int awaits = 0;         // edges whose chunk it needs
  int window = 0;         // of a leaf's way up; 0: it waits for nothing else
};

std::int64_t chunks_of(double bytes, double chunk) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(bytes / chunk - 1e-9)));
}

// A first chunk's way through all edges, taken in the order in which they begin: it shares a link
// with what has begun there and is not through.
class Heads {
 public:
  // `one_chunk`: an edge has no more than that; else the rest of its bytes follow the first chunk.
  Heads(const std::vector<MessageLink>& links, const std::vector<Edge>& edges, bool one_chunk)
      : heads(edges.size(), 0),
        hops(edges.size(), 0),
        links_(links),
        edges_(edges),
        one_chunk_(one_chunk),
        on_link_(links.size()),
        ends_(edges.size(), 0) {
    run();
  }

  std::vector<Seconds> heads;  // when the first chunk is there
  std::vector<Seconds> hops;   // how long it then takes to leave

 private:
  void run() {
    std::vector<int> awaits;
    for (std::size_t e = 0; e < edges_.size(); ++e) {
      awaits.push_back(edges_[e].awaits);
      if (edges_[e].awaits == 0) ready_.emplace(0, static_cast<int>(e));
    }
    while (!ready_.empty()) {
      const Seconds now = ready_.top().first;
      std::vector<int> together;
      while (!ready_.empty() && ready_.top().first <= now + 1e-12) {
        together.push_back(ready_.top().second);
        ready_.pop();
      }
      for (const int e : together) enter(e);
      for (const int e : together) hops[at(e)] = hop(edges_[at(e)], now);
      for (const int e : together) {
        const Edge& edge = edges_[at(e)];
        ends_[at(e)] = now + hops[at(e)] * (one_chunk_ ? 1 : edge.bytes / edge.chunk);
        const Seconds there = now + hops[at(e)] + edge.connection->latency;
        for (const int next : edge.next) {
          heads[at(next)] = std::max(heads[at(next)], there);
          if (--awaits[at(next)] == 0) ready_.emplace(heads[at(next)], next);
        }
      }
    }
  }

  void enter(int e) {
    ends_[at(e)] = std::numeric_limits<double>::infinity();
    for (const int link : edges_[at(e)].connection->links) on_link_[at(link)].push_back(e);
  }

  Seconds hop(const Edge& edge, Seconds now) {
    Seconds slowest = 0;
    for (const int link : edge.connection->links) {
      std::vector<int>& on = on_link_[at(link)];
      on.erase(
          std::remove_if(on.begin(), on.end(), [&](int e) { return ends_[at(e)] <= now + 1e-12; }),
          on.end());
      slowest = std::max(
          slowest, edge.chunk * static_cast<double>(on.size()) / (links_[at(link)].gbps * 1e9));
    }
    return slowest;
  }

  using Begin = std::pair<Seconds, int>;  // and the edge
  const std::vector<MessageLink>& links_;
  const std::vector<Edge>& edges_;
  bool one_chunk_;
  std::vector<std::vector<int>> on_link_;  // what has begun and is not known to be through
  std::vector<Seconds> ends_;
  std::priority_queue<Begin, std::vector<Begin>, std::greater<>> ready_;
};

class Trees {
 public:
  explicit Trees(const MessagesInput& input) : input_(input), on_link_(input.links.size()) {
    for (const MessageCollective& of : input.collectives) {
      for (const MessageTree& tree : of.trees) add(of, tree);
    }
    for (std::size_t e = 0; e < edges_.size(); ++e) {
      for (const int link : edges_[e].connection->links) {
        on_link_[at(link)].push_back(static_cast<int>(e));
      }
    }
  }

  Seconds seconds() {
    const Heads first(input_.links, edges_, true);
    heads_ = Heads(input_.links, edges_, false).heads;
    // The last chunk goes its way as the first went.
    std::vector<int> by_head(edges_.size());
    for (std::size_t e = 0; e < edges_.size(); ++e) by_head[e] = static_cast<int>(e);
    std::sort(by_head.begin(), by_head.end(),
              [&](int a, int b) { return first.heads[at(a)] > first.heads[at(b)]; });
    tails_.assign(edges_.size(), 0);
    for (const int e : by_head) {
      for (const int next : edges_[at(e)].next) {
        tails_[at(e)] = std::max(tails_[at(e)], first.hops[at(next)] + tails_[at(next)]);
      }
      tails_[at(e)] += edges_[at(e)].connection->latency;
    }
    Seconds longest = 0;
    for (std::size_t link = 0; link < on_link_.size(); ++link) {
      longest = std::max(longest, over(on_link_[link], input_.links[link].gbps * 1e9));
    }
    for (std::size_t e = 0; e < edges_.size(); ++e) longest = std::max(longest, stalled(e));
    return longest;
  }

 private:
  // Edges 2p and 2p+1 behind `first` lead up from place p and down to it; the root has none.
  void add(const MessageCollective& of, const MessageTree& tree) {
    const int places = static_cast<int>(tree.parent.size());
    std::vector<int> up(at(places), -1), down(at(places), -1);
    const auto edge_over = [&](int connection) {
      Edge edge;
      edge.connection = &input_.connections[at(connection)];
      edge.bytes = of.bytes * tree.share;
      edge.chunk = std::min(tree.chunk_bytes, edge.bytes);
      edges_.push_back(edge);
      return static_cast<int>(edges_.size()) - 1;
    };
    for (int p = 0; p < places; ++p) {
      if (tree.parent[at(p)] < 0) continue;
      up[at(p)] = edge_over(tree.up[at(p)]);
      down[at(p)] = edge_over(tree.down[at(p)]);
    }
    const auto lead = [&](int from, int to) {
      edges_[at(from)].next.push_back(to);
      ++edges_[at(to)].awaits;
    };
    std::vector<bool> inner(at(places), false);
    for (const int above : tree.parent) {
      if (above >= 0) inner[at(above)] = true;
    }
    for (int p = 0; p < places; ++p) {
      if (up[at(p)] >= 0 && !inner[at(p)]) edges_[at(up[at(p)])].window = tree.window;
    }
    const auto root = static_cast<int>(std::find(tree.parent.begin(), tree.parent.end(), -1) -
                                       tree.parent.begin());
    for (int p = 0; p < places; ++p) {
      if (p == root) continue;
      const int above = tree.parent[at(p)];
      if (above != root) {
        lead(up[at(p)], up[at(above)]);
        lead(down[at(above)], down[at(p)]);
        continue;
      }
      for (int other = 0; other < places; ++other) {
        if (tree.parent[at(other)] == root) lead(up[at(p)], down[at(other)]);
      }
    }
  }

  // A leaf whose window is through before its first chunk is there: each window costs a chunk and
  // its latency. 0: it does not wait.
  Seconds stalled(std::size_t e) const {
    const Edge& edge = edges_[e];
    const std::int64_t chunks = chunks_of(edge.bytes, edge.chunk);
    if (edge.window == 0 || chunks <= edge.window) return 0;
    Seconds full = 0;  // of its fullest link
    for (const int link : edge.connection->links) {
      double bytes = 0;
      for (const int other : on_link_[at(link)]) bytes += edges_[at(other)].bytes;
      full = std::max(full, bytes / (input_.links[at(link)].gbps * 1e9));
    }
    const Seconds chunk = full * edge.chunk / edge.bytes;
    const Seconds latency = edge.connection->latency;
    if (edge.window * chunk >= chunk + latency) return 0;
    const auto before = static_cast<double>((chunks - 1) / edge.window);
    return heads_[e] + before * (chunk + latency) + full - before * edge.window * chunk + tails_[e];
  }

  // A link's head, body and tail: its edges share it fairly, each from its head on.
  Seconds over(const std::vector<int>& on, double bytes_a_second) const {
    struct Job {
      Seconds head, left, tail;
    };
    std::vector<Job> waiting, running;
    for (const int e : on) {
      waiting.push_back({heads_[at(e)], edges_[at(e)].bytes / bytes_a_second, tails_[at(e)]});
    }
    std::sort(waiting.begin(), waiting.end(),
              [](const Job& a, const Job& b) { return a.head > b.head; });
    Seconds longest = 0, now = 0;
    while (!waiting.empty() || !running.empty()) {
      if (running.empty()) now = std::max(now, waiting.back().head);
      while (!waiting.empty() && waiting.back().head <= now) {
        running.push_back(waiting.back());
        waiting.pop_back();
      }
      Seconds least = std::numeric_limits<double>::infinity();
      for (const Job& job : running) least = std::min(least, job.left);
      const auto many = static_cast<double>(running.size());
      Seconds step = least * many;
      if (!waiting.empty()) step = std::min(step, waiting.back().head - now);
      now += step;
      for (Job& job : running) {
        job.left -= step / many;
        if (job.left <= 1e-15) longest = std::max(longest, now + job.tail);
      }
      running.erase(std::remove_if(running.begin(), running.end(),
                                   [](const Job& job) { return job.left <= 1e-15; }),
                    running.end());
    }
    return longest;
  }

  const MessagesInput& input_;
  std::vector<Edge> edges_;
  std::vector<std::vector<int>> on_link_;
  std::vector<Seconds> heads_, tails_;
};

}  // namespace

Seconds ring_seconds(const RingPace& pace, Seconds full) {
  const std::int64_t loops = chunks_of(pace.bytes, pace.chunk_bytes);
  const Seconds a_byte = full / (pace.steps * pace.bytes);
  const Seconds chunk = std::min(pace.chunk_bytes, pace.bytes) * a_byte;
  const Seconds last = (pace.bytes - pace.chunk_bytes * static_cast<double>(loops - 1)) * a_byte;
  const Seconds latest = pace.crossings > 0 ? pace.between : pace.within;
  // What `others` seconds of other loops' chunks leave of all steps' latencies: a chunk that is
  // late from between nodes catches up on the steps within, where others are still ahead of it; the
  // last one of all does not.
  const auto bare = [&](Seconds others) {
    return std::max({0.0, latest - others,
                     pace.crossings * (pace.between - others) +
                         (pace.steps - pace.crossings) * (pace.within - others)});
  };
  const std::int64_t in_last = (loops - 1) % pace.window + 1;  // loops that end together
  const std::int64_t before = (loops - in_last) / pace.window;
  const Seconds beside = in_last == 1 ? 0 : static_cast<double>(in_last - 2) * chunk + last;
  return full + static_cast<double>(before) * bare((pace.window - 1) * chunk) + bare(beside) +
         std::min(latest, beside);
}

Seconds tree_seconds(const MessagesInput& input) { return Trees(input).seconds(); }

Seconds chain_seconds(const MessagesInput& input) {
  const Seconds full = fullest_link_seconds(input);
  Seconds longest = 0;
  for (const MessageCollective& of : input.collectives) {
    for (const MessageChain& chain : of.chains) {
      const double bytes = of.bytes * chain.share;
      const std::int64_t chunks = chunks_of(bytes, chain.chunk_bytes);
      const Seconds chunk = full * std::min(1.0, chain.chunk_bytes / bytes);
      const Seconds latency = input.connections[at(chain.connections.front())].latency;
      const auto before = static_cast<double>((chunks - 1) / chain.window);
      const Seconds in_last = full - before * chain.window * chunk;
      Seconds all = before * std::max(chain.window * chunk, chunk + latency) + in_last;
      for (const int each : chain.connections) all += input.connections[at(each)].latency;
      all += static_cast<double>(chain.connections.size() - 1) * chunk;
      longest = std::max(longest, all);
    }
  }
  return longest;
}

Seconds fullest_link_seconds(const MessagesInput& input) {
  std::vector<double> bytes(input.links.size(), 0);
  const auto put = [&](int connection, double each) {
    if (connection < 0) return;
    for (const int link : input.connections[at(connection)].links) bytes[at(link)] += each;
  };
  for (const MessageCollective& of : input.collectives) {
    const double turns = (of.op == MessagesOp::all_reduce ? 2.0 : 1.0) * (of.ranks - 1) / of.ranks;
    for (const MessageRing& ring : of.rings) {
      for (const int each : ring.connections) put(each, of.bytes * ring.share * turns);
    }
    for (const MessageTree& tree : of.trees) {
      for (const int each : tree.up) put(each, of.bytes * tree.share);
      for (const int each : tree.down) put(each, of.bytes * tree.share);
    }
    for (const MessageChain& chain : of.chains) {
      for (const int each : chain.connections) put(each, of.bytes * chain.share);
    }
  }
  Seconds fullest = 0;
  for (std::size_t link = 0; link < bytes.size(); ++link) {
    fullest = std::max(fullest, bytes[link] / (input.links[link].gbps * 1e9));
  }
  return fullest;
}

}  // namespace stepcast

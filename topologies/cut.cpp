#include "topologies/cut.hpp"

#include <algorithm>
#include <boost/graph/push_relabel_max_flow.hpp>
#include <cmath>

#include "base/error.hpp"

namespace stepcast {
namespace {

// Capacities are whole numbers of kB/s, so that flows add up exactly.
using Capacity = std::int64_t;
constexpr double units_per_gbps = 1e6;
constexpr Capacity unlimited = Capacity{1} << 50;
constexpr int most_gpus_tried_fully = 16;

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;

struct FlowEdge {
  Capacity capacity = 0;
  Capacity residual = 0;
  Traits::edge_descriptor reverse;
};

using FlowGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, FlowEdge>;

// The machine as a flow network with a source and a sink that any GPUs can be tied to. Built once
// and reused for many cuts.
class FlowNetwork {
 public:
  FlowNetwork(const Machine& machine, const LinkKinds& kinds)
      : graph_(boost::num_vertices(machine.graph) + 2),
        source_(boost::num_vertices(machine.graph)),
        sink_(source_ + 1) {
    for (const auto edge : boost::make_iterator_range(boost::edges(machine.graph))) {
      const Link& link = machine.graph[edge];
      if (!kinds.empty() && std::find(kinds.begin(), kinds.end(), link.kind) == kinds.end()) {
        continue;
      }
      const auto capacity = static_cast<Capacity>(std::llround(link.gbps * units_per_gbps));
      // push_relabel_max_flow wants a reverse of capacity 0 for every edge, so a two-way link is
      // two such pairs.
      const Vertex a = boost::source(edge, machine.graph);
      const Vertex b = boost::target(edge, machine.graph);
      connect(a, b, capacity);
      connect(b, a, capacity);
    }
    for (const Vertex gpu : machine.gpus) {
      from_source_.push_back(connect(source_, gpu, 0));
      to_sink_.push_back(connect(gpu, sink_, 0));
    }
  }

  double cut_gbps(const std::vector<int>& from, const std::vector<int>& to) {
    for (std::size_t i = 0; i < from_source_.size(); ++i) {
      graph_[from_source_[i]].capacity = 0;
      graph_[to_sink_[i]].capacity = 0;
    }
    for (const int gpu : from)
      graph_[from_source_[static_cast<std::size_t>(gpu)]].capacity = unlimited;
    for (const int gpu : to) graph_[to_sink_[static_cast<std::size_t>(gpu)]].capacity = unlimited;
    const Capacity flow = boost::push_relabel_max_flow(
        graph_, source_, sink_, boost::get(&FlowEdge::capacity, graph_),
        boost::get(&FlowEdge::residual, graph_), boost::get(&FlowEdge::reverse, graph_),
        boost::get(boost::vertex_index, graph_));
    return static_cast<double>(flow) / units_per_gbps;
  }

 private:
  Traits::edge_descriptor connect(std::size_t a, std::size_t b, Capacity capacity) {
    const auto forward = boost::add_edge(a, b, graph_).first;
    const auto backward = boost::add_edge(b, a, graph_).first;
    graph_[forward].capacity = capacity;
    graph_[forward].reverse = backward;
    graph_[backward].reverse = forward;
    return forward;
  }

  FlowGraph graph_;
  std::size_t source_;
  std::size_t sink_;
  std::vector<Traits::edge_descriptor> from_source_, to_sink_;
};

std::vector<int> others(const std::vector<int>& half, int gpus) {
  std::vector<int> rest;
  for (int i = 0; i < gpus; ++i) {
    if (std::find(half.begin(), half.end(), i) == half.end()) rest.push_back(i);
  }
  return rest;
}

}  // namespace

double min_cut_gbps(const Machine& machine, const std::vector<int>& from,
                    const std::vector<int>& to, const LinkKinds& kinds) {
  const auto gpus = static_cast<int>(machine.gpus.size());
  STEPCAST_ASSERT(!from.empty() && !to.empty(), "a cut needs GPUs on both sides");
  for (const int gpu : from) {
    STEPCAST_ASSERT(gpu >= 0 && gpu < gpus, "a cut of unknown GPUs");
    STEPCAST_ASSERT(std::find(to.begin(), to.end(), gpu) == to.end(), "a GPU on both sides");
  }
  for (const int gpu : to) STEPCAST_ASSERT(gpu >= 0 && gpu < gpus, "a cut of unknown GPUs");
  return FlowNetwork(machine, kinds).cut_gbps(from, to);
}

std::optional<Bisection> bisection(const Machine& machine, const LinkKinds& kinds) {
  const auto gpus = static_cast<int>(machine.gpus.size());
  if (gpus < 2) return std::nullopt;
  FlowNetwork network(machine, kinds);
  std::optional<Bisection> least;
  const auto consider = [&](const std::vector<int>& half) {
    const double gbps = network.cut_gbps(half, others(half, gpus));
    if (!least || gbps < least->gbps) least = Bisection{gbps, half, true};
  };
  const int size = gpus / 2;
  if (gpus <= most_gpus_tried_fully) {
    std::vector<bool> chosen(static_cast<std::size_t>(gpus), false);
    std::fill(chosen.begin(), chosen.begin() + size, true);
    do {
      std::vector<int> half;
      for (int i = 0; i < gpus; ++i) {
        if (chosen[static_cast<std::size_t>(i)]) half.push_back(i);
      }
      // Of two equal halves one look is enough: the one with GPU 0.
      if (gpus % 2 == 1 || half.front() == 0) consider(half);
    } while (std::prev_permutation(chosen.begin(), chosen.end()));
    return least;
  }
  for (int first = 0; first < gpus; ++first) {
    std::vector<int> half(static_cast<std::size_t>(size));
    for (int i = 0; i < size; ++i) half[static_cast<std::size_t>(i)] = (first + i) % gpus;
    consider(half);
  }
  least->exact = false;
  return least;
}

}  // namespace stepcast

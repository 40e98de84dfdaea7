#include "sim/advise/scaling.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "base/letters.hpp"
#include "sim/forecast/forecast.hpp"

namespace stepcast {
namespace {

class Search {
 public:
  Search(const std::function<Seconds(int)>& step_seconds, int gpus_a_node, double samples_a_gpu)
      : step_seconds_(step_seconds), gpus_(gpus_a_node), samples_(samples_a_gpu) {}

  double throughput(int nodes) {
    return static_cast<double>(nodes) * gpus_ * samples_ / seconds(nodes);
  }

  ScalingPoint point(int nodes, double share) {
    ScalingPoint p;
    p.nodes = nodes;
    p.gpus = nodes * gpus_;
    p.step_time = seconds(nodes);
    p.throughput = throughput(nodes);
    // Steps of the choice of algorithm would make a single node's gain jump: over a tenth more.
    const int more = std::max(1, nodes / 10);
    p.gain = (throughput(nodes + more) - p.throughput) / more / share;
    return p;
  }

 private:
  Seconds seconds(int nodes) {
    const auto found = known_.find(nodes);
    if (found != known_.end()) return found->second;
    return known_[nodes] = step_seconds_(nodes);
  }

  const std::function<Seconds(int)>& step_seconds_;
  int gpus_;
  double samples_;
  std::map<int, Seconds> known_;
};

constexpr double half = 0.5;

std::map<std::string, Seconds> parts_of(const TimeSplit& split) {
  std::map<std::string, Seconds> parts{{"interference", split.interference}, {"host", split.host}};
  for (const ExposedPart& part : split.exposed) parts[part.cause] += part.seconds;
  return parts;
}

// The collectives of a step, each alone, and what of them does not grow with the bytes.
struct Collected {
  Seconds latency = 0;
  Seconds bytes = 0;
  std::map<NcclAlgorithm, Seconds> by_algorithm = {};
};

Collected collected(const std::vector<CollectiveRow>& rows) {
  Collected sum;
  for (const CollectiveRow& row : rows) {
    const Seconds all = row.calls * row.cost.seconds;
    const Seconds fixed = row.calls * row.cost.fixed;
    sum.latency += fixed;
    sum.bytes += all - fixed;
    sum.by_algorithm[row.cost.choice.algorithm] += all;
  }
  return sum;
}

}  // namespace

std::string reason(const ScalingLimit& limit) {
  // Parts of exposed communication end in the collective's kind: "tail_all_reduce".
  if (limit.algorithm.empty() || limit.cause.find('_') == std::string::npos) return "";
  std::string text = limit.algorithm;
  if (text == "Ring" || text == "Tree") {
    text.front() = lower(text.front());
  }
  return text + (limit.latency_grew >= limit.bytes_grew ? " latency" : " bandwidth");
}

ScalingLimit scaling_limit(const std::function<Seconds(int)>& step_seconds, int first_nodes,
                           int most_nodes, int gpus_a_node, double samples_a_gpu) {
  STEPCAST_ASSERT(first_nodes >= 1 && first_nodes <= most_nodes, "sizes in order");
  Search search(step_seconds, gpus_a_node, samples_a_gpu);
  const double share = search.throughput(first_nodes) / first_nodes;
  ScalingLimit result;
  int good = 0, bad = 0;
  for (int nodes = first_nodes; nodes <= most_nodes; nodes *= 2) {
    result.points.push_back(search.point(nodes, share));
    if (result.points.back().gain < half) {
      bad = nodes;
      break;
    }
    good = nodes;
  }
  if (bad == 0) return result;
  result.found = true;
  while (good > 0 && bad - good > 1) {
    const int middle = good + (bad - good) / 2;
    (search.point(middle, share).gain < half ? bad : good) = middle;
  }
  result.limit = search.point(bad, share);
  return result;
}

ScalingLimit scaling_limit(const Scenario& scenario, int most_nodes) {
  Scenario s = scenario;
  s.engine = "formula";
  s.gpus.reset();
  std::map<int, TimeSplit> splits;
  std::map<int, Collected> collectives;
  const Resolved first = resolve(s);
  const std::function<Seconds(int)> step_seconds = [&](int nodes) {
    s.nodes = nodes;
    const Forecast f = forecast(resolve(s));
    splits[nodes] = f.report.split;
    collectives[nodes] = collected(f.report.collectives);
    return f.report.step_time;
  };
  const double samples =
      static_cast<double>(first.step.workload.micro_batch * first.step.accumulation);
  ScalingLimit result =
      scaling_limit(step_seconds, 2, most_nodes, first.cluster.gpus_per_node, samples);
  const int last = result.found ? result.limit.nodes : result.points.back().nodes;
  std::map<std::string, Seconds> grown = parts_of(splits[last]);
  for (const auto& [cause, seconds] : parts_of(splits[2])) grown[cause] -= seconds;
  for (const auto& [cause, seconds] : grown) {
    if (seconds <= result.grew) continue;
    result.grew = seconds;
    result.cause = cause;
  }
  result.latency_grew = collectives[last].latency - collectives[2].latency;
  result.bytes_grew = collectives[last].bytes - collectives[2].bytes;
  Seconds most = 0;
  for (const auto& [algorithm, seconds] : collectives[last].by_algorithm) {
    if (seconds <= most) continue;
    most = seconds;
    result.algorithm = to_string(algorithm);
  }
  return result;
}

}  // namespace stepcast

// What made communication exposed, and what the host does.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/explain/explain.hpp"
#include "sim/report/format.hpp"
#include "sim/report/fullest_link.hpp"

namespace stepcast {
namespace {

// All calls of one kind together.
struct Calls {
  int count = 0;
  double middle_bytes = 0;
  Seconds alone = 0, as_run = 0, latency = 0;
  int ranks = 1;
};

Calls calls_of(const Report& report, const std::string& cause) {
  Calls sum;
  std::vector<std::pair<Bytes, int>> sizes;
  for (const CollectiveRow& row : report.collectives) {
    if (!cause.ends_with("_" + std::string(to_string(row.kind)))) continue;
    sum.count += row.calls;
    sum.alone += row.calls * row.cost.seconds;
    sum.as_run += row.calls * row.mean_seconds;
    sum.latency += row.calls * row.cost.fixed;
    sum.ranks = std::max(sum.ranks, row.ranks);
    sizes.emplace_back(row.bytes, row.calls);
  }
  std::sort(sizes.begin(), sizes.end());
  int seen = 0;
  for (const auto& [bytes, calls] : sizes) {
    seen += calls;
    if (2 * seen < sum.count) continue;
    sum.middle_bytes = static_cast<double>(bytes);
    break;
  }
  return sum;
}

std::string spaced(std::string word) {
  std::replace(word.begin(), word.end(), '_', '-');
  return word;
}

std::string link_words(const std::string& link, const Cluster& cluster) {
  const std::size_t nics = cluster.machine.nics.size();
  if (link == "nic") {
    double rate = cluster.fabric.nic_gbps;
    if (rate == 0 && nics > 0) rate = cluster.machine.graph[cluster.machine.nics.front()].nic_gbps;
    const std::string text = fmt::format("NICs of {:g} GB/s", rate);
    const int gpus = cluster.gpus_per_node;
    if (static_cast<int>(nics) < gpus) {
      return fmt::format("{}, of which {} GPUs share {}", text, gpus, nics);
    }
    return text + (static_cast<int>(nics) == gpus ? ", one a GPU" : "");
  }
  if (link == "fabric") {
    return fmt::format("the fabric ({:g}:1 oversubscribed)", cluster.fabric.oversubscription);
  }
  return link == "nvlink" ? "NVLink" : link == "pcie" ? "PCIe" : link;
}

// Where in the step, by the word that TimeSplit puts before the kind.
std::string place_words(const std::string& cause, const std::string& kind) {
  if (cause.starts_with("first_")) {
    return fmt::format("the first {} stands before the first kernel, with nothing to hide behind",
                       kind);
  }
  if (cause.starts_with("tail_")) {
    return fmt::format("the last {} comes after the last kernel, with nothing left to hide behind",
                       kind);
  }
  if (cause.starts_with("unhidden_")) {
    return fmt::format("{}s run on the compute stream itself, so nothing runs beside them", kind);
  }
  if (cause.starts_with("step_")) return fmt::format("{}s within the optimizer's step", kind);
  return fmt::format("{}s in {} take longer than the kernels beside them", kind,
                     cause.substr(0, cause.find('_')));
}

}  // namespace

std::vector<ExposedCause> exposed_causes(const Report& report, const Cluster& cluster) {
  std::vector<ExposedCause> list;
  for (const ExposedPart& part : report.split.exposed) {
    ExposedCause& c = list.emplace_back();
    c.cause = part.cause;
    c.seconds = part.seconds;
    if (part.cause == "loader") {
      c.place = "the step waits for its batch: the loader is slower than the GPU";
      continue;
    }
    if (part.cause == "slowest_rank") {
      c.place = "all ranks wait for the slowest of them, as GPUs of one kind differ";
      continue;
    }
    const Calls calls = calls_of(report, part.cause);
    c.calls = calls.count;
    c.bytes = calls.middle_bytes;
    c.all = calls.as_run;
    c.latency_part = calls.alone > 0 ? calls.latency / calls.alone : 0;
    c.link = fullest_link(report.collectives, [&](const CollectiveRow& row) {
      return part.cause.ends_with("_" + std::string(to_string(row.kind)));
    });
    const std::string kind = spaced(part.cause.substr(part.cause.find('_') + 1));
    c.place = place_words(part.cause, kind);
    if (calls.count == 0) continue;
    c.numbers = fmt::format("{} a step over {} ranks, {} for the middle one, {} in all",
                            calls.count, calls.ranks, human_bytes(c.bytes), human_seconds(c.all));
    if (c.latency_part > 0.5) {
      c.numbers += fmt::format("; {} of that is latency, {} a call whatever its bytes",
                               percent(c.latency_part), human_seconds(calls.latency / calls.count));
    } else if (!c.link.empty()) {
      c.numbers += fmt::format("; the bytes bind, on {}", link_words(c.link, cluster));
    }
  }
  return list;
}

std::vector<HostCost> host_costs(const Schedule& schedule, const CostTable& costs, int program,
                                 Seconds& busiest_lane) {
  std::map<std::string, HostCost> by_work;
  std::map<LaneIndex, Seconds> lanes;
  const auto p = static_cast<std::size_t>(program);
  const std::vector<Op>& ops = schedule.roles.front().steps[p].ops;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Op& op = ops[i];
    const std::int32_t index = costs.cost_of.front()[p][i];
    if (index < 0) continue;
    const Seconds seconds = costs.costs[static_cast<std::size_t>(index)].host;
    if (seconds <= 0) continue;
    const bool named = op.kind == OpKind::host_work;
    const std::string work = named                           ? op.cost.str()
                             : op.kind == OpKind::collective ? "collectives"
                                                             : "launches";
    HostCost& sum = by_work[work];
    sum.work = work;
    sum.count += named ? op.count : std::max(1, op.launches);
    sum.seconds += seconds;
    lanes[op.lane] += seconds;
  }
  busiest_lane = 0;
  for (const auto& [lane, seconds] : lanes) busiest_lane = std::max(busiest_lane, seconds);
  std::vector<HostCost> list;
  for (const auto& [work, sum] : by_work) list.push_back(sum);
  std::stable_sort(list.begin(), list.end(),
                   [](const HostCost& a, const HostCost& b) { return a.seconds > b.seconds; });
  return list;
}

BucketSide::Side side_of(Seconds now, Seconds smaller, Seconds larger) {
  constexpr double matters = 0.01;
  const bool larger_helps = larger < now * (1 - matters);
  const bool smaller_helps = smaller < now * (1 - matters);
  if (larger_helps && (!smaller_helps || larger <= smaller)) return BucketSide::Side::latency;
  return smaller_helps ? BucketSide::Side::overlap : BucketSide::Side::flat;
}

}  // namespace stepcast

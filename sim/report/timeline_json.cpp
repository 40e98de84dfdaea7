#include "sim/report/timeline_json.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>

namespace stepcast {

namespace {

using Json = nlohmann::ordered_json;

// Tenths of a microsecond: below what the page can show, and short to write.
double tenths(Seconds seconds) { return std::round(seconds * 1e7) / 10; }

// Texts by number, each written once.
class Texts {
 public:
  int number(const std::string& text) {
    const auto [at, is_new] = numbers_.emplace(text, static_cast<int>(list_.size()));
    if (is_new) list_.push_back(text);
    return at->second;
  }
  const Json& list() const { return list_; }

 private:
  std::unordered_map<std::string, int> numbers_;
  Json list_ = Json::array();
};

// One or several spans of a row.
struct Drawn {
  const Span* first = nullptr;
  Seconds begin = 0, end = 0, busy = 0, solo = 0;
  Shade shade = Shade::host;
  int count = 1;
  Provenance provenance = Provenance::measured;
  std::array<Seconds, shades.size()> by_shade{};  // of `busy`
};

class TimelineWriter {
 public:
  TimelineWriter(const Schedule& schedule, const CostTable& costs, const Timeline& timeline)
      : costs_(costs), timeline_(timeline), view_(schedule, timeline) {
    for (const Role& role : schedule.roles) {
      auto& names = names_.emplace_back();
      for (const StepProgram& step : role.steps) names.push_back(op_names(schedule, step));
    }
  }

  Json run(const PageLimits& limits) {
    const Seconds period = view_.end() - view_.begin();
    std::vector<std::vector<Drawn>> rows;
    std::size_t total = 0;
    for (Seconds shortest = period / 4000; total == 0 || total > limits.spans; shortest *= 2) {
      rows.clear();
      total = 0;
      for (const StepRow& row : view_.rows()) {
        rows.push_back(folded(row, shortest));
        total += rows.back().size();
      }
      if (total == 0 || shortest > period) break;
    }
    Json legend = Json::array();
    for (const ShadeName& name : shades) {
      legend.push_back({{"key", name.key}, {"label", name.legend}});
    }
    Json labels = Json::array();
    for (std::size_t row = 0; row < rows.size(); ++row) {
      labels.push_back(view_.rows()[row].label);
      for (const Drawn& drawn : rows[row]) write(static_cast<int>(row), drawn);
    }
    return {{"period_us", tenths(period)},
            {"legend", legend},
            {"rows", labels},
            {"spans", columns_},
            {"texts", texts_.list()}};
  }

 private:
  int program_of(std::int32_t step) const {
    return timeline_.steps[static_cast<std::size_t>(step)].program_index;
  }
  const OpCost& cost_of(const Span& span) const {
    return costs_.cost(span.role, program_of(span.step), span.op);
  }
  const std::string& name(std::int32_t role, std::int32_t step, OpIndex op) const {
    return names_[static_cast<std::size_t>(role)][static_cast<std::size_t>(program_of(step))]
                 [static_cast<std::size_t>(op)];
  }

  // Of one shade where one of the two is short, of two shades where both are.
  static bool folds(const Drawn& last, Seconds begin, Seconds end, Shade shade, Seconds shortest) {
    if (begin - last.end >= shortest) return false;
    const bool short_now = end - begin < shortest, short_last = last.end - last.begin < shortest;
    return last.shade == shade ? short_now || short_last : short_now && short_last;
  }

  std::vector<Drawn> folded(const StepRow& row, Seconds shortest) const {
    std::vector<const Span*> spans = row.spans;
    std::stable_sort(spans.begin(), spans.end(),
                     [](const Span* a, const Span* b) { return a->start < b->start; });
    std::vector<Drawn> out;
    for (const Span* span : spans) {
      const Seconds begin = std::max(span->start, view_.begin());
      const Seconds end = std::min(span->end, view_.end());
      const Shade shade = shade_of(view_.op_of(*span));
      const Provenance provenance = cost_of(*span).provenance;
      if (!out.empty() && folds(out.back(), begin, end, shade, shortest)) {
        Drawn& last = out.back();
        last.end = std::max(last.end, end);
        last.busy += end - begin;
        last.solo += span->solo;
        last.provenance = worse(last.provenance, provenance);
        ++last.count;
        last.by_shade[static_cast<std::size_t>(shade)] += end - begin;
        const auto most = std::max_element(last.by_shade.begin(), last.by_shade.end());
        last.shade = static_cast<Shade>(most - last.by_shade.begin());
        continue;
      }
      out.push_back({span, begin, end, end - begin, span->solo, shade, 1, provenance, {}});
      out.back().by_shade[static_cast<std::size_t>(shade)] = end - begin;
    }
    return out;
  }

  void write(int row, const Drawn& drawn) {
    const Span& span = *drawn.first;
    const Op& op = view_.op_of(span);
    const auto add = [&](const char* column, auto value) { columns_[column].push_back(value); };
    add("row", row);
    add("start_us", tenths(drawn.begin - view_.begin()));
    add("length_us", tenths(drawn.end - drawn.begin));
    add("busy_us", tenths(drawn.busy));
    add("solo_us", tenths(drawn.solo));
    add("shade", static_cast<int>(drawn.shade));
    add("count", drawn.count);
    add("name", texts_.number(name(span.role, span.step, span.op)));
    add("bound", texts_.number(std::string(to_string(span.bound))));
    add("cause", span.cause < 0 ? -1 : texts_.number(name(span.role, span.cause_step, span.cause)));
    add("provenance", texts_.number(std::string(to_string(drawn.provenance))));
    add("detail", texts_.number(cost_of(span).detail.str()));
    add("rule", texts_.number(op.rule.str()));
    add("bytes", op.kind == OpKind::collective ? bytes_of(op)
                 : op.kind == OpKind::copy     ? op.bytes
                                               : 0);
  }

  const CostTable& costs_;
  const Timeline& timeline_;
  StepView view_;
  std::vector<std::vector<std::vector<std::string>>> names_;  // [role][program][op]
  Texts texts_;
  Json columns_ = Json::object();
};

struct Level {
  Seconds time = 0;
  Bytes bytes = 0;
};

// Of every run of `several` levels the lowest and the highest, in their order.
std::vector<Level> thinned(const std::vector<Level>& levels, std::size_t most) {
  if (levels.size() <= most) return levels;
  const std::size_t several = 2 * levels.size() / most + 1;
  std::vector<Level> out;
  for (std::size_t at = 0; at < levels.size(); at += several) {
    const auto first = levels.begin() + static_cast<std::ptrdiff_t>(at);
    const auto last =
        levels.begin() + static_cast<std::ptrdiff_t>(std::min(at + several, levels.size()));
    const auto [low, high] = std::minmax_element(
        first, last, [](const Level& a, const Level& b) { return a.bytes < b.bytes; });
    out.push_back(*std::min(low, high));
    if (low != high) out.push_back(*std::max(low, high));
  }
  return out;
}

Json curve(std::vector<Level> levels, const PageLimits& limits) {
  Json times = Json::array(), bytes = Json::array();
  for (const Level& level : thinned(levels, limits.samples)) {
    times.push_back(tenths(level.time));
    bytes.push_back(level.bytes);
  }
  return {{"t_us", times}, {"bytes", bytes}};
}

// Share of the period that the last step of role 0 asks of each resource. Of links what the
// collectives load them with: the cost table leaves out those that can never limit.
Json busy_shares(const Schedule& schedule, const CostTable& costs, const Timeline& timeline,
                 const std::vector<CollectiveRow>& collectives) {
  static const Name sm("sm"), hbm("hbm");
  std::vector<std::pair<Name, Seconds>> busy;
  const auto add = [&](Name resource, Seconds seconds) {
    for (auto& [name, sum] : busy) {
      if (name == resource) {
        sum += seconds;
        return;
      }
    }
    busy.emplace_back(resource, seconds);
  };
  const int program = timeline.steps.back().program_index;
  const auto& ops = schedule.roles[0].steps[static_cast<std::size_t>(program)].ops;
  const auto& known = costs.cost_of[0][static_cast<std::size_t>(program)];
  for (std::size_t op = 0; op < ops.size(); ++op) {
    if (known[op] < 0) continue;
    const OpCost& cost = costs.costs[static_cast<std::size_t>(known[op])];
    for (const Segment& segment : costs.segments_of(cost)) {
      for (const Demand& demand : costs.demands_of(segment)) {
        const Name resource = costs.resources[static_cast<std::size_t>(demand.resource)];
        const bool counted =
            ops[op].kind == OpKind::collective && resource != sm && resource != hbm;
        if (!counted) add(resource, demand.seconds);
      }
    }
  }
  for (const CollectiveRow& row : collectives) {
    for (const LinkLoad& load : row.cost.loads) add(load.resource, row.calls * load.seconds);
  }
  Json out = Json::array();
  const Seconds period = timeline.period();
  for (const auto& [resource, seconds] : busy) {
    if (seconds <= 0 || period <= 0) continue;
    out.push_back(
        {{"resource", resource.str()}, {"seconds", seconds}, {"share", seconds / period}});
  }
  return out;
}

Json device_json(const Machine& machine, const Device& device) {
  Json out{{"kind", to_string(device.kind)}, {"name", device.name}, {"index", device.index}};
  if (!device.product.empty()) out["product"] = device.product;
  if (device.kind == DeviceKind::gpu) out["product"] = machine.gpu.full_name;
  if (device.kind == DeviceKind::nic) out["gbps"] = device.nic_gbps;
  return out;
}

}  // namespace

std::string timeline_json(const Schedule& schedule, const CostTable& costs,
                          const Timeline& timeline, const PageLimits& limits) {
  return TimelineWriter(schedule, costs, timeline)
      .run(limits)
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string memory_json(const Schedule& schedule, const Timeline& timeline, Bytes capacity,
                        const RoleReplay* replay, const PageLimits& limits) {
  const StepView view(schedule, timeline);
  std::vector<Level> allocated, reserved;
  std::size_t from = 0;
  for (const MemorySample* sample : view.memory()) {
    allocated.push_back({view.reached(sample->op, from) - view.begin(), sample->allocated});
  }
  if (replay != nullptr) {
    from = 0;
    for (const ReservedSample& sample : replay->samples) {
      if (sample.step != view.step()) continue;
      if (!reserved.empty() && reserved.back().bytes == sample.reserved) continue;
      const Seconds time = reserved.empty() ? 0 : view.reached(sample.op, from) - view.begin();
      reserved.push_back({time, sample.reserved});
    }
  }
  const Json document{{"capacity_bytes", capacity},
                      {"role", schedule.roles[0].name.str()},
                      {"period_us", tenths(view.end() - view.begin())},
                      {"allocated", curve(std::move(allocated), limits)},
                      {"reserved", reserved.empty() ? Json() : curve(std::move(reserved), limits)}};
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string topology_json(const Cluster& cluster, const Schedule& schedule, const CostTable& costs,
                          const Timeline& timeline, const std::vector<CollectiveRow>& collectives) {
  const Machine& machine = cluster.machine;
  Json devices = Json::array(), links = Json::array();
  for (const Vertex v : boost::make_iterator_range(boost::vertices(machine.graph))) {
    devices.push_back(device_json(machine, machine.graph[v]));
  }
  for (const auto edge : boost::make_iterator_range(boost::edges(machine.graph))) {
    const Link& link = machine.graph[edge];
    links.push_back({{"a", boost::source(edge, machine.graph)},
                     {"b", boost::target(edge, machine.graph)},
                     {"kind", to_string(link.kind)},
                     {"gbps", link.gbps},
                     {"count", link.count}});
  }
  Json fabric;
  if (cluster.nodes > 1) {
    fabric = {{"kind", to_string(cluster.fabric.kind)},
              {"network", cluster.fabric.network},
              {"oversubscription", cluster.fabric.oversubscription},
              {"leaf_ports", cluster.fabric.leaf_ports}};
  }
  const Json document{{"machine", machine.full_name},
                      {"nodes", cluster.nodes},
                      {"gpus_per_node", cluster.gpus_per_node},
                      {"devices", devices},
                      {"links", links},
                      {"fabric", fabric},
                      {"busy", busy_shares(schedule, costs, timeline, collectives)}};
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace stepcast

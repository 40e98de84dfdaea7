#include "sim/forecast/rank_classes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace stepcast {

namespace {

using Colours = std::vector<std::int32_t>;

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

// Small numbers for whatever keys come, in the order of first sight.
template <typename Key>
class Numbered {
 public:
  std::int32_t operator()(const Key& key) {
    return numbers_.emplace(key, static_cast<std::int32_t>(numbers_.size())).first->second;
  }
  std::size_t size() const { return numbers_.size(); }

 private:
  std::map<Key, std::int32_t> numbers_;
};

std::int32_t group_of(const Mesh& mesh, Axis axis, std::int32_t rank) {
  return axis == Axis::world ? 0 : axis == Axis::shard ? rank / mesh.shard : rank % mesh.shard;
}

// The colour of every rank's group on an axis: the set of colours in it.
Colours group_colours(const Mesh& mesh, Axis axis, const Colours& ranks) {
  std::map<std::int32_t, std::set<std::int32_t>> groups;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    groups[group_of(mesh, axis, static_cast<std::int32_t>(r))].insert(ranks[r]);
  }
  Numbered<std::set<std::int32_t>> numbered;
  std::map<std::int32_t, std::int32_t> colour;
  for (const auto& [group, set] : groups) colour[group] = numbered(set);
  Colours result;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    result.push_back(colour[group_of(mesh, axis, static_cast<std::int32_t>(r))]);
  }
  return result;
}

Colours refined(const Schedule& schedule, Colours colours) {
  std::set<Axis> axes;
  for (const Communicator& comm : schedule.communicators) axes.insert(comm.axis);
  std::size_t count = 0;
  while (true) {
    std::vector<std::vector<std::int32_t>> keys;
    for (const std::int32_t colour : colours) keys.push_back({colour});
    for (const Axis axis : axes) {
      const Colours groups = group_colours(schedule.mesh, axis, colours);
      for (std::size_t r = 0; r < keys.size(); ++r) keys[r].push_back(groups[r]);
    }
    Numbered<std::vector<std::int32_t>> numbered;
    for (std::size_t r = 0; r < keys.size(); ++r) colours[r] = numbered(keys[r]);
    if (numbered.size() == count) return colours;
    count = numbered.size();
  }
}

struct RankState {
  std::int32_t role = 0;
  double speed = 1;
  Seconds late = 0;
  bool missing = false;
  std::int32_t costs = 0;
  bool is_perturbed() const { return missing || late > 0 || speed < 1 || costs > 0; }
};

std::vector<RankState> rank_states(const Schedule& schedule,
                                   const std::vector<Perturbation>& perturbations,
                                   const std::vector<std::int32_t>& costs_of_rank) {
  std::vector<RankState> states(at(schedule.mesh.world_size()));
  for (std::size_t r = 0; r < costs_of_rank.size(); ++r) states[r].costs = costs_of_rank[r];
  for (std::size_t r = 0; r < schedule.roles.size(); ++r) {
    const Role& role = schedule.roles[r];
    for (int i = 0; i < role.rank_count; ++i) {
      states[static_cast<std::size_t>(role.rank(i))].role = static_cast<std::int32_t>(r);
    }
  }
  for (const Perturbation& p : perturbations) {
    for (const std::int32_t rank : p.ranks) {
      RankState& state = states[at(rank)];
      switch (p.kind) {
        case Perturbation::Kind::slow: state.speed = p.speed; break;
        case Perturbation::Kind::late: state.late = p.late; break;
        case Perturbation::Kind::missing: state.missing = true; break;
        case Perturbation::Kind::link:
        case Perturbation::Kind::machine:
        case Perturbation::Kind::jitter: break;  // in the costs; of all ranks
      }
    }
  }
  return states;
}

// What a class is to the perturbed ones; of several meanings the nearest.
std::string relation(const Schedule& schedule, const RankClass& of,
                     const std::vector<RankState>& states) {
  const auto meets = [&](Axis axis) {
    const std::int32_t mine = group_of(schedule.mesh, axis, of.ranks.front());
    for (std::size_t r = 0; r < states.size(); ++r) {
      if (states[r].is_perturbed() &&
          group_of(schedule.mesh, axis, static_cast<std::int32_t>(r)) == mine) {
        return true;
      }
    }
    return false;
  };
  if (schedule.mesh.shard == 1 || schedule.mesh.replicate == 1) return "the rest";
  if (meets(Axis::shard)) return "its shard group";
  return meets(Axis::replicate) ? "its replicas" : "the rest";
}

void name_classes(const Schedule& schedule, const std::vector<RankState>& states, Folding folding,
                  std::vector<RankClass>& classes) {
  std::map<std::string, int> used;
  for (RankClass& each : classes) {
    const std::string ranks = (each.ranks.size() == 1 ? "rank " : "ranks ") + rank_text(each.ranks);
    each.name =
        each.perturbed || folding == Folding::none ? ranks : relation(schedule, each, states);
    ++used[each.name];
  }
  std::map<std::string, int> seen;
  for (RankClass& each : classes) {
    if (used[each.name] == 1) continue;
    const int number = ++seen[each.name];
    each.name += fmt::format(" ({})", number);
  }
}

}  // namespace

std::vector<RankClass> rank_classes(const Schedule& schedule,
                                    const std::vector<Perturbation>& perturbations, Folding folding,
                                    const std::vector<std::int32_t>& costs_of_rank) {
  const std::vector<RankState> states = rank_states(schedule, perturbations, costs_of_rank);
  using Key = std::tuple<std::int32_t, double, Seconds, bool, std::int32_t>;
  Numbered<Key> numbered;
  Colours colours;
  for (const RankState& s : states)
    colours.push_back(numbered({s.role, s.speed, s.late, s.missing, s.costs}));
  if (folding == Folding::none) {
    std::iota(colours.begin(), colours.end(), 0);
  } else {
    colours = refined(schedule, std::move(colours));
  }
  std::vector<RankClass> classes;
  for (std::size_t r = 0; r < colours.size(); ++r) {
    if (at(colours[r]) >= classes.size()) classes.resize(at(colours[r]) + 1);
    RankClass& mine = classes[at(colours[r])];
    const RankState& state = states[r];
    mine.role = state.role;
    mine.speed = state.speed;
    mine.late = state.late;
    mine.missing = state.missing;
    mine.costs = state.costs;
    mine.perturbed = state.is_perturbed();
    mine.ranks.push_back(static_cast<std::int32_t>(r));
  }
  if (folding == Folding::classes) {
    std::stable_partition(classes.begin(), classes.end(),
                          [](const RankClass& each) { return each.perturbed; });
  }
  name_classes(schedule, states, folding, classes);
  return classes;
}

Schedule split_roles(const Schedule& schedule, const std::vector<RankClass>& classes) {
  Schedule split = schedule;
  split.roles.clear();
  for (const RankClass& each : classes) {
    Role& role = split.roles.emplace_back();
    role.name = Name(each.name);
    role.first_rank = each.ranks.front();
    role.rank_count = static_cast<int>(each.ranks.size());
    role.listed = each.ranks;
    role.steps = schedule.roles[at(each.role)].steps;
    if (!each.missing) continue;
    for (StepProgram& step : role.steps) step.ops.clear();
  }
  return split;
}

namespace {

std::int32_t slowed(CostTable& table, std::int32_t index, double speed) {
  OpCost cost = table.costs[at(index)];
  const auto first_segment = static_cast<std::int32_t>(table.segments.size());
  for (std::int32_t i = 0; i < cost.segments.count; ++i) {
    Segment segment = table.segments[at(cost.segments.first + i)];
    const auto first_demand = static_cast<std::int32_t>(table.demands.size());
    for (std::int32_t d = 0; d < segment.demands.count; ++d) {
      Demand demand = table.demands[at(segment.demands.first + d)];
      demand.seconds /= speed;
      table.demands.push_back(demand);
    }
    segment.demands.first = first_demand;
    segment.solo /= speed;
    table.segments.push_back(segment);
  }
  cost.segments.first = first_segment;
  cost.solo /= speed;
  table.costs.push_back(cost);
  return static_cast<std::int32_t>(table.costs.size()) - 1;
}

// Adds the costs of a table to another; they begin at the index that is returned.
std::int32_t append(CostTable& into, const CostTable& from) {
  std::vector<ResourceIndex> resources;
  for (const Name& name : from.resources) resources.push_back(into.resource(name));
  const auto first_demand = static_cast<std::int32_t>(into.demands.size());
  for (const Demand& demand : from.demands) {
    into.demands.push_back({resources[at(demand.resource)], demand.seconds});
  }
  const auto first_segment = static_cast<std::int32_t>(into.segments.size());
  for (Segment segment : from.segments) {
    segment.demands.first += first_demand;
    into.segments.push_back(segment);
  }
  const auto first_cost = static_cast<std::int32_t>(into.costs.size());
  for (OpCost cost : from.costs) {
    cost.segments.first += first_segment;
    into.costs.push_back(cost);
  }
  return first_cost;
}

}  // namespace

CostTable split_costs(const CostTable& costs, const Schedule& schedule,
                      const std::vector<RankClass>& classes, const std::vector<CostTable>& others) {
  CostTable split = costs;
  split.cost_of.clear();
  std::vector<std::int32_t> first_of;  // of the other tables
  for (const CostTable& other : others) first_of.push_back(append(split, other));
  std::map<std::pair<double, std::int32_t>, std::int32_t> slow;  // speed, cost -> its slow twin
  for (const RankClass& each : classes) {
    const CostTable& own = each.costs == 0 ? costs : others[at(each.costs - 1)];
    auto& programs = split.cost_of.emplace_back(own.cost_of[at(each.role)]);
    for (std::size_t p = 0; p < programs.size(); ++p) {
      for (std::int32_t& index : programs[p]) {
        if (each.costs > 0 && index >= 0) index += first_of[at(each.costs - 1)];
      }
      if (each.missing) programs[p].clear();
      if (each.speed == 1) continue;
      const std::vector<Op>& ops = schedule.roles[at(each.role)].steps[p].ops;
      for (std::size_t i = 0; i < programs[p].size(); ++i) {
        std::int32_t& index = programs[p][i];
        if (ops[i].kind != OpKind::compute || index < 0) continue;
        const auto found = slow.find({each.speed, index});
        if (found != slow.end()) {
          index = found->second;
          continue;
        }
        const std::int32_t twin = slowed(split, index, each.speed);
        slow.emplace(std::pair(each.speed, index), twin);
        index = twin;
      }
    }
  }
  return split;
}

std::string rank_text(const std::vector<std::int32_t>& ranks, int runs) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    if (runs-- == 0) return text + fmt::format(" and {} more", ranks.size() - i);
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += text.empty() ? "" : ", ";
    text += last == i ? fmt::format("{}", ranks[i]) : fmt::format("{}..{}", ranks[i], ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace stepcast

#include "sim/forecast/step_by_messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "sim/engines/step_messages.hpp"
#include "sim/forecast/collective_lowering.hpp"
#include "sim/forecast/rank_classes.hpp"

namespace stepcast {
namespace {

constexpr double messages_a_second = 30e3;  // docs/engines.md
constexpr double most_seconds = 600;        // unless told to go on

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

// Every rank a class of its own; home[i] is the role that rank class i came from.
struct Unfolded {
  std::vector<RankClass> ranks;
  std::vector<int> home;
  std::vector<int> first;  // class of each role's first rank
};

Unfolded unfolded(const Schedule& schedule) {
  Unfolded made;
  for (std::size_t r = 0; r < schedule.roles.size(); ++r) {
    const Role& role = schedule.roles[r];
    made.first.push_back(static_cast<int>(made.ranks.size()));
    for (int i = 0; i < role.rank_count; ++i) {
      RankClass& each = made.ranks.emplace_back();
      each.role = static_cast<int>(r);
      each.ranks = {static_cast<std::int32_t>(role.rank(i))};
      each.name = fmt::format("rank {}", role.rank(i));
      made.home.push_back(static_cast<int>(r));
    }
  }
  return made;
}

std::map<int, std::vector<BrokenLink>> broken_links(const Resolved& resolved) {
  std::map<int, std::vector<BrokenLink>> broken;
  for (const Perturbation& p : resolved.perturbations) {
    std::set<int> nodes;
    for (const std::int32_t rank : p.ranks) nodes.insert(resolved.cluster.node_of(rank));
    for (const int node : nodes) {
      if (p.links.empty()) continue;
      broken[node].insert(broken[node].end(), p.links.begin(), p.links.end());
    }
  }
  return broken;
}

class ByMessages final : public Engine {
 public:
  ByMessages(const Resolved& resolved, const StepByMessages& options)
      : r_(resolved), options_(options) {
    const Cluster& cluster = r_.cluster;
    if (cluster.nodes > 1 && cluster.fabric.oversubscription > 1) {
      refuse(fmt::format("it knows no uplinks; oversubscription is {:g}, accepted: 1",
                         cluster.fabric.oversubscription));
    }
    if (!r_.other_machines.empty()) refuse("nodes of another machine are not among its links");
  }

  std::string name() const override { return "messages"; }

  Timeline run(const Schedule& schedule, const CostTable& costs,
               const RunOptions& options) override {
    const Unfolded ranks = unfolded(schedule);
    const Schedule all = split_roles(schedule, ranks.ranks);
    const CostTable all_costs = split_costs(costs, schedule, ranks.ranks);
    StepMessages messages = messages_of(all);
    const std::int64_t count =
        count_messages(messages, static_cast<int>(all.roles[0].steps.size()) - 1);
    const int world = schedule.mesh.world_size();
    const double seconds = static_cast<double>(count) / messages_a_second;
    const bool many = world > most_ranks_by_messages;
    if ((many || seconds > most_seconds) && !options_.go_on) {
      refuse(fmt::format(
          "a step of {} ranks sends {} messages, which takes about {:.0f} s here, a "
          "few times over; accepted: up to {}, or `stepcast simulate --go-on`",
          world, count, std::ceil(seconds),
          many ? fmt::format("{}", most_ranks_by_messages)
               : fmt::format("{:.0f} s, as of larger messages (NCCL_PROTO=Simple)", most_seconds)));
    }
    RunOptions of_all = options;
    of_all.delays.clear();
    for (const Delay& delay : options.delays) {
      for (std::size_t i = 0; i < ranks.home.size(); ++i) {
        if (ranks.home[i] == delay.role) {
          of_all.delays.push_back({static_cast<int>(i), delay.step, delay.seconds});
        }
      }
    }
    try {
      return folded(make_messages_engine(std::move(messages))->run(all, all_costs, of_all), ranks);
    } catch (const Deadlock& deadlock) {
      throw folded(deadlock, ranks);
    }
  }

 private:
  [[noreturn]] static void refuse(const std::string& why) {
    throw InputError("engine: messages: " + why);
  }

  using Question = std::tuple<Axis, CollectiveKind, Bytes, Dtype, Reduction>;

  // NCCL chose on links that were whole.
  const CollectiveChoice& choice(const Collectives& collectives, const Question& q) {
    const auto found = choices_.find(q);
    if (found != choices_.end()) return found->second;
    const auto& [axis, kind, bytes, dtype, reduction] = q;
    return choices_[q] = collectives.cost(axis, kind, bytes, dtype, reduction).choice;
  }

  StepMessages messages_of(const Schedule& all) {
    const Collectives collectives(r_.cluster, r_.step.mesh, r_.collectives);
    Lowering lowering(r_.cluster, r_.collectives,
                      options_.broken ? broken_links(r_) : decltype(broken_links(r_)){});
    std::map<std::pair<CommIndex, std::vector<int>>, int> communicators;  // by its first rank
    std::map<std::tuple<int, CollectiveKind, Bytes, Dtype, Reduction>, std::int32_t> known;
    std::map<std::pair<Axis, int>, RankGroup> groups;
    StepMessages made;
    for (const Role& role : all.roles) {
      const int rank = static_cast<int>(role.rank(0));
      auto& programs = made.of_op.emplace_back();
      for (const StepProgram& step : role.steps) {
        auto& ops = programs.emplace_back();
        for (const Op& op : step.ops) {
          ops.push_back(-1);
          if (op.kind != OpKind::collective) continue;
          const Axis axis = all.communicators[at(op.comm)].axis;
          const Bytes bytes = bytes_of(op);
          if (r_.step.mesh.size(axis) == 1 || bytes == 0) continue;
          if (op.collective == CollectiveKind::scatter || op.collective == CollectiveKind::gather) {
            refuse("scatter and gather are peer copies of one process, not messages of ranks");
          }
          auto [group, fresh] = groups.try_emplace({axis, rank}, RankGroup{});
          if (fresh) group->second = group_of(r_.cluster, r_.step.mesh, axis, rank);
          std::vector<int> where = group->second.nodes;
          where.insert(where.end(), group->second.gpus.begin(), group->second.gpus.end());
          const int communicator =
              communicators
                  .emplace(std::pair(op.comm, where), static_cast<int>(communicators.size()))
                  .first->second;
          const auto [call, unknown] =
              known.emplace(std::tuple(communicator, op.collective, bytes, op.dtype, op.reduction),
                            static_cast<std::int32_t>(made.collectives.size()));
          if (unknown) {
            const CollectiveChoice& chosen =
                choice(collectives, {axis, op.collective, bytes, op.dtype, op.reduction});
            Lowered lowered = lowering.lower(communicator, group->second,
                                             {op.collective, chosen.algorithm, chosen.protocol,
                                              static_cast<double>(bytes), chosen.channels});
            made.collectives.push_back({std::move(lowered.collective), lowered.before});
          }
          ops.back() = call->second;
        }
      }
    }
    made.links = lowering.links();
    made.connections = lowering.connections();
    return made;
  }

  // Of each role its first rank.
  static Timeline folded(Timeline all, const Unfolded& ranks) {
    const auto keep = [&](auto& list) {
      for (auto& each : list) {
        const int home = ranks.home[at(each.role)];
        each.role = ranks.first[at(home)] == each.role ? home : -1;
      }
      list.erase(
          std::remove_if(list.begin(), list.end(), [](const auto& each) { return each.role < 0; }),
          list.end());
    };
    keep(all.spans);
    keep(all.memory);
    return all;
  }

  static Deadlock folded(const Deadlock& all, const Unfolded& ranks) {
    std::vector<Deadlock::Stall> stalls;
    for (std::size_t role = 0; role < ranks.first.size(); ++role) {
      for (Deadlock::Stall stall : all.stalls) {
        if (stall.role != ranks.first[role]) continue;
        stall.role = static_cast<int>(role);
        std::set<int> missing;
        for (const int other : stall.missing) missing.insert(ranks.home[at(other)]);
        stall.missing.assign(missing.begin(), missing.end());
        stalls.push_back(stall);
      }
    }
    return Deadlock(all.what(), stalls);
  }

  const Resolved& r_;
  StepByMessages options_;
  std::map<Question, CollectiveChoice> choices_;
};

}  // namespace

std::unique_ptr<Engine> make_step_by_messages(const Resolved& resolved,
                                              const StepByMessages& options) {
  return std::make_unique<ByMessages>(resolved, options);
}

}  // namespace stepcast

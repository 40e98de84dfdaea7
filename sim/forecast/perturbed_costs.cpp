#include "sim/forecast/perturbed_costs.hpp"

#include <map>
#include <set>
#include <string>
#include <tuple>

#include "sim/collectives/collective_cost.hpp"
#include "sim/forecast/bind.hpp"

namespace stepcast {

namespace {

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

using Question = std::tuple<Axis, CollectiveKind, Bytes, Dtype, Reduction>;
using Answers = std::vector<double>;

class Finder {
 public:
  Finder(const Schedule& schedule, const Resolved& resolved)
      : schedule_(schedule), r_(resolved), collectives_(r_.cluster, r_.step.mesh, r_.collectives) {}

  OtherCosts run() {
    std::map<int, std::vector<BrokenLink>> links;  // by node
    for (const Perturbation& p : r_.perturbations) {
      if (p.kind == Perturbation::Kind::machine) give(p.ranks, machine_table(p.machine));
      std::set<int> nodes;
      for (const std::int32_t rank : p.ranks) nodes.insert(r_.cluster.node_of(rank));
      for (const int node : nodes) {
        links[node].insert(links[node].end(), p.links.begin(), p.links.end());
      }
    }
    for (const auto& [node, list] : links) {
      if (!list.empty()) break_node(node, list);
    }
    return std::move(out_);
  }

 private:
  void give(const std::vector<std::int32_t>& ranks, std::int32_t table) {
    out_.of_rank.resize(at(r_.cluster.world_size), 0);
    for (const std::int32_t rank : ranks) out_.of_rank[at(rank)] = table;
  }

  std::int32_t add(CostTable table) {
    out_.tables.push_back(std::move(table));
    return static_cast<std::int32_t>(out_.tables.size());
  }

  std::int32_t machine_table(const std::string& name) {
    const auto found = machines_.find(name);
    if (found != machines_.end()) return found->second;
    const Cluster& cluster = r_.other_machines.at(name);
    CollectiveOptions options = r_.collectives;
    options.measured = nullptr;  // these are of the machine that the others are
    options.interference.clear();
    const Collectives collectives(cluster, r_.step.mesh, options);
    return machines_[name] =
               add(bind_costs(schedule_, cluster, collectives, r_.profile, r_.loader));
  }

  // ---- broken links
  void break_node(int node, const std::vector<BrokenLink>& links) {
    if (questions_.empty()) {
      ask_for_all();
      tables_[answers()] = 0;
    }
    std::vector<std::int32_t>& tables = known_[{alike() ? 0 : node, links}];
    for (int gpu = 0; gpu < r_.cluster.ranks_on(node); ++gpu) {
      if (static_cast<int>(tables.size()) <= gpu) tables.push_back(table_of({node, gpu, links}));
      give({node * r_.cluster.gpus_per_node + gpu}, tables[at(gpu)]);
    }
  }

  std::int32_t table_of(const BrokenNode& broken) {
    collectives_.break_links(broken);
    const Answers mine = answers();
    const auto found = tables_.find(mine);
    if (found != tables_.end()) return found->second;
    return tables_[mine] = add(
               bind_costs(schedule_, r_.cluster, collectives_, r_.profile, r_.loader, r_.device));
  }

  // Whether all nodes hold the same parts of the same communicators.
  bool alike() const {
    const int shard = r_.step.mesh.shard;
    const int gpus = r_.cluster.gpus_per_node;
    return r_.cluster.world_size % gpus == 0 && (gpus % shard == 0 || shard % gpus == 0);
  }

  void ask_for_all() {
    for (const Role& role : schedule_.roles) {
      for (const StepProgram& step : role.steps) {
        for (const Op& op : step.ops) {
          if (op.kind != OpKind::collective) continue;
          const Axis axis = schedule_.communicators[at(op.comm)].axis;
          questions_.emplace(axis, op.collective, bytes_of(op), op.dtype, op.reduction);
        }
      }
    }
  }

  Answers answers() const {
    Answers all;
    for (const auto& [axis, kind, bytes, dtype, reduction] : questions_) {
      const CollectiveCost cost = collectives_.cost(axis, kind, bytes, dtype, reduction);
      all.push_back(cost.seconds);
      for (const LinkLoad& load : cost.loads) all.push_back(load.seconds);
    }
    return all;
  }

  const Schedule& schedule_;
  const Resolved& r_;
  Collectives collectives_;
  OtherCosts out_;
  std::map<std::string, std::int32_t> machines_;
  std::set<Question> questions_;
  std::map<Answers, std::int32_t> tables_;
  std::map<std::pair<int, std::vector<BrokenLink>>, std::vector<std::int32_t>> known_;
};

}  // namespace

OtherCosts other_costs(const Schedule& schedule, const Resolved& resolved) {
  for (const Perturbation& p : resolved.perturbations) {
    if (p.kind == Perturbation::Kind::link || p.kind == Perturbation::Kind::machine) {
      return Finder(schedule, resolved).run();
    }
  }
  return {};
}

}  // namespace stepcast

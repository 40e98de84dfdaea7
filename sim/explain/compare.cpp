#include "sim/explain/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "sim/collectives/nccl/link_speeds.hpp"
#include "sim/engines/engine.hpp"
#include "sim/forecast/command_line.hpp"
#include "sim/forecast/forecast.hpp"

namespace stepcast {
namespace {

// ---- keys that two scenarios say differently
const char* aspect_of(const KeyInfo& key) {
  static const std::map<std::string_view, const char*> special{{"cluster", "machine"},
                                                               {"gpus_per_node", "node"},
                                                               {"nodes", "nodes"},
                                                               {"gpus", "nodes"},
                                                               {"fabric", "network"},
                                                               {"leaf_ports", "network"},
                                                               {"network", "network"},
                                                               {"oversubscription", "network"},
                                                               {"nic_gbps", "network"},
                                                               {"gpudirect_rdma", "network"},
                                                               {"micro_batch", "batch"},
                                                               {"accumulation", "batch"},
                                                               {"checkpointing", "batch"},
                                                               {"precision", "strategy"},
                                                               {"optimizer", "software"},
                                                               {"fused_attention", "software"},
                                                               {"channels_last", "software"},
                                                               {"clip_grad_norm", "software"}};
  const auto found = special.find(key.name);
  if (found != special.end()) return found->second;
  const std::string_view group = key.group;
  if (group == "Model") return "model";
  if (group == "Strategy") return "strategy";
  if (group == "Data loading") return "data loading";
  return group == "Perturbations" ? "perturbations" : "software";
}

template <typename Value>
std::string written(const std::optional<Value>& value) {
  if (!value) return "default";
  return fmt::format("{}", *value);
}
std::string written(const std::optional<YesNoOrCount>& value) {
  if (!value) return "default";
  return value->count > 0 ? fmt::format("{}", value->count) : value->yes ? "true" : "false";
}
template <typename Value>
std::string written(const std::optional<std::vector<Value>>& value) {
  return value ? fmt::format("{}", fmt::join(*value, ",")) : "default";
}

// Visits the fields of two scenarios together.
template <typename Visitor>
void visit_both(Scenario& to, const Scenario& from, Visitor&& visit) {
  std::vector<const void*> fields;
  visit_scenario(from, [&](const KeyInfo&, const auto& field) { fields.push_back(&field); });
  std::size_t i = 0;
  visit_scenario(to, [&](const KeyInfo& key, auto& field) {
    using Field = std::remove_reference_t<decltype(field)>;
    visit(key, field, *static_cast<const Field*>(fields[i++]));
  });
}

// Gives `to` the keys of one aspect as `from` has them; says what changed.
std::string take(Scenario& to, const Scenario& from, std::string_view aspect) {
  std::string changes;
  visit_both(to, from, [&](const KeyInfo& key, auto& field, const auto& other) {
    if (aspect != aspect_of(key) || field == other) return;
    changes += fmt::format("{}{} {} -> {}", changes.empty() ? "" : ", ", key.name, written(field),
                           written(other));
    field = other;
    const auto said = from.said.find(key.name);
    if (said == from.said.end()) {
      to.said.erase(key.name);
    } else {
      to.said[key.name] = said->second;
    }
  });
  return changes;
}

// ---- a step on a machine that is none: kernels of one, network of another
struct Hybrid {
  std::optional<Cluster> kernels;
  std::optional<Fabric> fabric;
};

Report step_of(const Scenario& scenario, const Hybrid& hybrid) {
  if (!hybrid.kernels && !hybrid.fabric) {
    return forecast(scenario, {.search_change = false}).report;
  }
  Resolved r = resolve(scenario);
  if (hybrid.fabric) r.cluster.fabric = *hybrid.fabric;
  const Cluster& kernels = hybrid.kernels ? *hybrid.kernels : r.cluster;
  if (!kernels.machine.gpu.peak_bf16 != !r.cluster.machine.gpu.peak_bf16) {
    throw InputError("the GPUs compute in different types");
  }
  const Schedule schedule = build_schedule(r.step);
  const Collectives collectives(r.cluster, r.step.mesh, r.collectives);
  CostTable costs = bind_costs(schedule, kernels, collectives, r.profile, r.loader, r.device);
  give_compute_time(schedule, r.replica, costs);
  const std::unique_ptr<Engine> engine =
      r.engine == "formula" ? make_formula_engine() : make_fluid_engine();
  return report_of(r, schedule, costs, engine->run(schedule, costs), collectives);
}

// What the PCIe link of a machine's NICs passes, GB/s; 0 where it is not known.
double pcie_of_nics(const Machine& machine) {
  double gbps = 0;
  for (const auto edge :
       boost::make_iterator_range(boost::out_edges(machine.nics.front(), machine.graph))) {
    const Link& link = machine.graph[edge];
    if (link.kind != LinkKind::pcie || link.pcie_generation == 0) continue;
    gbps = std::max(gbps, nccl::pcie_gbps(link.pcie_generation, link.pcie_width));
  }
  return gbps;
}

// ---- from A to B
class Exchange {
 public:
  Exchange(const Scenario& a, const Scenario& b, const Report& ra, const Report& rb)
      : now_(a), b_(b), rb_(rb), last_(ra.step_time) {
    same_machine_ = ra.machine == rb.machine;
  }

  std::vector<AspectDifference> run(const Report& ra) {
    if (!same_machine_) {
      if (ra.gpu != rb_.gpu) {
        hybrid_.kernels = resolve_cluster(b_);
        attempt("GPU", ra.gpu + " -> " + rb_.gpu);
      }
      network();
      hybrid_ = {};
      take(now_, b_, "machine");
      take(now_, b_, "network");
      const std::string more = take(now_, b_, "node");
      attempt("node",
              ra.machine_name + " -> " + rb_.machine_name + (more.empty() ? "" : ", " + more));
    }
    for (const char* aspect : {"network", "node", "nodes", "model", "batch", "strategy", "software",
                               "data loading", "perturbations"}) {
      const std::string changes = take(now_, b_, aspect);
      if (!changes.empty()) attempt(aspect, changes);
    }
    // Whatever could not be tried alone ends at B.
    if (!pending_.empty() || std::abs(last_ - rb_.step_time) > 1e-12 * rb_.step_time) {
      close(rb_, pending_.empty() ? "the rest" : "", "");
    }
    return std::move(list_);
  }

 private:
  // B's network at A's machine: its fabric and latency class, and B's bytes a second and node over
  // A's number of NICs. Only where both have several nodes. Where A's NICs fill their PCIe already,
  // faster ones would change nothing there: they are exchanged with the node.
  void network() {
    const Cluster a = resolve_cluster(now_), b = resolve_cluster(b_);
    if (a.nodes == 1 || b.nodes == 1 || a.machine.nics.empty() || b.machine.nics.empty()) return;
    const auto total = [](const Cluster& c) {
      const double of_one = c.fabric.nic_gbps > 0
                                ? c.fabric.nic_gbps
                                : c.machine.graph[c.machine.nics.front()].nic_gbps;
      return of_one * static_cast<double>(c.machine.nics.size());
    };
    hybrid_.fabric = b.fabric;
    const auto nics = static_cast<double>(a.machine.nics.size());
    hybrid_.fabric->nic_gbps = total(b) / nics;
    std::string changes = fmt::format("{:g} GB/s a node, {} -> {:g} GB/s, {}", total(a),
                                      a.fabric.network, total(b), b.fabric.network);
    const double passes = nics * pcie_of_nics(a.machine);
    if (passes > 0 && total(b) > 1.1 * passes) {
      changes += fmt::format(", of which the PCIe of {} passes {:g} GB/s", a.machine.name, passes);
      if (total(a) > 0.9 * passes) {
        pend("network", changes);
        return;
      }
    }
    attempt("network", changes);
  }

  void attempt(const std::string& aspect, const std::string& changes) {
    try {
      const Report r = step_of(now_, hybrid_);
      close(r, aspect, changes);
    } catch (const InputError&) {
      pend(aspect, changes);
    } catch (const InfeasibleError&) {
      pend(aspect, changes);
    }
  }

  void pend(const std::string& aspect, const std::string& changes) {
    pending_ += (pending_.empty() ? "" : " and ") + aspect;
    pending_changes_ += (pending_changes_.empty() ? "" : ", ") + changes;
  }

  void close(const Report& r, const std::string& aspect, const std::string& changes) {
    if (!aspect.empty()) pend(aspect, changes);
    list_.push_back({pending_, pending_changes_, r.step_time, r.step_time - last_,
                     r.samples_per_second_per_gpu});
    last_ = r.step_time;
    pending_.clear();
    pending_changes_.clear();
  }

  Scenario now_;
  const Scenario& b_;
  const Report& rb_;
  bool same_machine_ = true;
  Hybrid hybrid_;
  Seconds last_;
  std::string pending_, pending_changes_;
  std::vector<AspectDifference> list_;
};

std::vector<CauseDifference> causes_of(const TimeSplit& a, const TimeSplit& b) {
  std::vector<CauseDifference> list{{"compute", a.compute, b.compute},
                                    {"bucket and shard copies", a.copies, b.copies},
                                    {"interference", a.interference, b.interference},
                                    {"optimizer", a.optimizer, b.optimizer},
                                    {"host", a.host, b.host},
                                    {"other", a.other, b.other}};
  std::set<std::string> exposed;
  for (const TimeSplit* split : {&a, &b}) {
    for (const ExposedPart& part : split->exposed) exposed.insert(part.cause);
  }
  for (const std::string& cause : exposed) {
    std::string words = cause;
    std::replace(words.begin(), words.end(), '_', ' ');
    list.push_back({"exposed: " + words, a.exposed_by(cause), b.exposed_by(cause)});
  }
  list.erase(std::remove_if(list.begin(), list.end(),
                            [](const CauseDifference& d) { return d.a == 0 && d.b == 0; }),
             list.end());
  std::stable_sort(list.begin(), list.end(), [](const auto& x, const auto& y) {
    return std::abs(x.b - x.a) > std::abs(y.b - y.a);
  });
  return list;
}

}  // namespace

StepComparison compare_steps(const Scenario& a, const Scenario& b, const std::string& name_a,
                             const std::string& name_b) {
  StepComparison c;
  c.name_a = name_a;
  c.name_b = name_b;
  c.command_a = command_of(a);
  c.command_b = command_of(b);
  c.a = forecast(a, {.search_change = false}).report;
  c.b = forecast(b, {.search_change = false}).report;
  c.causes = causes_of(c.a.split, c.b.split);
  c.aspects = Exchange(a, b, c.a, c.b).run(c.a);
  return c;
}

}  // namespace stepcast

#include "sim/forecast/resolve_perturbations.hpp"

#include <fmt/format.h>

#include "sim/forecast/resolve_workload.hpp"
#include "sim/forecast/sources.hpp"

namespace stepcast {

namespace {

// The cluster as it would be with nodes of this machine alone.
Cluster other_machine(const Scenario& s, const Resolved& r, const Perturbation& p,
                      Sources& sources) {
  const auto refuse = [&](const std::string& why) {
    return InputError(s.where("perturb"), fmt::format("'{}': {}", p.text, why));
  };
  try {
    Machine machine = sources.machine(scenario_path(s, "perturb", p.machine));
    const int gpus = static_cast<int>(machine.gpus.size());
    if (gpus < r.cluster.gpus_per_node) {
      throw refuse(fmt::format("{} has {} GPUs; accepted: machines of {} or more", machine.name,
                               gpus, r.cluster.gpus_per_node));
    }
    ClusterOptions options;
    options.nodes = r.cluster.nodes;
    options.gpus = r.cluster.world_size;
    options.gpus_per_node = r.cluster.gpus_per_node;
    options.fabric = r.cluster.fabric.kind;
    options.oversubscription = r.cluster.fabric.oversubscription;
    options.leaf_ports = r.cluster.fabric.leaf_ports;
    options.network = r.cluster.fabric.network;
    if (s.nic_gbps) options.nic_gbps = r.cluster.fabric.nic_gbps;
    if (s.gpudirect_rdma) options.gpudirect_rdma = r.cluster.fabric.gpudirect_rdma;
    Cluster cluster = make_cluster(std::move(machine), options);
    for (const Dtype dtype :
         {r.step.workload.compute_dtype,
          r.step.workload.fp8 == Fp8Recipe::none ? r.step.workload.compute_dtype : Dtype::fp8}) {
      if (multiplies(cluster.machine.gpu, dtype)) continue;
      throw refuse(
          fmt::format("{} does not multiply {}", cluster.machine.gpu.full_name, to_string(dtype)));
    }
    return cluster;
  } catch (const InputError& error) {
    const std::string text = error.what();
    if (text.find(p.text) != std::string::npos) throw;
    throw refuse(text);
  }
}

}  // namespace

void resolve_perturbations(const Scenario& s, Resolved& r, Sources& sources) {
  if (s.nccl_timeout && !s.perturb) {
    throw InputError(s.where("nccl_timeout"), "applies with perturb only: nothing else stalls");
  }
  r.nccl_timeout = s.nccl_timeout.value_or(r.nccl_timeout);
  if (!s.perturb) return;
  r.perturbations = parse_perturbations(*s.perturb,
                                        {r.cluster.world_size, r.cluster.gpus_per_node,
                                         static_cast<int>(r.cluster.machine.nics.size())},
                                        s.where("perturb"));
  for (const Perturbation& p : r.perturbations) {
    if (p.kind != Perturbation::Kind::machine || r.other_machines.count(p.machine) > 0) continue;
    r.other_machines.emplace(p.machine, other_machine(s, r, p, sources));
  }
}

}  // namespace stepcast

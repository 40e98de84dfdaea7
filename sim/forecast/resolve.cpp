#include "sim/forecast/resolve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string_view>

#include "base/number_text.hpp"
#include "sim/calibration/calibration.hpp"
#include "sim/forecast/placed.hpp"
#include "sim/forecast/resolve_fp8.hpp"
#include "sim/forecast/resolve_loader.hpp"
#include "sim/forecast/resolve_perturbations.hpp"
#include "sim/forecast/resolve_strategy.hpp"
#include "sim/forecast/resolve_workload.hpp"
#include "sim/forecast/sources.hpp"
#include "sim/report/format.hpp"

namespace stepcast {

namespace {

constexpr double fastest_nic = 200;  // GB/s a direction: 1.6 Tb/s

bool looks_like_path(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".json") || name.ends_with(".toml");
}

// A path in a scenario file is taken from its folder: machines, models, tables.
std::string path_of(const Scenario& s, const char* key, const std::string& said) {
  const Where where = s.where(key);
  std::filesystem::path path = said;
  if (path.is_relative() && where.line > 0) {
    path = std::filesystem::path(where.file).parent_path() / path;
  }
  return path.string();
}

// Refuses a name that is neither known nor a path, at the place where it was said.
void check_name(const Scenario& scenario, const char* key, const std::string& name,
                const std::vector<std::string>& known) {
  if (looks_like_path(name)) return;
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  std::vector<std::string> accepted = known;
  accepted.emplace_back(key == std::string_view("model") ? "a FILE.toml or config.json"
                                                         : "a FILE.toml");
  throw not_accepted(scenario.where(key), name, accepted);
}

int to_int(const std::optional<std::int64_t>& value) { return static_cast<int>(value.value_or(0)); }

const Calibration* calibration_of(const Scenario& s, Sources& sources) {
  if (!s.calibration) return nullptr;
  return &sources.calibration(path_of(s, "calibration", *s.calibration));
}

void use_collectives(const Scenario& s, const Calibration& c, CollectiveOptions& options) {
  options.interference = c.interference();
  if (c.collectives.series().empty()) return;
  if (s.measured_collectives) {
    throw InputError(s.where("measured_collectives"),
                     "the calibration measured collectives too; accepted: one of the two");
  }
  options.measured = std::make_shared<const MeasuredTable>(c.collectives);
}

// Kernels, launches and what an executor adds; collectives are resolve_collectives'.
void use_calibration(const Calibration& c, Resolved& r) {
  const CalibrationOrigin& o = c.origin;
  std::string text = fmt::format("calibration of {} ({}, {}, {}): {}", o.name, o.device, o.executor,
                                 o.date, summary(c));
  if (!c.kernels.empty() && o.gpu != r.cluster.machine.gpu.name) {
    text += fmt::format("; its kernels are of {}, not of {}: not used", o.gpu,
                        r.cluster.machine.gpu.name);
  } else if (!c.kernels.empty()) {
    r.device.kernels = std::make_shared<const MeasuredKernels>(c.kernels);
  }
  r.device.op_overhead = c.host.op_overhead_us.value_or(0) * 1e-6;
  if (o.executor.starts_with("cpu")) r.profile.rank_jitter = 0;  // ranks replay: all are alike
  if (c.host.launch_us) {
    text += fmt::format("; a launch costs {:.3g} us, not the profile's {:.3g}", *c.host.launch_us,
                        r.profile.launch_us);
    r.profile.launch_us = *c.host.launch_us;
  }
  r.notes.push_back(text);
}

}  // namespace

std::string scenario_path(const Scenario& s, const char* key, const std::string& said) {
  return looks_like_path(said) ? path_of(s, key, said) : said;
}

Cluster resolve_cluster(const Scenario& s) {
  Sources sources;
  return resolve_cluster(s, sources);
}

Cluster resolve_cluster(const Scenario& s, Sources& sources) {
  if (!s.cluster) {
    throw InputError(s.where("cluster"), "no machine given; `stepcast list machines` names them");
  }
  check_name(s, "cluster", *s.cluster, catalog_machines());
  ClusterOptions options;
  options.nodes = to_int(s.nodes);
  options.gpus = to_int(s.gpus);
  options.gpus_per_node = to_int(s.gpus_per_node);
  if (!s.nodes && !s.gpus) options.nodes = 1;
  if (s.nic_gbps && *s.nic_gbps > fastest_nic) {
    throw InputError(s.where("nic_gbps"),
                     fmt::format("{} is in GB/s, and no NIC is so fast; accepted: up to {} (400 "
                                 "Gb/s are 50)",
                                 number_text(*s.nic_gbps), number_text(fastest_nic)));
  }
  if (s.fabric) options.fabric = parse_fabric_kind(*s.fabric, s.where("fabric"));
  if (s.leaf_ports) options.leaf_ports = to_int(s.leaf_ports);
  options.oversubscription = s.oversubscription;
  options.gpudirect_rdma = s.gpudirect_rdma;
  options.nic_gbps = s.nic_gbps;
  options.network = s.network;
  return placed(s, [&] {
    return make_cluster(sources.machine(scenario_path(s, "cluster", *s.cluster)), options);
  });
}

CollectiveOptions resolve_collectives(const Scenario& s) {
  Sources sources;
  return resolve_collectives(s, sources);
}

CollectiveOptions resolve_collectives(const Scenario& s, Sources& sources) {
  CollectiveOptions options;
  options.nccl_version = s.nccl_version.value_or("2.28.9");
  if (s.nccl) options.environment.set_all(*s.nccl, s.where("nccl"));
  if (s.collective_corrections.value_or(true)) options.corrections = Corrections::shipped();
  if (s.measured_collectives) {
    options.measured =
        sources.measured(path_of(s, "measured_collectives", *s.measured_collectives));
  }
  if (const Calibration* c = calibration_of(s, sources)) use_collectives(s, *c, options);
  return options;
}

namespace {

Resolved resolved(const Scenario& s, Sources& sources) {
  check_ranges(s);
  Resolved r;
  if (!s.model) {
    throw InputError(s.where("model"), "no model given; `stepcast list models` names them");
  }
  const StrategyChoice strategy = resolve_strategy(s);
  check_name(s, "model", *s.model, catalog_models());
  r.cluster = resolve_cluster(s, sources);
  r.replica = resolve_replica(s, r.cluster.world_size);
  r.profile = sources.profile(scenario_path(s, "profile", s.profile.value_or("pytorch-eager")));
  r.engine = s.engine.value_or("fluid");
  r.allocator.expandable_segments = s.expandable_segments.value_or(false);
  if (s.max_split_size_mb) {
    r.allocator.max_split_size =
        static_cast<Bytes>(*s.max_split_size_mb * static_cast<double>(mib));
  }
  r.collectives = resolve_collectives(s, sources);
  r.collectives.siblings = {r.replica.gpus, r.replica.inner};
  const std::string said_in_vain = r.collectives.environment.note();
  if (!said_in_vain.empty()) r.notes.push_back(said_in_vain);
  if (const Calibration* c = calibration_of(s, sources)) use_calibration(*c, r);
  r.first_step = s.step.value_or("steady") == "first";

  TrainingStep& step = r.step;
  step.model = sources.model(scenario_path(s, "model", *s.model), s.seq_len.value_or(0),
                             s.image_size.value_or(0));
  for (const std::string& text : step.model.approximations) {
    r.notes.push_back("approximate: " + text);
  }
  resolve_workload(s, strategy, r);
  resolve_fp8(s, strategy, r);
  step.accumulation = static_cast<int>(s.accumulation.value_or(1));
  step.optimizer = s.optimizer                 ? parse_optimizer(*s.optimizer)
                   : r.profile.fused_optimizer ? OptimizerKind::adamw_fused
                                               : OptimizerKind::adamw_foreach;
  step.clip_grad_norm = s.clip_grad_norm.value_or(false);
  step.sync_after_forward = s.sync_after_forward.value_or(false);
  step.first_step = r.first_step;
  step.sync_every_step = s.sync_every_step.value_or(false);

  resolve_loader(s, r);
  resolve_perturbations(s, r, sources);
  resolve_strategy_options(s, strategy, r);
  share_model(s, r);
  return r;
}

}  // namespace

Resolved resolve(const Scenario& s) {
  Sources sources;
  return resolve(s, sources);
}

Resolved resolve(const Scenario& s, Sources& sources) {
  return placed(s, [&] { return resolved(s, sources); });
}

}  // namespace stepcast

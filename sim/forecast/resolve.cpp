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
#include "sim/forecast/resolve_strategy.hpp"
#include "sim/forecast/sources.hpp"
#include "sim/report/format.hpp"

namespace stepcast {

namespace {

constexpr double fastest_nic = 200;            // GB/s a direction: 1.6 Tb/s
constexpr std::int64_t usual_sequence = 8192;  // what is longer is worth a word if nobody said it

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

Checkpointing parse_checkpointing(const std::string& text) {
  if (text == "full") return Checkpointing::full;
  if (text == "selective-op") return Checkpointing::selective_op;
  return text == "selective" ? Checkpointing::selective : Checkpointing::none;
}

// Whether the GPU multiplies matrices in a dtype at all.
bool multiplies(const Gpu& gpu, Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16: return gpu.peak_bf16.has_value();
    case Dtype::fp16: return gpu.peak_fp16.has_value();
    case Dtype::tf32: return gpu.peak_tf32.has_value();
    case Dtype::fp8: return gpu.peak_fp8.has_value();
    default: return gpu.peak_fp32.has_value();
  }
}

// The recipe that was asked for, or the strategy's default; on GPUs before bf16 its fp16 twin.
Precision resolve_precision(const Scenario& s, const StrategyChoice& strategy, const Gpu& gpu,
                            std::vector<std::string>& notes) {
  const bool has_bf16 = multiplies(gpu, Dtype::bf16);
  const Precision precision =
      precision_recipe(s.precision.value_or(default_precision(strategy.kind, has_bf16)));
  if (!multiplies(gpu, precision.compute)) {
    std::string accepted;
    for (const std::string& name : precision_recipes_of(strategy.kind)) {
      if (!multiplies(gpu, precision_recipe(name).compute)) continue;
      accepted += (accepted.empty() ? "" : ", ") + name;
    }
    throw InputError(
        s.where("precision"),
        fmt::format("'{}' needs matrix products in {}, which {} does not have; "
                    "accepted: {}",
                    precision.name, to_string(precision.compute), gpu.full_name, accepted));
  }
  if (!s.precision && !has_bf16) {
    notes.push_back(
        fmt::format("precision {}: {} has no bf16 matrix products", precision.name, gpu.full_name));
  }
  return precision;
}

// Text has a sequence length, images have a size; the other would be ignored in silence.
void resolve_input(const Scenario& s, const Model& model, Workload& workload) {
  const Architecture& a = model.architecture;
  if (takes_images(a.family)) {
    if (s.seq_len) {
      throw InputError(s.where("seq_len"),
                       fmt::format("applies to text only, and {} reads images; accepted: "
                                   "image_size",
                                   model.name));
    }
    if (a.family == Family::resnet && s.fused_attention) {
      throw InputError(s.where("fused_attention"),
                       fmt::format("applies to attention, which {} has not", model.name));
    }
    workload.image_size = s.image_size.value_or(a.image_size);
    return;
  }
  if (s.image_size) {
    throw InputError(
        s.where("image_size"),
        fmt::format("applies to images only, and {} reads text; accepted: seq_len", model.name));
  }
  workload.seq_len = s.seq_len.value_or(a.max_positions);
  if (workload.seq_len <= 0) {
    throw InputError(s.where("seq_len"), "the model has no sequence length of its own; give one");
  }
}

bool takes_long_sequences(const Scenario& s, const Model& model) {
  return !s.seq_len && !takes_images(model.architecture.family) &&
         model.architecture.max_positions > usual_sequence;
}

// Data loading as it was said; none of its keys: batches are there when they are wanted.
void resolve_loader(const Scenario& s, Resolved& r) {
  const char* said = s.loader_workers    ? "loader_workers"
                     : s.loader_prefetch ? "loader_prefetch"
                     : s.sample_bytes    ? "sample_bytes"
                                         : nullptr;
  if (said == nullptr && !s.loader_sample_ms && !s.storage_gbps) return;
  if (!s.loader_sample_ms && !s.storage_gbps) {
    throw InputError(s.where(said),
                     "loading takes no time without loader_sample_ms or storage_gbps; accepted: "
                     "one of them, or both");
  }
  LoaderOptions& options = r.step.loader;
  options.modelled = true;
  options.workers = to_int(s.loader_workers);
  if (s.loader_prefetch && options.workers == 0) {
    throw InputError(s.where("loader_prefetch"),
                     "needs loader_workers of 1 or more: without "
                     "workers nothing is read ahead");
  }
  options.prefetch = static_cast<int>(s.loader_prefetch.value_or(options.prefetch));
  if (s.sample_bytes && !s.storage_gbps) {
    throw InputError(s.where("sample_bytes"), "needs storage_gbps, for bytes to take time");
  }
  // Tokens are int64; images are stored as they are, 3 bytes a pixel.
  const Workload& w = r.step.workload;
  const bool images = takes_images(r.step.model.architecture.family);
  options.sample_bytes =
      s.sample_bytes.value_or(images ? 3 * w.image_size * w.image_size : 8 * w.seq_len);
  r.loader.workers = options.workers;
  r.loader.sample_bytes = options.sample_bytes;
  r.loader.sample_seconds = s.loader_sample_ms.value_or(0) * 1e-3;
  const int sharers = std::min(r.cluster.gpus_per_node, r.cluster.world_size);
  r.loader.bytes_per_second = s.storage_gbps.value_or(0) * 1e9 / sharers;
  if (options.workers == 0) {
    r.notes.push_back(
        "no loader_workers: the training process reads each batch itself, as with "
        "PyTorch's num_workers = 0");
  }
}

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

// Sizes that would overflow 64-bit byte counts, and that no GPU holds.
void check_sizes(const Scenario& s, const Workload& workload, const Model& model) {
  const auto b = static_cast<double>(workload.micro_batch);
  const auto n = static_cast<double>(workload.seq_len);
  if (b * n > 1e9) {
    throw InputError(s.where(s.micro_batch ? "micro_batch" : "seq_len"),
                     fmt::format("{} tokens a micro-batch are not accepted; accepted: at most 1e9",
                                 number_text(b * n)));
  }
  const double scores = b * static_cast<double>(model.architecture.heads) * n * n;
  if (!s.fused_attention.value_or(true) && scores > 1e15) {
    throw InputError(s.where("fused_attention"),
                     fmt::format("{} attention scores a layer are not accepted; accepted: at "
                                 "most 1e15",
                                 number_text(scores)));
  }
}

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
  if (c.host.launch_us) {
    text += fmt::format("; a launch costs {:.3g} us, not the profile's {:.3g}", *c.host.launch_us,
                        r.profile.launch_us);
    r.profile.launch_us = *c.host.launch_us;
  }
  r.notes.push_back(text);
}

// Products of a micro-batch at the GPUs' dense peak take so long at least. Attention is left out:
// how much of it a mask saves is the kernel's.
void refuse_impossible_time(const Scenario& s, const Resolved& r) {
  const Workload& w = r.step.workload;
  const Model& model = r.step.model;
  const Gpu& gpu = r.cluster.machine.gpu;
  const bool fp8 = w.fp8 != Fp8Recipe::none;
  if (fp8 && !gpu.peak_fp8) return;
  const double peak = fp8 ? *gpu.peak_fp8 : gpu.peak_flops(w.compute_dtype);
  const double of_sample = takes_images(model.architecture.family)
                               ? model_flops_per_sample(model, w)
                               : static_cast<double>(w.seq_len) * model_flops_per_token(model, 1);
  const Seconds least = static_cast<double>(w.micro_batch) * of_sample / (r.replica.gpus * peak);
  if (*r.replica.step >= least) return;
  throw InputError(
      s.where("replica_step_ms"),
      fmt::format("{} ms is less than {} {} at {:.1f} TFLOP/s, the dense {} peak, need for a "
                  "micro-batch of {}; accepted: from {}",
                  number_text(*s.replica_step_ms), r.replica.gpus,
                  r.replica.gpus == 1 ? "GPU" : "GPUs", peak / 1e12,
                  fp8 ? "fp8" : std::string(to_string(w.compute_dtype)), w.micro_batch,
                  number_text(std::ceil(least * 1e4) / 10)));
}

// One GPU's part of the model that a replica shares, and what that leaves out.
void share_model(const Scenario& s, Resolved& r) {
  if (!r.replica.step) return;
  refuse_impossible_time(s, r);
  const int k = r.replica.gpus;
  std::string text = fmt::format(
      "forward and backward of a micro-batch take the given {:g} ms, {:.1f} % of it forward",
      *r.replica.step * 1e3, r.replica.forward_share * 100);
  if (k > 1) {
    r.whole_model = std::make_shared<const Model>(r.step.model);
    r.step.model = share_of(std::move(r.step.model), k);
    r.step.workload.replica_gpus = k;
    text = fmt::format(
               "{} GPUs are a replica, {} of them neighbours in rank order: each holds 1/{} of "
               "parameters, gradients, optimizer state and activations; ",
               k, r.replica.inner, k) +
           text + "; what they send each other is in that time";
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
  if (const Calibration* c = calibration_of(s, sources)) use_calibration(*c, r);
  r.first_step = s.step.value_or("steady") == "first";

  TrainingStep& step = r.step;
  step.model = sources.model(scenario_path(s, "model", *s.model), s.seq_len.value_or(0),
                             s.image_size.value_or(0));
  for (const std::string& text : step.model.approximations) {
    r.notes.push_back("approximate: " + text);
  }
  step.workload.micro_batch = s.micro_batch.value_or(1);
  resolve_input(s, step.model, step.workload);
  if (takes_long_sequences(s, step.model)) {
    r.notes.push_back(fmt::format("seq_len was not said: the model's maximum, {}",
                                  grouped(static_cast<double>(step.workload.seq_len))));
  }
  check_sizes(s, step.workload, step.model);
  step.workload.checkpointing = parse_checkpointing(s.checkpointing.value_or("none"));
  step.workload.fused_attention = s.fused_attention.value_or(true);
  step.workload.fused_elementwise = r.profile.fused_elementwise;
  step.workload.fused_loss = r.profile.fused_loss;
  step.precision = resolve_precision(s, strategy, r.cluster.machine.gpu, r.notes);
  step.workload.compute_dtype = step.precision.compute;
  step.workload.autocast_weights = step.precision.autocast;
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

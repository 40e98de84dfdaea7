#include "sim/forecast/replica.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/number_text.hpp"
#include "sim/forecast/resolve.hpp"
#include "sim/forecast/scenario.hpp"

namespace stepcast {

namespace {

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
                  "micro-batch of {}; accepted: from {} ms",
                  number_text(*s.replica_step_ms), r.replica.gpus,
                  r.replica.gpus == 1 ? "GPU" : "GPUs", peak / 1e12,
                  fp8 ? "fp8" : std::string(to_string(w.compute_dtype)), w.micro_batch,
                  number_text(std::ceil(least * 1e4) / 10)));
}

}  // namespace

Replica resolve_replica(const Scenario& s, int cluster_gpus) {
  Replica replica;
  replica.gpus = static_cast<int>(s.replica_gpus.value_or(1));
  if (cluster_gpus % replica.gpus != 0) {
    throw InputError(s.where("replica_gpus"),
                     fmt::format("{} does not divide the {} GPUs; accepted: a divisor of {}",
                                 replica.gpus, cluster_gpus, cluster_gpus));
  }
  replica.inner = static_cast<int>(s.replica_inner.value_or(replica.gpus));
  if (replica.gpus % replica.inner != 0) {
    throw InputError(s.where("replica_inner"),
                     fmt::format("{} does not divide the {} GPUs of a replica; accepted: a divisor "
                                 "of {}",
                                 replica.inner, replica.gpus, replica.gpus));
  }
  if (s.replica_step_ms) replica.step = *s.replica_step_ms * 1e-3;
  if (replica.gpus > 1 && !replica.step) {
    throw InputError(s.where("replica_step_ms"),
                     "is missing: what happens within a replica is not simulated; accepted: the "
                     "time of a micro-batch's forward and backward in it, ms");
  }
  if (s.replica_forward_share && !replica.step) {
    throw InputError(s.where("replica_forward_share"),
                     "is the share of replica_step_ms; accepted: both");
  }
  replica.forward_share = s.replica_forward_share.value_or(replica.forward_share);
  if ((replica.gpus > 1 || replica.step) && s.perturb) {
    throw InputError(s.where("perturb"),
                     "applies where compute is forecast; accepted: without replica_gpus and "
                     "replica_step_ms");
  }
  if (replica.gpus > 1 && s.engine && *s.engine == "messages") {
    throw InputError(s.where("engine"),
                     "'messages' places ranks of one GPU; accepted with replica_gpus: fluid, "
                     "formula");
  }
  if (replica.gpus > 1 && s.strategy && *s.strategy == "dp") {
    throw InputError(s.where("replica_gpus"),
                     "applies where ranks are processes; accepted: 1 under dp");
  }
  return replica;
}

namespace {

// 0 forward, 1 backward, -1 not a layer's kernels.
int part_of(const Op& op) {
  static const Name compute("compute");
  static const Name recompute("recompute");
  if (op.kind != OpKind::compute || (op.verb != compute && op.verb != recompute)) return -1;
  if (op.phase == Phase::forward) return 0;
  return op.phase == Phase::backward ? 1 : -1;
}

// The same cost in `factor` times the time, on a host that is free.
std::int32_t stretched(CostTable& table, std::int32_t cost, double factor) {
  static const Name given("given");
  OpCost copy = table.costs[static_cast<std::size_t>(cost)];
  const Range segments = copy.segments;
  copy.segments.first = static_cast<std::int32_t>(table.segments.size());
  copy.solo = 0;
  for (std::int32_t i = 0; i < segments.count; ++i) {
    Segment segment = table.segments[static_cast<std::size_t>(segments.first + i)];
    const Range demands = segment.demands;
    segment.solo *= factor;
    segment.demands.first = static_cast<std::int32_t>(table.demands.size());
    for (std::int32_t d = 0; d < demands.count; ++d) {
      Demand demand = table.demands[static_cast<std::size_t>(demands.first + d)];
      demand.seconds *= factor;
      table.demands.push_back(demand);
    }
    copy.solo += segment.solo;
    table.segments.push_back(segment);
  }
  copy.host = 0;
  copy.provenance = Provenance::assumed;  // the user's figure
  copy.detail = given;
  table.costs.push_back(copy);
  return static_cast<std::int32_t>(table.costs.size()) - 1;
}

}  // namespace

void give_compute_time(const Schedule& schedule, const Replica& replica, CostTable& costs) {
  if (!replica.step) return;
  for (std::size_t role = 0; role < schedule.roles.size(); ++role) {
    const std::vector<StepProgram>& programs = schedule.roles[role].steps;
    for (std::size_t p = 0; p < programs.size(); ++p) {
      const std::vector<Op>& ops = programs[p].ops;
      std::vector<std::int32_t>& cost_of = costs.cost_of[role][p];
      std::array<Seconds, 2> now{};
      std::array<std::set<int>, 2> micro_batches;
      for (std::size_t i = 0; i < ops.size(); ++i) {
        const int part = part_of(ops[i]);
        if (part < 0 || cost_of[i] < 0) continue;
        now[static_cast<std::size_t>(part)] +=
            costs.costs[static_cast<std::size_t>(cost_of[i])].solo;
        micro_batches[static_cast<std::size_t>(part)].insert(ops[i].micro_batch);
      }
      const std::array<double, 2> share{replica.forward_share, 1 - replica.forward_share};
      std::map<std::pair<int, std::int32_t>, std::int32_t> known;
      for (std::size_t i = 0; i < ops.size(); ++i) {
        const int part = part_of(ops[i]);
        if (part < 0 || cost_of[i] < 0) continue;
        const auto at = static_cast<std::size_t>(part);
        if (now[at] <= 0) continue;
        const auto [entry, fresh] = known.try_emplace({part, cost_of[i]}, 0);
        if (fresh) {
          const Seconds wanted =
              *replica.step * share[at] * static_cast<double>(micro_batches[at].size());
          entry->second = stretched(costs, cost_of[i], wanted / now[at]);
        }
        cost_of[i] = entry->second;
      }
    }
  }
}

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

void refuse_replicas(const Resolved& r, std::string_view what) {
  if (r.replica.gpus == 1 && !r.replica.step) return;
  throw InputError({"", 0, r.replica.gpus > 1 ? "replica_gpus" : "replica_step_ms"},
                   fmt::format("is for stepcast simulate; {} takes ranks of one GPU", what));
}

}  // namespace stepcast

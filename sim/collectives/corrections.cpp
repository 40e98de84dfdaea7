#include "sim/collectives/corrections.hpp"

#include <algorithm>
#include <cmath>

#include "base/embedded.hpp"
#include "base/error.hpp"
#include "base/toml.hpp"

namespace stepcast {
namespace {

constexpr std::string_view file_name = "collective-corrections.toml";

}  // namespace

int network_hops(const PredictedCall& call) {
  if (call.nodes < 2) return 0;
  if (call.algorithm == NcclAlgorithm::ring) return call.nodes - 1;
  int log = 0;
  for (int n = call.nodes; n > 1; n >>= 1) ++log;
  return log;
}

int network_steps(const PredictedCall& call) {
  const bool once =
      call.algorithm == NcclAlgorithm::ring && call.kind != CollectiveKind::all_reduce;
  return (once ? 1 : 2) * network_hops(call);
}

bool is_two_node_tree(const PredictedCall& call) {
  const bool tree =
      call.algorithm == NcclAlgorithm::tree || call.algorithm == NcclAlgorithm::nvls_tree;
  return tree && call.kind == CollectiveKind::all_reduce && call.nodes == 2 &&
         call.ranks > call.nodes;
}

double fixed_us(const Correction& correction, const PredictedCall& call) {
  return call.latency_us + correction.launch_us + network_steps(call) * correction.step_us;
}

double corrected_us(const Correction& correction, const PredictedCall& call) {
  double wire = std::max({0.0, call.wire_us, call.staged_us - call.latency_us});
  if (call.nodes > 2) wire *= std::pow(network_hops(call), correction.stall);
  double time = fixed_us(correction, call);
  time += wire / (is_two_node_tree(call) ? correction.two_node_all_reduce : correction.efficiency);
  if (call.protocol != NcclProtocol::ll) time += correction.ramp * std::sqrt(wire);
  return std::max(time, call.least_us);
}

std::string correction_class(const nccl::CommShape& comm, bool nvswitch, bool staged,
                             const std::string& network) {
  const int cc = comm.min_compute_capability;
  if (comm.max_local_ranks > 16) return "nvlink-domain";  // not what nodes of 8 were fitted on
  if (comm.nodes == 1 && staged) return "host";
  if (comm.nodes == 1 && !nvswitch) return "";
  if (comm.nodes == 1) {
    return cc < 80 ? "nvlink2" : cc < 90 ? "nvlink3" : cc < 100 ? "nvlink4" : "nvlink5";
  }
  // NCCL drives both with the same verbs and the same latencies.
  if (network == "infiniband" || network == "roce") {
    return cc >= 100 ? "rdma-blackwell" : "rdma";
  }
  return network;
}

Corrections Corrections::from_text(std::string_view text, const std::string& file) {
  TomlTable t = TomlTable::from_text(text, file);
  Corrections out;
  for (TomlTable& row : t.tables("class")) {
    Correction c;
    const std::string name = row.string("name");
    c.launch_us = row.number("launch_us", {.min = 0});
    c.step_us = row.number("step_us", {.min = 0});
    c.efficiency = row.number("efficiency", {.min = 0.01});
    c.two_node_all_reduce = row.number("two_node_all_reduce", {.min = 0.01});
    c.ramp = row.number("ramp", {.min = 0});
    c.stall = row.number_or("stall", 0, {.min = 0, .max = 2});
    // For people: which machines it was fitted on and checked on, and how well that went.
    row.strings("fitted_on");
    row.strings("checked_on");
    row.string("residuals");
    row.finish();
    if (!out.classes_.emplace(name, c).second) {
      throw InputError(row.where("name"), "'" + name + "' is there twice");
    }
  }
  t.finish();
  return out;
}

std::shared_ptr<const Corrections> Corrections::shipped() {
  static const std::shared_ptr<const Corrections> corrections = [] {
    for (const auto& file : embedded::collectives()) {
      if (file.name == file_name) {
        return std::make_shared<const Corrections>(from_text(file.text, std::string(file_name)));
      }
    }
    STEPCAST_ASSERT(false, "the corrections of collectives are not embedded");
    return std::shared_ptr<const Corrections>();
  }();
  return corrections;
}

const Correction* Corrections::find(const std::string& name) const {
  const auto found = classes_.find(name);
  return found == classes_.end() ? nullptr : &found->second;
}

}  // namespace stepcast

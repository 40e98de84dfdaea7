#pragma once
// A software profile: what the software stack does to a step, as data with a name
// (sim/kernels/profiles/*.toml), never a constant in code.

#include <string>
#include <unordered_map>
#include <vector>

#include "base/name.hpp"
#include "base/provenance.hpp"
#include "base/units.hpp"

namespace stepcast {

enum class AttentionKernel : std::uint8_t {
  flash2,  // FlashAttention-2: PyTorch's scaled_dot_product_attention
  best,    // the fastest known for the architecture: FlashAttention-3, cuDNN
};

struct SoftwareProfile {
  std::string name;         // "pytorch-eager"
  std::string based_on;     // the profile whose figures these change; empty: all are its own
  std::string description;  // one line for `stepcast list profiles`
  std::string source;       // of its figures
  Provenance provenance = Provenance::assumed;

  double launch_us = 0;  // host time a CUDA launch costs (dispatch and autograd included)
  std::unordered_map<Name, double> host_us;  // named host works, microseconds each time

  bool fused_elementwise = false;  // Workload::fused_elementwise
  bool fused_loss = false;
  bool fused_optimizer = true;
  AttentionKernel attention_kernel = AttentionKernel::flash2;

  // Rates against what the models of kernels and collectives say; above 1: faster than they do.
  // A fit (validate/published/fit.hpp) moves these, launch_us and host_us.
  double gemm_efficiency = 1.0;
  double attention_efficiency = 1.0;
  double memory_efficiency = 1.0;
  double head_efficiency = 1.0;       // the output layer and the loss, on top
  double optimizer_efficiency = 1.0;  // the optimizer's kernels, on top
  double collective_efficiency = 1.0;
  // What a collective takes of SMs and memory from kernels beside it, against the model of that.
  double overlap_interference = 1.0;

  // Standard deviation over ranks of how long the same kernels take, as part of it: GPUs differ in
  // clock and heat, hosts in what else they do. A step waits for the slowest of its ranks, so this
  // costs more the more there are (sim/forecast/stragglers.hpp). 0: all ranks are alike.
  double rank_jitter = 0;

  // How far steps are from this profile's forecasts, one standard deviation, relative. 0: nobody
  // measured any; sim/forecast/interval.hpp says what is taken then.
  double residual = 0;
  std::vector<std::string> fitted;  // the factors that a fit moved; none: the figures are assumed
  // Catalog names of the GPUs whose rows the fit saw: there its factors hold what the kernel model
  // gets wrong of them, on others they need not (sim/forecast/interval.hpp).
  std::vector<std::string> fitted_on;
  int fitted_gpus = 0;  // the most that a fitted row had; 0: none was fitted, or nobody said

  // Microseconds of one named host work. Throws InputError that names the profile when it has none:
  // an unknown cost is never zero.
  double host_cost_us(Name work) const;
};

// NAME is a catalog name or a path to a TOML file. Throws InputError.
SoftwareProfile load_profile(const std::string& name_or_path);
SoftwareProfile parse_profile(std::string_view text, const std::string& file);
std::vector<std::string> catalog_profiles();
// As a file that parse_profile reads: what differs from the profile it is based on.
std::string to_toml(const SoftwareProfile& profile);

}  // namespace stepcast

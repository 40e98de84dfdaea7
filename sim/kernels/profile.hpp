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
  std::string description;  // one line for `stepcast list profiles`
  std::string source;       // of its figures
  Provenance provenance = Provenance::assumed;

  double launch_us = 0;  // host time a CUDA launch costs (dispatch and autograd included)
  std::unordered_map<Name, double> host_us;  // named host works, microseconds each time

  bool fused_elementwise = false;  // Workload::fused_elementwise
  bool fused_loss = false;
  bool fused_optimizer = true;
  AttentionKernel attention_kernel = AttentionKernel::flash2;

  // Fractions of what the GPU could do, 0..1.
  double gemm_efficiency = 1.0;  // on top of the kernel model
  double attention_efficiency = 1.0;
  double memory_efficiency = 1.0;

  // Microseconds of one named host work. Throws InputError that names the profile when it has none:
  // an unknown cost is never zero.
  double host_cost_us(Name work) const;
};

// NAME is a catalog name or a path to a TOML file. Throws InputError.
SoftwareProfile load_profile(const std::string& name_or_path);
SoftwareProfile parse_profile(std::string_view text, const std::string& file);
std::vector<std::string> catalog_profiles();

}  // namespace stepcast

#pragma once
// A software profile: what the software stack does to a step, as data with a name
// (sim/kernels/profiles/*.toml), never a constant in code.

#include <map>
#include <string>
#include <vector>

#include "base/name.hpp"
#include "base/provenance.hpp"
#include "base/units.hpp"

namespace stepcast {

struct SoftwareProfile {
  std::string name;    // "pytorch-eager"
  std::string source;  // of its figures
  Provenance provenance = Provenance::assumed;

  double launch_us = 0;                // host time a CUDA launch costs (dispatch and autograd included)
  std::map<Name, double> host_us;      // named host works, microseconds each time

  bool fused_elementwise = false;      // Workload::fused_elementwise
  bool fused_loss = false;
  bool fused_optimizer = true;

  // Fractions of what the GPU could do, 0..1.
  double gemm_efficiency = 1.0;        // on top of the kernel model
  double attention_efficiency = 1.0;
  double memory_efficiency = 1.0;
};

SoftwareProfile load_profile(const std::string& name_or_path);  // InputError lists what is known
std::vector<std::string> catalog_profiles();

}  // namespace stepcast

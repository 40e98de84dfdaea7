#pragma once
// What GPUs of one architecture reach of their dense peaks (data/gpu-families.toml, which explains
// each figure and names its source).

#include <string>
#include <vector>

#include "base/provenance.hpp"
#include "topologies/topology.hpp"

namespace stepcast {

struct GpuFamily {
  std::string name;
  int compute_capability = 0;
  std::vector<std::string> gpus;  // catalog names that belong here whatever their capability
  double tile_fraction = 0;       // of the dense peak
  double sustained_fraction = 0;  // of the reference part's dense peak
  double reference_peak_tflops = 0;
  double reference_watts = 0;
  double attention_fraction = 0;  // of the dense peak
  double attention_ramp = 0;      // keys
  double flash2_fraction = 0;
  double backward_fraction = 0;
  double memory_fraction = 0;  // of the memory bandwidth
  std::vector<std::string> measured;
  std::string source;
};

// The family of a part: by name, by compute capability, else the nearest older architecture (and
// then nothing about it is "modelled").
const GpuFamily& family_of(const Gpu& gpu);

// Dense fraction of the peak that the part sustains under its board power limit, never more than
// tile_fraction.
double sustained_fraction(const GpuFamily& family, const Gpu& gpu);

// modelled for the parts that the figures were checked on, else extrapolated.
Provenance provenance_of(const GpuFamily& family, const Gpu& gpu);

}  // namespace stepcast

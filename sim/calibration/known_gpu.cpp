#include "sim/calibration/known_gpu.hpp"

#include <cmath>

#include "topologies/topology.hpp"

namespace stepcast {

std::string known_gpu(const DeviceFacts& device) {
  for (const std::string& name : catalog_gpus()) {
    const Gpu gpu = load_gpu(name);
    const double memory = static_cast<double>(device.memory_bytes);
    const double off = std::abs(static_cast<double>(gpu.memory_bytes) - memory) / memory;
    if (gpu.compute_capability == device.compute_capability && gpu.sm_count == device.sm_count &&
        off < 0.08) {
      return name;
    }
  }
  std::string made;
  for (const char c : device.name) {
    const bool letter = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z');
    const bool upper = c >= 'A' && c <= 'Z';
    made += letter ? c : upper ? static_cast<char>(c - 'A' + 'a') : '-';
  }
  return made.empty() ? "unknown-gpu" : made;
}

}  // namespace stepcast

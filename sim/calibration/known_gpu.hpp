#pragma once
// Which of the catalog's GPUs a device is, by what its driver says of it.
//
//   known_gpu({"NVIDIA H100 80GB HBM3", 85'045'608'448, 90, 132})   "h100-sxm"
//
// The part of that compute capability with as many SMs and about that memory (drivers report a few
// percent less than datasheets); else a name made of the device's, which no machine of the catalog
// has, so that kernels measured on it are not taken for another GPU's.
// Tested by tests/unit/calibration/from_trace_test.cpp.

#include <cstdint>
#include <string>

namespace stepcast {

struct DeviceFacts {
  std::string name;
  std::int64_t memory_bytes = 0;
  int compute_capability = 0;  // 90 for 9.0
  int sm_count = 0;
};

std::string known_gpu(const DeviceFacts& device);

}  // namespace stepcast

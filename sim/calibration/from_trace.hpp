#pragma once
// A calibration from traces of a user's own training (PyTorch's profiler or Chakra's, one file a
// rank).
//
// A kernel belongs to the op that launched it: by its own "External id", or by its correlation with
// the runtime call that has one; in a Chakra trace it depends on it. All kernels of one call of an
// op count together (a product that is split over k has a second kernel that adds up). What comes
// out:
//
//   products        aten::mm, addmm, bmm, baddbmm, _scaled_mm with shapes: the median of the calls
//                   of a shape
//   memory-bound    elementwise ops with shapes: by bytes, the median
//   collectives     of NCCL kernels: a kernel runs from when its own rank comes until the last one
//                   has gone through, so a rank that came early waited in it. With the traces of
//                   several ranks the shortest of them counts, call by call, and then the median;
//                   with one rank the shortest call of a size. Not of Chakra traces, which do not
//                   say among how many ranks
//   launches        the median cudaLaunchKernel (bare_launch_us); not of Chakra traces
//
// What is not known by name or has no shapes (record_shapes=False) is counted and left out: fused
// kernels of torch.compile, convolutions, attention. Memory: trace_calls.hpp; one file at a time,
// and 8 bytes a call. Tested by tests/unit/calibration/from_trace_test.cpp and chakra_test.cpp.

#include <string>
#include <vector>

#include "sim/calibration/calibration.hpp"
#include "sim/interop/kineto.hpp"

namespace stepcast {

struct TraceOptions {
  std::string gpu;        // catalog name; empty: of the catalog's parts the one that fits
  int gpus_per_node = 0;  // 0: as many as the trace's deviceProperties
};

struct TraceCalibration {
  Calibration calibration;
  KinetoInfo info;  // of the first file
  int ranks = 0;    // files
  std::int64_t kernels = 0;
  double kernel_us = 0;   // of all kernels but collectives' ...
  double covered_us = 0;  // ... of those that the calibration holds
  std::int64_t collectives = 0, covered_collectives = 0;
  std::vector<double> step_us;        // ProfilerStep marks of the first file
  std::vector<std::string> left_out;  // "aten::convolution_backward 41 %": largest first
};

// Throws InputError where a file cannot be read, or has no kernel of a GPU.
TraceCalibration calibration_of_traces(const std::vector<std::string>& files,
                                       const TraceOptions& options = {});

}  // namespace stepcast

#pragma once
// What runs on a stream when an op does, in the words of PyTorch's profiler: an op's kernels,
// NCCL's kernel of a collective with what it moved, or a copy. Internal to trace.cpp.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/report/trace.hpp"

namespace stepcast {

// A kernel or copy, one slice of a trace.
struct TraceKernel {
  std::string name;
  const char* category = "kernel";
  const char* launch = "cudaLaunchKernel";
  std::string args;
  double share = 1;  // of the op's time
  bool nccl = false;
};

class TraceKernels {
 public:
  TraceKernels(const Schedule& schedule, const TraceOptions& options)
      : schedule_(schedule), options_(options) {}

  // Of an op as `rank` sees it. `choice` is what NCCL chose, `name` what the op is called where it
  // has no kernels.
  std::vector<TraceKernel> of(const Op& op, const std::string& choice, const std::string& name,
                              int rank) const;
  // The arguments of NCCL's kernel and of record_param_comms.
  std::string collective_args(const Op& op, int rank) const;

 private:
  const std::string& group_ranks(Axis axis, int rank) const;

  const Schedule& schedule_;
  const TraceOptions& options_;
  mutable std::map<std::pair<Axis, int>, std::string> ranks_;
};

}  // namespace stepcast

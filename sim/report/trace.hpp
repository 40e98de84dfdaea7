#pragma once
// A timeline as a trace that PyTorch's profiler could have written: Perfetto (ui.perfetto.dev) and
// chrome://tracing show it, and what reads Kineto's traces (Holistic Trace Analysis, TensorBoard's
// plugin, sim/interop/kineto.hpp) finds what it looks for. docs/traces.md lists the fields.
//
//   a process for the host    host lanes as threads: ProfilerStep#N, each op (cpu_op), inside it
//                             record_param_comms for collectives, and the runtime's calls
//   a process for the GPU     a track a stream, numbered as the profiler does (7 is the default
//                             stream): the op (gpu_user_annotation), in it its kernels
//   arrows (ac2g)             from a launch to its kernel, by "correlation"
//   counters                  allocated bytes; of a replay also active and reserved
//
// An op's kernels follow each other within the op's time, each its share of what they would take
// alone: the engines time ops, not kernels. A collective's kernel runs from when this role is
// there, also while it waits for others, as on a GPU. Times are microseconds from the start of the
// first step. What PyTorch has no field for stands on the op: why it started then (`bound`,
// `waited_for`), its time alone, where its cost comes from, the rule it stands for.
//
// Tested by tests/unit/report/trace_test.cpp; beside the structure of real traces and read back
// through sim/interop by tests/cli/trace_test.cpp.

#include <functional>
#include <string>
#include <vector>

#include "base/kernel.hpp"
#include "sim/engines/cost_table.hpp"
#include "sim/memory/replay.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/schedule/timeline.hpp"

namespace stepcast {

struct TraceOptions {
  const std::vector<RoleReplay>* memory = nullptr;  // a replay a role, or none
  // -1: every role in one trace, under the ranks of the first. Else what this rank would write:
  // its own role alone, its process groups, its device.
  int rank = -1;
  // What the trace says it ran on; without a name it says nothing.
  std::string gpu;
  Bytes gpu_memory = 0;
  int compute_capability = 0;
  int sm_count = 0;
  int gpus_per_node = 1;
  std::string nccl_version;
  // Seconds of a kernel alone, to share an op's time among its kernels; without it an op is one.
  std::function<Seconds(const Kernel&)> kernel_seconds;
};

std::string to_trace(const Schedule& schedule, const CostTable& costs, const Timeline& timeline,
                     const TraceOptions& options = {});

// 7 for the first stream, then 16, 20, 24, ...: the numbers a PyTorch trace shows on NVIDIA GPUs.
int trace_stream_number(StreamIndex stream);

// The role that has this rank, or -1.
int role_of_rank(const Schedule& schedule, int rank);

}  // namespace stepcast

#pragma once
// Runs a schedule for real on GPUs: CUDA streams and events one to one with the schedule's, NCCL
// communicators, buffers in device memory. The counterpart of runtime/cpu/executor.hpp.
//
//   GpuTables tables = open_gpus();
//   GpuTrainer work(...);                         // or GpuReplay
//   GpuExecution run = execute_on_gpus(schedule, work, tables, {.job = *job_of_environment(...)});
//
// Ranks are processes, one a GPU (`job`: torchrun, Slurm, mpirun), wherever they are and however
// many a node has; or without a job threads of this process, one for each of the first GPUs. Either
// way they meet at a rendezvous (rendezvous.hpp), and a run that can go no further ends on every
// rank: Hang names the collective and the ranks that are missing, GpuError what broke.
//
// Every process gets the whole Execution: the timeline of the first rank of each role, and each
// rank's memory. A rank is one thread that also watches; a second one a process stands by for the
// case that it is stuck inside CUDA, and aborts its communicators, which frees it.
// Tested by tests/unit/cuda/gpu_executor_test.cpp, on the fake.

#include <optional>

#include "runtime/cpu/executor.hpp"
#include "runtime/cuda/environment.hpp"
#include "runtime/cuda/gpu_work.hpp"
#include "runtime/cuda/plugin.hpp"

namespace stepcast::runtime {

struct GpuExecuteOptions {
  int steps = 1;  // the StepPrograms in order, then the last again and again
  std::optional<Job> job = {};
  Seconds watchdog = 30;   // no rank goes on
  Seconds patience = 300;  // for ranks that are still starting, and for NCCL's set-up
  CommOptions comm = {};
  int meeting = 0;  // of a job that runs several schedules: counted alike by all ranks
};

// What a rank allocated, and what its pools had reserved from CUDA, at most.
struct GpuMemoryUse {
  Bytes peak = 0;
  Bytes reserved = 0;
  std::vector<Bytes> pools;  // by stream
};

struct GpuExecution {
  Timeline timeline;
  std::vector<GpuMemoryUse> memory;    // by rank
  std::vector<std::string> gpus;       // by rank: "node3 GPU 0 NVIDIA H100"
  std::vector<std::string> summaries;  // by rank: GpuWork::summary
};

// The schedule must be free of problems(). Throws Hang, GpuError, what a GpuWork throws, and
// InputError where ranks and GPUs do not fit together.
GpuExecution execute_on_gpus(const Schedule& schedule, GpuWork& work, const GpuTables& tables,
                             const GpuExecuteOptions& options = {});

// What rank 0 of the job gives, on every rank: a meeting of its own. Without a job, `mine`.
std::string from_rank_0(const std::string& mine, const GpuExecuteOptions& options);

}  // namespace stepcast::runtime

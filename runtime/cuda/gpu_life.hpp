#pragma once
// The whole life of one GPU rank, on its own thread: which GPU it has, its communicators, the run,
// its results to all others; and what becomes of it when the run fails, here or elsewhere.

#include "runtime/cuda/gpu_executor.hpp"
#include "runtime/cuda/gpu_rank.hpp"
#include "runtime/cuda/rendezvous.hpp"

namespace stepcast::runtime {

class GpuLife {
 public:
  GpuLife(const GpuRun& run, const GpuTables& tables, const GpuExecuteOptions& options)
      : run_(run), tables_(tables), options_(options) {}

  // `heard`: it ended because another one failed.
  GpuExecution live(int rank, int device, Rendezvous& rendezvous, bool& heard) const;

 private:
  GpuExecution live_well(int rank, int device, Rendezvous& rendezvous) const;
  void go(GpuRank& self, Communicators& comms, Rendezvous& rendezvous) const;

  const GpuRun& run_;
  const GpuTables& tables_;
  const GpuExecuteOptions& options_;
};

// This host's name, for messages.
std::string host_name();

}  // namespace stepcast::runtime

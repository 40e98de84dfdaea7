#pragma once
// The NCCL communicators of one rank: one over all ranks, and by ncclCommSplit one for each of the
// schedule's, whatever its axis. The first that spans the world is the one over all ranks itself.
//
//   mesh {replicate 2, shard 2}, rank 3: shard    color 1 (ranks 2, 3), key 1
//                                        replicate color 1 (ranks 1, 3), key 1
//
// They do not block: a call returns, and `settled` asks until it is through, looking meanwhile at
// whether the run has failed. An error that NCCL reports for one (a peer that it lost, a network
// that it cannot reach) is thrown with the communicator's name. abort() may be called from another
// thread when the rank's own is stuck in CUDA.
// Tested by tests/unit/cuda/gpu_executor_test.cpp.

#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

#include "runtime/cuda/gpu.hpp"
#include "runtime/cuda/rendezvous.hpp"

namespace stepcast::runtime {

class Communicators {
 public:
  // Makes all of them. Throws what the rendezvous throws where the run fails meanwhile.
  Communicators(const Schedule& schedule, int rank, GpuCollectives& nccl, Rendezvous& rendezvous,
                const CommOptions& options, Seconds patience);
  ~Communicators();  // aborts what was not ended
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  void start(CommIndex comm, GpuStream* stream, const Collective& what, const Operands& operands);
  // Throws GpuError where NCCL has found an error.
  void look();
  void end();
  void abort() noexcept;

 private:
  void make(const Schedule& schedule, int rank, const CommOptions& options);
  void settled(GpuComm* comm, const std::string& what);
  [[noreturn]] void broken(GpuComm* comm, const std::string& what);

  GpuCollectives& nccl_;
  Rendezvous& rendezvous_;
  Seconds patience_;
  std::mutex mutex_;  // abort() against itself
  std::atomic<bool> over_{false};
  std::vector<GpuComm*> all_;
  std::vector<GpuComm*> comms_;  // by the schedule's index
  std::vector<std::string> names_;
};

}  // namespace stepcast::runtime

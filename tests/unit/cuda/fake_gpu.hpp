#pragma once
// GPUs and NCCL that are not there. Streams are queues of closures; whoever asks an event or a
// stream lets the streams of its device go on, in an order that the seed decides, each op as late
// as it may be: what a host gets wrong by being ahead, it gets wrong here. A communicator takes its
// collectives in the order of the calls and each needs all its members, as NCCL's do.
//
//   FakeCluster cluster({2, 1});              // a node of two GPUs, a node of one
//   GpuTables tables = cluster.process(0);    // what a process on node 0 gets
//
// What goes wrong is injected by rank of the world and number of the rank's NCCL call, from 1.

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <vector>

#include "runtime/cuda/plugin.hpp"

namespace stepcast::testing {

struct FakeFaults {
  int rank = -1;
  int call = 1;
  enum class Kind {
    none,
    throws,        // the call throws GpuError: the rank's GPU broke
    never_enters,  // enqueued, but never gets onto the GPU
    async_error,   // NCCL reports that it lost a peer
    stuck,         // the call does not return before resume(): a stopped process
    never_joins,   // the communicator is never ready
  } kind = Kind::none;
};

struct FakeDevice;
struct FakeGroup;

class FakeCluster {
 public:
  explicit FakeCluster(std::vector<int> gpus_of_node, std::uint64_t seed = 1);
  ~FakeCluster();

  // `one_gpu`: the process sees only this one of the node (CUDA_VISIBLE_DEVICES).
  runtime::GpuTables process(int node, int one_gpu = -1);

  FakeFaults faults;
  Bytes memory_of_gpu = Bytes{1} << 40;
  // What is larger is not moved, filled or added up: a replay's gigabytes mean nothing.
  Bytes largest_moved = Bytes{1} << 40;
  int nccl_version = 22809;
  bool only_process = false;  // ranks beyond its GPUs would never come: NCCL refuses them
  bool same_bus_ids = false;  // all GPUs look like one
  void resume();

  // What has happened.
  int alive() const;  // streams, events, memory and communicators that were not ended
  int aborted() const { return aborted_; }
  int largest_backlog() const { return largest_backlog_; }  // closures waiting in one stream
  std::multiset<int> priorities() const;                    // of the streams made
  std::vector<std::string> ranges() const { return ranges_; }
  std::set<std::string> comm_names() const { return comm_names_; }
  std::multiset<int> max_ctas() const { return max_ctas_; }  // of the communicators, by rank

 private:
  friend class FakeGpu;
  friend class FakeNccl;
  friend class FakeMath;
  friend class FakeKernels;
  bool go_on(FakeDevice& device);  // with the lock held; false: nothing can

  mutable std::mutex mutex_;
  std::condition_variable resumed_;
  bool resume_ = false;
  std::mt19937_64 random_;
  std::vector<std::vector<std::unique_ptr<FakeDevice>>> nodes_;
  std::map<std::string, std::shared_ptr<FakeGroup>> groups_;  // by unique id
  int ids_ = 0, alive_ = 0, aborted_ = 0, largest_backlog_ = 0;
  std::multiset<int> priorities_;
  std::vector<std::string> ranges_;
  std::set<std::string> comm_names_;
  std::multiset<int> max_ctas_;
  std::vector<std::shared_ptr<void>> keeps_;
};

}  // namespace stepcast::testing

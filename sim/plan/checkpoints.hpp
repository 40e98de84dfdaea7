#pragma once
// Checkpoints and failures: what one checkpoint costs, how often to write one, and what part of the
// time is training (goodput).
//
// Failures come at random, once in M seconds on average: the MTBF of a node over the nodes. Every
// `interval` seconds of training a checkpoint stops the training for `stall` seconds and is on the
// storage `lag` seconds after that (written in the background; 0 when training waits for it). A
// failure throws away what was trained since the last checkpoint on the storage, and costs a
// restart. With P = interval + stall, a life between failures saves floor((t - lag) / P) intervals:
//
//   goodput = interval * exp(-lag / M) / (exp(P / M) - 1)  /  (M * exp(restart / M))
//
// which is exact for exponential failures (also during restarts) and a long job, and for lag = 0 it
// is Daly's complete model. The best interval is found on it; Young's sqrt(2 stall M) and Daly's
// higher order are its classical approximations and are printed beside it.
//
//   M = 1 h, stall = 60 s, lag = 0, restart = 600 s:  Young 657 s, Daly 618 s, best 618 s,
//   goodput 0.701
//
// Sources: J. W. Young, CACM 17(9), 1974; J. T. Daly, Future Generation Computer Systems 22(3),
// 2006. Tested by tests/unit/plan/checkpoints_test.cpp, by hand and against failures.hpp, which
// plays the failures out event by event.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/units.hpp"

namespace stepcast {

// Who writes: every rank its shard, or rank 0 everything after gathering it in its host's memory.
enum class CheckpointWriter : std::uint8_t { sharded, gathered };

// What stands around a job's checkpoints.
struct CheckpointSetup {
  Bytes bytes = 0;  // of one checkpoint, all ranks
  int nodes = 1;
  int gpus = 1;
  Seconds begin = 0;          // every checkpoint: ranks meet, tensors are listed
  double node_gbps = 2;       // GB/s that one node writes and reads
  double storage_gbps = 100;  // and all of them together
  double copy_gbps = 20;      // GB/s from one GPU to its host
  double gather_gbps = 0;     // GB/s at which rank 0 receives from other nodes; 0: one node
  double host_memory_bytes = 0;
};

// Of one checkpoint.
struct CheckpointCost {
  Seconds stall = 0;      // training stands still
  Seconds lag = 0;        // after that until it is on the storage
  Seconds read = 0;       // all nodes, when the job starts again
  double host_bytes = 0;  // of the node that holds most
  bool fits_host = true;  // in the host's memory; true where that is not known
};

// Example: 96 GB on 8 nodes of 8 GPUs, 2 GB/s a node, 20 GB/s a GPU: a shard of 1.5 GB is copied in
// 75 ms and the node's 12 GB are written in 6 s. In the background the stall is 75 ms and the lag
// 6 s; else the stall is 6.075 s.
CheckpointCost checkpoint_cost(const CheckpointSetup& setup, CheckpointWriter writer,
                               bool background);

// What failures do to a job.
struct FailureRates {
  Seconds mtbf = 0;     // M, of the whole job; 0: nothing ever fails
  Seconds restart = 0;  // from a failure to the first step, reading included
};

double goodput(Seconds interval, const CheckpointCost& cost, const FailureRates& rates);

struct CheckpointPlan {
  Seconds interval = 0;  // the best; not below lag: one write at a time. 0: never (no failures)
  double goodput = 1;
  Seconds young = 0, daly = 0;  // the classical ones
};
CheckpointPlan best_interval(const CheckpointCost& cost, const FailureRates& rates);

std::string_view to_string(CheckpointWriter writer);

}  // namespace stepcast

#pragma once
// Runs a schedule for real on the CPU. Ranks have lanes, streams, communicators and buffers of
// their own; they are threads of this process, with collectives over shared memory, or processes on
// one or many hosts, with collectives over a Wire.
//
//   Trainer trainer(...);                       // or Replay
//   Execution run = execute(schedule, trainer, {.steps = 5});
//   Execution run = execute_alone(schedule, trainer, *open_mpi(), {.steps = 5});  // in each
//   process
//
// It keeps the order that schedule.hpp promises and nothing more: what the schedule leaves open,
// the seed decides (rank.hpp). Memory is real and poisoned when freed. A run that can go no further
// ends on every rank: Hang names the collective, its communicator and the ranks that are missing.
//
// The Timeline is that of the first rank of each role.
// Tested by tests/unit/runtime/executor_test.cpp and peers_test.cpp.

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/cpu/wire.hpp"
#include "runtime/work.hpp"
#include "sim/schedule/timeline.hpp"

namespace stepcast::runtime {

// No rank went on for as long as the watchdog allows, or ranks entered different collectives.
class Hang : public std::runtime_error {
 public:
  explicit Hang(const std::string& message) : std::runtime_error(message) {}
};

struct ExecuteOptions {
  int steps = 1;  // the StepPrograms in order, then the last again and again
  std::uint64_t seed = 1;
  // false: one thread plays all ranks in turn, and the seed alone decides the interleaving. Then
  // nothing may take time (Work::duration is 0), and a hang is noticed at once.
  bool threads = true;
  Seconds watchdog = 30;
  // A rank that is a process ends when somebody sets this (SIGTERM), and says what it waited for.
  const std::atomic<bool>* end_now = nullptr;
};

struct Execution {
  Timeline timeline;
  std::vector<Bytes> peak;   // by rank: allocated at once, persistent buffers included
  std::vector<Bytes> pools;  // of rank 0 by stream: the same of its pool alone
  // By rank: Work::result, of ranks that are processes.
  std::vector<std::vector<double>> results;
};

// The schedule must be free of problems(). Throws Hang, or what a Work throws.
Execution execute(const Schedule& schedule, Work& work, const ExecuteOptions& options = {});

// This process is one rank, the wire leads to the others. Collectives take the time that their
// bytes take, and a replay sends as many. Rank 0 returns the execution, the others one without
// contents. Throws on every rank when one fails.
Execution execute_alone(const Schedule& schedule, Work& work, Wire& wire,
                        const ExecuteOptions& options = {});

}  // namespace stepcast::runtime

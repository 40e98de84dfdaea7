#pragma once
// Runs a schedule for real on the CPU: ranks are threads of this process, with lanes, streams,
// communicators and buffers of their own, and collectives over shared memory.
//
//   Trainer trainer(...);                       // or Replay
//   Execution run = execute(schedule, trainer, {.steps = 5});
//
// It keeps the order that schedule.hpp promises and nothing more: what the schedule leaves open,
// the seed decides (rank.hpp). Memory is real and poisoned when freed. A run that can go no further
// ends on every rank: Hang names the collective, its communicator and the ranks that are missing.
//
// The Timeline is that of the first rank of each role.
// Tested by tests/unit/runtime/executor_test.cpp.

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

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
};

struct Execution {
  Timeline timeline;
  std::vector<Bytes> peak;  // by rank: allocated at once, persistent buffers included
};

// The schedule must be free of problems(). Throws Hang, or what a Work throws.
Execution execute(const Schedule& schedule, Work& work, const ExecuteOptions& options = {});

}  // namespace stepcast::runtime

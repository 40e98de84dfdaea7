#pragma once
// Random schedules with costs, for playing engines against each other. The same seed gives the same
// schedule everywhere (std::mt19937_64, no library distributions).
//
// All roles issue the same collectives in one order, each communicator on a stream of its own, so
// that no schedule deadlocks; everything else differs from role to role.

#include <cstdint>

#include "sim/engines/cost_table.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast::testing {

struct RandomOptions {
  int roles = 1;
  int ops = 60;        // a step, about
  bool locks = false;  // lanes share a lock
  bool demands = false;
  int programs = 2;
};

struct RandomProgram {
  Schedule schedule;
  CostTable costs;
};

RandomProgram random_program(std::uint64_t seed, const RandomOptions& options);

}  // namespace stepcast::testing

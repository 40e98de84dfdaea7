#pragma once
// Which ranks see the same step, once some of them are perturbed.
//
// Ranks of one class have the same program, the same perturbation and, in every communicator, peers
// of the same classes: an equitable partition of the mesh. It is found by refinement: colour ranks
// by what is said of them, colour groups by the colours in them, ranks by their groups, until
// nothing splits. What matters of a group is which colours are in it, not how many: a collective
// begins when the last one comes.
//
// Example, HSDP with 8 groups of 8 and rank 17 slow:
//
//   rank 17         |  its shard group (16, 18..23)     gathers with 17
//   its replicas    |  the rest                         reduce with 17 (1, 9, 25, ...)
//
// Four classes at 64 as at 16,384 ranks; under DDP and FSDP there are two. So a perturbed forecast
// costs classes, not ranks. Cost of finding them: ranks x communicators x rounds; 5 ms at 16,384.
//
// split_roles() and split_costs() make a role of each class: the same program, other costs. Engines
// need no more: roles meet in communicators.
// Tested by tests/unit/forecast/perturb_test.cpp, which also runs every rank as its own role.

#include <cstdint>
#include <string>
#include <vector>

#include "sim/engines/cost_table.hpp"
#include "sim/forecast/perturbation.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast {

struct RankClass {
  std::string name;                 // "rank 17", "its shard group", "its replicas", "the rest"
  int role = 0;                     // of the schedule that is split
  std::vector<std::int32_t> ranks;  // ascending
  bool perturbed = false;
  double speed = 1;
  Seconds late = 0;
  bool missing = false;
  std::int32_t costs = 0;  // 0: as before, k: the k-th other cost table (perturbed_costs.hpp)
};

enum class Folding : std::uint8_t {
  classes,
  none  // every rank a class of its own: what folding is tested against
};

// Perturbed classes first, then by their lowest rank. `costs_of_rank`: OtherCosts::of_rank.
std::vector<RankClass> rank_classes(const Schedule& schedule,
                                    const std::vector<Perturbation>& perturbations,
                                    Folding folding = Folding::classes,
                                    const std::vector<std::int32_t>& costs_of_rank = {});

// A role for each class. The programs of missing ranks are empty.
Schedule split_roles(const Schedule& schedule, const std::vector<RankClass>& classes);
// Costs for it. At a speed of 0.8 every compute op takes 1 / 0.8, and asks as much more of SMs and
// memory; collectives and copies go as before. Classes with costs of their own take them from
// `others`.
CostTable split_costs(const CostTable& costs, const Schedule& schedule,
                      const std::vector<RankClass>& classes,
                      const std::vector<CostTable>& others = {});

// "16, 18..23", at most `runs` of them: "1, 9, 25 and 2045 more".
std::string rank_text(const std::vector<std::int32_t>& ranks, int runs = 3);

}  // namespace stepcast

#pragma once
// What a user says is wrong with some ranks, as words:
//
//   rank=17:late=5s       rank 17 comes 5 s late to the step that is reported (once)
//   rank=17:missing       it never comes: its peers stall until the communicator's timeout
//   rank=17:slow=0.8      its kernels run at 80 % of their speed, in every step
//   rank=8-15:slow=0.95   a range, both ends included
//   node=3:late=200ms     all GPUs of the fourth node (nodes and ranks count from 0)
//
// Times need a unit: us, ms, s, min. Tested by tests/unit/forecast/perturb_test.cpp.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/units.hpp"

namespace stepcast {

struct Perturbation {
  enum class Kind : std::uint8_t { late, missing, slow };
  std::string text;  // as the user said it
  Kind kind = Kind::slow;
  std::vector<std::int32_t> ranks;  // ascending
  Seconds late = 0;
  double speed = 1;  // of its kernels, more than 0 and at most 1
};

// Which ranks there are.
struct RankLayout {
  int world_size = 1;
  int gpus_per_node = 1;
};

// Throws InputError at `where`.
Perturbation parse_perturbation(std::string_view text, const RankLayout& layout,
                                const Where& where);
// All of them; two that say the same kind of thing of one rank are refused.
std::vector<Perturbation> parse_perturbations(const std::vector<std::string>& texts,
                                              const RankLayout& layout, const Where& where);

}  // namespace stepcast

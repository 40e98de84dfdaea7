#pragma once
// What a user says is wrong with some ranks, nodes or links, as words:
//
//   rank=17:late=5s           rank 17 comes 5 s late to the step that is reported (once)
//   rank=17:missing           it never comes: its peers stall until the communicator's timeout
//   rank=17:slow=0.8          its kernels run at 80 % of their speed, in every step
//   rank=8-15:slow=0.95       a range, both ends included
//   node=3:late=200ms         all GPUs of the fourth node (nodes and ranks count from 0)
//   node=3,nic=2:slow=0.5     the third NIC of node 3 at half speed, in both directions
//   node=3,nic=2:down         its traffic goes by the next NIC of the node
//   rail=2:slow=0.5           NIC 2 of every node
//   rank=17,nvlink:slow=0.5   the NVLinks of a GPU at half speed, or its PCIe link:
//   rank=17,pcie:... node=3:machine=dgx-a100   this node is another machine (a name of the catalog,
//   or a path)
//
// Times need a unit: us, ms, s, min. Tested by tests/unit/forecast/perturb_test.cpp and
// perturb_links_test.cpp.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/units.hpp"
#include "sim/collectives/broken_links.hpp"
#include "sim/engines/jitter.hpp"

namespace stepcast {

struct Perturbation {
  enum class Kind : std::uint8_t { late, missing, slow, link, machine, jitter };
  std::string text;  // as the user said it
  Kind kind = Kind::slow;
  std::vector<std::int32_t> ranks;  // ascending; of a NIC: all on its node
  Seconds late = 0;
  double speed = 1;               // of its kernels, more than 0 and at most 1
  std::vector<BrokenLink> links;  // of each node that the ranks are on
  std::string machine;
  Jitter jitter;
};

// Which ranks there are, and what their nodes have.
struct RankLayout {
  int world_size = 1;
  int gpus_per_node = 1;
  int nics_per_node = 0;
};

// Throws InputError at `where`.
Perturbation parse_perturbation(std::string_view text, const RankLayout& layout,
                                const Where& where);
// All of them; two that say the same kind of thing of one rank or link are refused, and so is a
// node without a NIC that is up.
std::vector<Perturbation> parse_perturbations(const std::vector<std::string>& texts,
                                              const RankLayout& layout, const Where& where);

}  // namespace stepcast

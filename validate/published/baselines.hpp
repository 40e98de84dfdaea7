#pragma once
// What one would say without a simulator. A forecast is worth something where it beats both.
//
//   no network   the rate a GPU of the nearest fitted row with fewer nodes: perfect scaling.
//                Nearest: same model, machine and sequence length, then as many settings as can be,
//                then the micro-batch, then the most GPUs. A row without such a partner has none.
//   FLOPs only   6N + 12LHs a token (images: their products) over one efficiency, the median of the
//                source's fitted rows, as a part of each GPU's peak.
//
// Example: 8 GPUs measured at 10,000 tokens/s each; 64 GPUs, 8 sequences of 2,048 a GPU: 1.638 s.

#include <vector>

#include "validate/published/outcome.hpp"

namespace stepcast {

struct Baseline {
  const Outcome* outcome = nullptr;
  const Outcome* partner = nullptr;  // of no network
  Seconds no_network = 0;            // 0: no partner
  Seconds flops_only = 0;            // 0: the source fits nothing
};

// One for each outcome that is a step, in their order.
std::vector<Baseline> baselines(const std::vector<Outcome>& outcomes);

}  // namespace stepcast

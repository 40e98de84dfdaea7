#pragma once
// The mixture-of-experts MLP of a block (Mixtral), under dense data parallelism: every rank holds
// all experts and no token leaves its GPU.
//
//   forward   router (tokens x h to E), softmax and top k in fp32, each token's row copied k times
//             in the order of the experts, gate and up projections, SwiGLU, down projection, rows
//             weighted and added back to their tokens
//   backward  the same in reverse
//
// The experts' products are grouped GEMMs: one kernel for E products of tokens k / E rows, routing
// taken as balanced (what the auxiliary loss trains it to be). So all experts' down weights are
// ready together, then the up and the gate weights, the last expert's first. transformers 4 loops
// over the experts in Python instead, E times as many launches and a host synchronisation each;
// that loop is not modelled.
//
// Example, Mixtral-8x7B at 8,192 tokens: k 2, E 8: 8 products of 2,048 rows; a block's MLP
// multiplies 8,192 x 2 x 3 x 4,096 x 14,336 pairs, as one expert of twice the tokens would.
//
// Internal to models/. Tested by tests/unit/models/experts_test.cpp.

#include <vector>

#include "models/layout.hpp"
#include "models/work_parts.hpp"

namespace stepcast {

void experts_forward(const Sizes& sizes, const BlockLayout& layout, std::vector<Kernel>& list);
void experts_backward(const Sizes& sizes, const BlockLayout& layout,
                      std::vector<BackwardKernel>& list);

// Elements inside the experts' MLPs: tokens k f; a dense MLP's tokens f.
std::int64_t inner_elements(const Sizes& sizes);
// Bytes kept for backward besides what a dense MLP of inner_elements() keeps: the copied rows, the
// experts' results, the router's probabilities, choices and weights. 0 for a dense MLP.
Bytes experts_kept(const Sizes& sizes);

// SwiGLU or GELU over the inner elements (activation_work.cpp).
Kernel activation_forward(const Sizes& sizes);
Kernel silu_forward(const Sizes& sizes);  // of a SwiGLU, without the product
Kernel activation_backward(const Sizes& sizes);

}  // namespace stepcast

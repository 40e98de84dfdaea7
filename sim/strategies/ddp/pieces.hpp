#pragma once
// Backward, cut where a bucket can be launched. A piece is one stretch of a layer's kernels; what
// it makes ready is copied in behind it, and then the buckets that are complete and whose turn it
// is are launched. Gradients live in pieces, so memory grows during backward as it does in PyTorch.
//
// Example: a layer with gradients c, b, a in this order and buckets {c}, {b, a}: two pieces, {c}
// which launches bucket 0, and {b, a} which launches bucket 1.
//
// Unused parameters (unused.hpp) have no gradient. Where the reducer marks them ready it does so at
// the first gradient of the backward; where not, their bucket and all later ones are never launched
// (Pieces::launched says how many are). Tested by tests/unit/strategies/ddp_test.cpp and
// ddp_unused_test.cpp.

#include <span>
#include <vector>

#include "sim/strategies/common/layer_walk.hpp"
#include "sim/strategies/ddp/buckets.hpp"

namespace stepcast::ddp {

struct Piece {
  int layer = 0;
  int first_kernel = 0;
  int kernel_count = 0;
  std::vector<int> parameters;  // whose gradients become ready in it (indices into the model)
  std::vector<int> marked;      // unused ones that are marked ready at its start
  std::vector<int> launches;    // buckets to launch after it, in order
  Bytes bytes = 0;              // of those gradients
  BufferIndex gradients = -1;   // their tensors
  BufferIndex fresh = -1;       // the newly produced ones while they are added to older ones
};

struct Pieces {
  std::vector<Piece> all;       // in the order of backward
  std::vector<Range> of_layer;  // into `all`
  int launched = 0;             // buckets that are launched
  std::span<const Piece> of(int layer) const {
    const Range range = of_layer[static_cast<std::size_t>(layer)];
    return {all.data() + range.first, static_cast<std::size_t>(range.count)};
  }
};

// `unused` by parameter, or empty; `marks`: the reducer marks those ready.
Pieces plan_pieces(const TrainingStep& step, const LayerWalk& walk,
                   const std::vector<Bucket>& buckets, const std::vector<bool>& unused, bool marks);

}  // namespace stepcast::ddp

#pragma once
// nn.DataParallel's gradients. Broadcast is one node of the autograd graph over all parameters, so
// its backward runs when the last gradient of the last GPU exists: nothing overlaps.
//
//   for each chunk (chunks.hpp), strictly in sequence on the compute stream:
//     flatten   on every GPU, the chunk's gradients into one (nothing to do for a single tensor)
//     reduce    NCCL, SUM, to GPU 0, into a tensor whose views become the parameters' gradients
//   then the gradients of all GPUs are dropped
//
// A sum and no division: the loss is of the gathered batch already. There is no no_sync: each
// micro-batch reduces, and on GPU 0 later ones are added to the first.
//
// Source: PyTorch parallel/comm.py reduce_add_coalesced (docs/sources.md 1.1). Tested by
// tests/unit/strategies/dp_test.cpp.

#include <vector>

#include "sim/schedule/builder.hpp"
#include "sim/strategies/common/layer_gradients.hpp"
#include "sim/strategies/dp/chunks.hpp"
#include "sim/strategies/dp/tensor_parts.hpp"
#include "sim/strategies/strategy.hpp"

namespace stepcast::dp {

class GradientReduction {
 public:
  // `gradients`: of each layer, on every GPU alike; freed here.
  GradientReduction(ScheduleBuilder& builder, const TrainingStep& step, LayerGradients& gradients,
                    StreamIndex compute, CommIndex world);

  // Returns the host's last work of it.
  OpIndex reduce(bool root, int micro_batch);
  std::vector<View> gradients() const;  // GPU 0's, for the optimizer
  void drop_gradients();                // GPU 0's, zero_grad

 private:
  struct Piece {
    Chunk chunk;
    BufferIndex flat = -1;     // of several tensors
    BufferIndex reduced = -1;  // GPU 0: holds .grad until the optimizer has run
    BufferIndex fresh = -1;    // GPU 0: of a later micro-batch, to be added
  };

  void reduce(const Piece& piece, int number, bool root, int micro_batch);
  void accumulate(const Piece& piece, int number, int micro_batch);

  ScheduleBuilder& builder_;
  const TrainingStep& step_;
  LayerGradients& layer_gradients_;
  TensorParts parts_;
  StreamIndex compute_;
  CommIndex world_;
  std::vector<int> layers_;
  std::vector<Piece> pieces_;
};

}  // namespace stepcast::dp

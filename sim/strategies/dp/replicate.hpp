#pragma once
// nn.DataParallel copies the module to every GPU in every forward:
//
//   for each chunk of the parameters, then of the module's buffers (chunks.hpp):
//     flatten       GPU 0 copies the chunk's tensors into one (nothing to do for a single tensor)
//     broadcast     NCCL, from GPU 0; the replicas' tensors are views of what arrives
//   and Python builds the tree of modules anew, once a GPU: modules x GPUs
//
// GPU 0's own replica is its parameters themselves. On the others a chunk lives from here until
// backward has passed the first layer that has a tensor in it; nothing of them stays between steps.
// All of it is on the compute stream, in sequence: the forward waits for the last chunk.
//
// Example, GPT-2 in fp32: 497.8 MB in 26 chunks, the first the token embedding alone (154 MB).
// Source: PyTorch parallel/replicate.py, comm.cpp (docs/sources.md 1.1). Modules are counted as the
// parameters' names show them, those without parameters not. Tested by
// tests/unit/strategies/dp_test.cpp.

#include <vector>

#include "sim/schedule/builder.hpp"
#include "sim/strategies/dp/chunks.hpp"
#include "sim/strategies/dp/tensor_parts.hpp"
#include "sim/strategies/strategy.hpp"

namespace stepcast::dp {

// Modules on the way to the parameters, the model itself included: "h.0.attn.weight" is four.
int module_count(const Model& model);

class Replicas {
 public:
  // `parameters`: where GPU 0 keeps them.
  Replicas(ScheduleBuilder& builder, const TrainingStep& step, TensorParts parameters,
           StreamIndex compute, CommIndex world);

  // Returns the host's last work of it, which the threads that run the replicas wait for.
  OpIndex replicate(bool root, int micro_batch);
  // The parameters of a layer, a tied one included, on GPU 0 or on another.
  std::vector<View> weights_of(bool root, int layer) const;
  // Other GPUs: what is not needed below this layer goes.
  void passed_by_backward(int layer);

 private:
  struct Piece {  // a chunk, of parameters or of module buffers
    int number = 0;
    int tensors = 0;
    Dtype dtype = Dtype::fp32;
    Bytes bytes = 0;
    std::vector<View> source;  // on GPU 0
    BufferIndex flat = -1;     // on GPU 0, of several tensors
    BufferIndex replica = -1;  // on the others
    int first_layer = 0;       // that uses it
  };

  void plan_parameters();
  void plan_module_buffers();
  void add_piece(const Chunk& chunk, Dtype dtype, std::vector<View> source, int first_layer);
  void broadcast(const Piece& piece, bool root, int micro_batch);

  ScheduleBuilder& builder_;
  const TrainingStep& step_;
  StreamIndex compute_;
  CommIndex world_;
  TensorParts parameters_;  // on GPU 0
  TensorParts replicas_;    // on the others
  std::vector<Piece> pieces_;
};

}  // namespace stepcast::dp

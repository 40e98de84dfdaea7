#pragma once
// DDP's reducer: what happens between a gradient that becomes ready and the optimizer.
//
//   gradient ready -> copy-in: gradient x 1/W into its bucket's slice, on the compute stream
//   bucket complete and all earlier ones launched -> all-reduce(SUM) on the process group's stream,
//                     which waits for the compute stream's current point
//   backward done  -> for bucket 0, 1, ...: the compute stream waits its all-reduce, then copy-out
//                     (none with gradient_as_bucket_view)
//
// Buckets are launched strictly in index order: a complete bucket waits for earlier ones. The
// exposed tail is what of the last all-reduces backward does not cover, plus the last copy-out.
// Source: PyTorch reducer.cpp (docs/sources.md 1.2). Tested by tests/unit/strategies/ddp_test.cpp
// (E-8) and ddp_buckets_test.cpp.
//
// Gradients live in pieces: a piece is what one layer contributes to one launch, so that memory
// grows during backward as it does in PyTorch.

#include <span>
#include <vector>

#include "sim/schedule/builder.hpp"
#include "sim/strategies/common/layer_walk.hpp"
#include "sim/strategies/ddp/buckets.hpp"

namespace stepcast::ddp {

// One stretch of a layer's backward, cut where a bucket can be launched.
struct Piece {
  int layer = 0;
  int first_kernel = 0;
  int kernel_count = 0;
  std::vector<int> parameters;  // whose gradients become ready in it (indices into the model)
  std::vector<int> launches;    // buckets to launch after it, in order
  Bytes bytes = 0;              // of those gradients
  BufferIndex gradients = -1;   // their tensors
  BufferIndex fresh = -1;       // the newly produced ones while they are added to older ones
};

// Parameters in the order in which backward makes their gradients ready.
std::vector<int> ready_order(const Model& model, const LayerWalk& walk);

class Reducer {
 public:
  struct Streams {
    StreamIndex compute = 0;
    StreamIndex nccl = 0;
    CommIndex world = 0;
  };
  // `label` tells the buckets of two layouts apart in buffer names. Without `persistent` the caller
  // allocates and frees the buckets: the layout of iteration 0 gives way to the rebuilt one.
  Reducer(ScheduleBuilder& builder, const TrainingStep& step, const LayerWalk& walk,
          std::vector<Bucket> buckets, const std::string& label, Streams streams, bool persistent);

  void alloc_buckets();
  void free_buckets();

  std::span<const Piece> pieces_of(int layer) const;
  const std::vector<Bucket>& buckets() const { return buckets_; }

  // The gradient tensors of a piece come to be. `accumulating`: older ones exist already.
  void before_piece(const Piece& piece, bool accumulating, int micro_batch);
  // What backward writes: the gradients, or the fresh ones that are added to the older.
  View produced(const Piece& piece, bool accumulating) const;
  // After the kernels of a piece: accumulate, and where the micro-batch is reduced copy in and
  // launch.
  void after_piece(const Piece& piece, LayerWalk& walk, bool accumulating, bool reduce,
                   int micro_batch);
  // End of a reduced backward: waits and copy-outs.
  void finalize(LayerWalk& walk, int micro_batch);
  // zero_grad(set_to_none) after the optimizer.
  void drop_gradients();

  // What the optimizer reads: gradient tensors, or the buckets that they alias.
  std::vector<View> gradients() const;

 private:
  void plan_pieces(const LayerWalk& walk);
  void launch(int bucket, int micro_batch);
  std::vector<View> slices_of(const Piece& piece) const;

  ScheduleBuilder& builder_;
  const TrainingStep& step_;
  std::vector<Bucket> buckets_;
  std::vector<BufferIndex> bucket_buffers_;
  std::vector<OpIndex> reductions_;  // the all-reduce of each bucket in the current micro-batch
  std::vector<Piece> pieces_;
  std::vector<Range> piece_range_;  // by layer, into pieces_
  // By parameter: its place in its bucket and among the gradient tensors.
  std::vector<int> bucket_of_;
  std::vector<Bytes> slice_offset_;
  std::vector<View> tensor_;
  Streams streams_;
  bool aliased_ = false;  // gradient_as_bucket_view: this step's gradients live in the buckets
};

}  // namespace stepcast::ddp

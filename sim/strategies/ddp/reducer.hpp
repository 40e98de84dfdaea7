#pragma once
// DDP's reducer: what happens between a gradient that becomes ready and the optimizer.
//
//   gradient ready -> copy-in: gradient x 1/W into its bucket's slice, on the compute stream (a
//                     plain copy with a communication hook; batched_grad_copy: one copy a bucket
//                     and one division of it, where the bucket is launched; PyTorch 1.4: plain
//                     copies, and that division)
//   bucket complete and all earlier ones launched -> all-reduce(SUM) on the process group's stream,
//                     which waits for the compute stream's current point (comm_hook.hpp)
//   backward done  -> for bucket 0, 1, ...: the compute stream waits its all-reduce, then copy-out
//                     (none with gradient_as_bucket_view)
//
// Buckets are launched strictly in index order: a complete bucket waits for earlier ones. The
// exposed tail is what of the last all-reduces backward does not cover, plus the last copy-out.
//
// zero_grad set to zero: a kernel zeroes the gradients, each backward adds to them (memory and a
// kernel more), and as views of the buckets they need no copy-in but the division. Where gradients
// are meanwhile: gradient_tensors.hpp. Unused parameters: unused.hpp, used_map.hpp.
//
// Source: PyTorch reducer.cpp (docs/sources.md 1.2). Tested by tests/unit/strategies/ddp_test.cpp
// (E-8), ddp_buckets_test.cpp, ddp_gradients_test.cpp.

#include <memory>
#include <span>
#include <vector>

#include "sim/schedule/builder.hpp"
#include "sim/strategies/common/layer_walk.hpp"
#include "sim/strategies/ddp/buckets.hpp"
#include "sim/strategies/ddp/comm_hook.hpp"
#include "sim/strategies/ddp/gradient_tensors.hpp"
#include "sim/strategies/ddp/join.hpp"
#include "sim/strategies/ddp/pieces.hpp"
#include "sim/strategies/ddp/streams.hpp"
#include "sim/strategies/ddp/used_map.hpp"

namespace stepcast::ddp {

// Parameters in the order in which backward makes their gradients ready.
std::vector<int> ready_order(const Model& model, const LayerWalk& walk);
std::vector<int> ready_order(const TrainingStep& step);

// Whether a micro-batch ends in a reduction (the others run under no_sync).
bool reduces(const TrainingStep& step, int micro_batch);

class Reducer {
 public:
  struct Setup {
    GradientTensors::Setup tensors;
    Streams streams;
    UsedMap* used_map = nullptr;   // find_unused_parameters
    JoinNotice* notice = nullptr;  // join(divide_by_initial_world_size=False)
    CommHook hook = CommHook::none;
    bool steady = true;  // it runs the steady step too
  };

  Reducer(ScheduleBuilder& builder, const TrainingStep& step, const LayerWalk& walk,
          std::vector<Bucket> buckets, Setup setup);

  void alloc_buckets() { tensors_.alloc_buckets(); }
  void free_buckets() { tensors_.free_buckets(); }
  void take_over(Reducer& from) { tensors_.take_over(from.tensors_); }  // the rebuild
  // Before the ops of an iteration. `delayed`: static_graph's first; `steady`: after
  // start_powerSGD_iter.
  void begin_iteration(bool delayed, bool steady);

  std::span<const Piece> pieces_of(int layer) const { return tensors_.pieces().of(layer); }
  const std::vector<Bucket>& buckets() const { return tensors_.buckets(); }

  // zero_grad(set_to_none=False), at the start of a step.
  void zero_gradients(LayerWalk& walk);
  void begin_backward() { divisor_known_ = setup_.notice == nullptr; }
  // The gradient tensors of a piece come to be; added to older ones in later micro-batches.
  void before_piece(const Piece& piece, int micro_batch);
  View produced(const Piece& piece, int micro_batch) const {
    return tensors_.produced(piece, micro_batch);
  }
  // After the kernels of a piece: accumulate, and where the micro-batch is reduced copy in and
  // launch.
  void after_piece(const Piece& piece, LayerWalk& walk, int micro_batch);
  // End of a reduced backward: waits and copy-outs. Not reached where a bucket was never launched.
  void finalize(LayerWalk& walk, int micro_batch);
  // zero_grad(set_to_none) after the optimizer.
  void drop_gradients();

  // What the optimizer reads, and how many elements it updates.
  std::vector<View> gradients() const { return tensors_.all(); }
  std::int64_t updated_elements() const { return tensors_.updated_elements(); }

 private:
  void accumulate(const Piece& piece, LayerWalk& walk);
  void mark_unused(const Piece& piece, LayerWalk& walk);
  void copy_in(std::span<const int> parameters, LayerWalk& walk);
  void copy_in_bucket(std::size_t bucket, LayerWalk& walk);
  void divide_bucket(std::size_t bucket, LayerWalk& walk);
  void await_divisor();
  void launch(int bucket, LayerWalk& walk, int micro_batch);
  void reduce_delayed(LayerWalk& walk, int micro_batch);
  void copy_out(std::size_t bucket, LayerWalk& walk);
  void run(Name verb, Bytes read, Bytes written, int launches, std::span<const View> reads,
           std::span<const View> writes, LayerWalk& walk);

  ScheduleBuilder& builder_;
  const TrainingStep& step_;
  Setup setup_;
  GradientTensors tensors_;
  bool divides_buckets_;             // PyTorch 1.4
  std::vector<OpIndex> reductions_;  // the reduction of each bucket in the current micro-batch
  std::unique_ptr<BucketReduction> early_, steady_;
  BucketReduction* reduction_ = nullptr;  // one of the two
  bool divisor_known_ = true;
  bool delayed_ = false;
  bool map_ = false;  // this iteration reduces the used map
};

}  // namespace stepcast::ddp

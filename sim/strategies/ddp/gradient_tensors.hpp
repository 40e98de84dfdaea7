#pragma once
// Where DDP's gradients are, and when their memory comes and goes.
//
//   place                      holds
//   tensor of a piece          what backward makes of the piece's parameters
//   slice of the bucket        what is reduced; with gradient_as_bucket_view the gradient itself,
//                              from the first reduction until zero_grad drops it
//   fresh tensor of a piece    what backward makes where a gradient is there already: added to it
//                              and freed
//   late tensor of a bucket    gradients of parameters unused here but used by others; made by the
//                              first copy-out
//
// zero_grad: set to None (default), gradients are freed after the optimizer and made anew in
// backward. Set to zero, they stay, and each backward makes fresh ones.
//
// Example: a piece {b, a} of a bucket {c, b, a} without views. Backward allocates its tensor; the
// copy-in reads it and writes the last two slices; the copy-out goes the other way; drop() frees
// the tensor. With views the tensor is freed by the copy-in, and home() says: the slices.
//
// Source: PyTorch reducer.cpp (docs/sources.md 1.2). Tested by tests/unit/strategies/ddp_test.cpp,
// ddp_gradients_test.cpp, ddp_unused_test.cpp.

#include <span>
#include <string>
#include <vector>

#include "sim/schedule/builder.hpp"
#include "sim/strategies/common/layer_walk.hpp"
#include "sim/strategies/ddp/buckets.hpp"
#include "sim/strategies/ddp/pieces.hpp"

namespace stepcast::ddp {

Bytes sum_of(std::span<const View> views);

class GradientTensors {
 public:
  struct Setup {
    std::string label;      // tells the buckets of two layouts or roles apart in buffer names
    StreamIndex pool = -1;  // of all buffers
    // Buckets exist before and after the steps. Otherwise the caller allocates and frees them: the
    // layout of iteration 0 gives way to the rebuilt one.
    bool persistent = true;
    std::vector<bool> unused;    // parameters without gradient on these ranks; empty: none
    bool unused_by_all = false;  // and on no other rank either
  };

  GradientTensors(ScheduleBuilder& builder, const TrainingStep& step, const LayerWalk& walk,
                  std::vector<Bucket> buckets, Setup setup);

  const std::vector<Bucket>& buckets() const { return buckets_; }
  const Pieces& pieces() const { return pieces_; }
  bool is_unused(int parameter) const {
    return !setup_.unused.empty() && setup_.unused[static_cast<std::size_t>(parameter)];
  }
  std::vector<int> used(std::span<const int> parameters) const;
  std::vector<int> used() const;  // in definition order
  // Elements that have a gradient after the reduction.
  std::int64_t updated_elements() const;

  // ---- buckets
  void alloc_buckets();
  void free_buckets();
  BufferIndex bucket_buffer(std::size_t bucket) const { return bucket_buffers_[bucket]; }
  std::vector<View> slices(std::span<const int> parameters) const;

  // ---- where gradients are
  bool kept() const { return kept_; }  // those of an earlier step are there
  bool in_buckets() const { return in_buckets_; }
  bool adds(int micro_batch) const { return micro_batch > 0 || kept_; }
  std::vector<View> home(std::span<const int> parameters) const;
  std::vector<View> all() const;  // what the optimizer reads
  // What backward writes: the gradients, or the fresh ones that are added to the older.
  View produced(const Piece& piece, int micro_batch) const;

  // ---- what happens to them
  void begin(const Piece& piece, int micro_batch);
  // A gradient that has become a view of its bucket needs its own tensor no more.
  void copied_in(std::span<const int> parameters);
  // To where a bucket is copied out: whose gradients, and their tensors, allocated if they are
  // late.
  struct Target {
    std::vector<int> parameters;
    std::vector<View> tensors;
  };
  Target copy_out_of(std::size_t bucket);
  void reduced();        // views are the gradients from now on; late ones are there
  void never_reduced();  // a bucket was not launched; what was copied in stays where it is
  void drop();           // zero_grad after the optimizer
  // The rebuild: gradients that zero_grad keeps move to this layout.
  void take_over(GradientTensors& from);

 private:
  Bytes bytes_of(int parameter) const;
  BufferIndex declare(const std::string& name, Bytes bytes);
  void declare_buckets();
  void declare_pieces();
  void declare_late();
  View slice(int parameter) const;
  std::vector<View> bucket_views() const;

  ScheduleBuilder& builder_;
  const TrainingStep& step_;
  Setup setup_;
  bool views_;  // gradient_as_bucket_view
  std::vector<Bucket> buckets_;
  std::vector<BufferIndex> bucket_buffers_;
  Pieces pieces_;
  // By parameter.
  std::vector<int> bucket_of_;
  std::vector<Bytes> slice_offset_;
  std::vector<View> tensor_;
  std::vector<int> piece_of_;
  std::vector<std::size_t> uncopied_;  // by piece: gradients not yet copied in; 0: no tensor
  std::vector<BufferIndex> late_;      // by bucket
  bool in_buckets_ = false;
  bool kept_ = false;
  bool late_kept_ = false;
};

}  // namespace stepcast::ddp

#pragma once
// Stages 1 and 2: the way of a gradient from backward into this rank's partition.
//
// Gradients live in pieces, as DDP's do: a piece is the part of a layer's backward up to a gradient
// that flushes the bucket. See stage12.hpp for the rules.
//
// Without zero_grad_set_to_none stage 1 keeps whole gradients from step to step, as nanotron's
// fp32 accumulation does: every micro-batch's, the first one's too, are added to them, and behind
// the optimizer they are zeroed.

#include <span>
#include <vector>

#include "sim/schedule/builder.hpp"
#include "sim/strategies/common/layer_walk.hpp"
#include "sim/strategies/zero/ipg_bucket.hpp"

namespace stepcast::zero {

struct Piece {
  int first_kernel = 0;
  int kernel_count = 0;
  std::vector<int> parameters;  // whose gradients become ready in it, in order
  BufferIndex gradients = -1;
  BufferIndex fresh = -1;  // stage 1: the newly produced ones while they are added to the older
  Bytes bytes = 0;
};

class GradientFlow {
 public:
  struct Streams {
    StreamIndex compute = 0;
    StreamIndex reduction = 0;  // = compute without overlap_comm
    CommIndex world = 0;
  };
  GradientFlow(ScheduleBuilder& builder, const TrainingStep& step, LayerWalk& walk, Streams streams,
               BufferIndex partition, BufferIndex fresh_partition, std::int64_t per_rank);

  void begin_backward(int micro_batch);
  void backward(int layer, int micro_batch, std::span<const View> weights);
  void end_backward(int micro_batch);

  void drop_gradients();
  View partition() const { return builder_.whole(partition_); }

 private:
  void plan_pieces();
  void declare_buffers();
  void accumulate(const Piece& piece, int layer, int micro_batch);
  void add_to_bucket(std::span<const int> parameters);
  void copy_into_bucket(std::span<const int> parameters);
  void flush();
  void average_all(std::span<const View> input, Bytes bytes);
  void average_in_place(std::span<const View> input, Bytes bytes);
  void reduce_to_owners(const Flush& flush, std::span<const View> input);
  void keep_owned(std::span<const View> input, Bytes bytes);
  std::vector<View> bucket_views(const Flush& flush) const;
  OpIndex run(Name verb, StreamIndex stream, Bytes read, Bytes written, std::span<const View> reads,
              std::span<const View> writes, int launches = 1);

  bool overlaps() const { return streams_.reduction != streams_.compute; }
  bool copied(int parameter) const;
  Bytes bytes_of(int parameter) const;

  ScheduleBuilder& builder_;
  const TrainingStep& step_;
  LayerWalk& walk_;
  Streams streams_;
  BufferIndex partition_;        // this rank's gradients, reduced
  BufferIndex fresh_partition_;  // those of a later micro-batch, before they are added
  std::int64_t per_rank_;
  bool after_backward_;  // stage 1 without overlap_comm
  bool persists_;        // stage 1 without zero_grad_set_to_none: gradients are zeroed, not freed

  std::vector<std::int64_t> numels_;
  std::vector<std::int64_t> flat_offset_;  // by parameter, in elements
  std::vector<Flush> flushes_;
  std::vector<std::vector<Piece>> pieces_;  // by layer
  std::vector<View> tensor_;                // by parameter: its gradient outside the bucket
  std::vector<Bytes> slice_;                // by parameter: its place in the bucket
  std::vector<BufferIndex> buckets_;
  BufferIndex flat_copy_ = -1;
  std::vector<BufferIndex> unflushed_;  // pieces that a coming flush reads where they are

  bool reduce_ = false;         // this micro-batch reduces while backward runs
  bool keep_ = false;           // this micro-batch's gradients are kept unreduced (stage 1)
  bool has_partition_ = false;  // an earlier micro-batch was reduced in this step
  bool has_gradients_ = false;  // stage 1: unreduced gradients of an earlier micro-batch exist
  std::size_t next_flush_ = 0;
  std::size_t turn_ = 0;  // which bucket is filled
  Bytes partition_filled_ = 0;
  OpIndex reduction_tail_ = -1;
};

}  // namespace stepcast::zero

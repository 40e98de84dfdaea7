#pragma once
// Stage 3's gathers as ops: all-gather, copy together, wait, and the limit of two outstanding
// fetch events. See stage3.hpp.

#include <deque>
#include <span>
#include <vector>

#include "sim/schedule/builder.hpp"
#include "sim/strategies/common/layer_walk.hpp"
#include "sim/strategies/common/view_list.hpp"

namespace stepcast::zero {

// What lies in a buffer of stage 3's partitions: a rank's chunks of these parameters, or of all
// ranks one after the other.
void chunk_layout(ScheduleBuilder& builder, const TrainingStep& step, BufferIndex buffer, Cut cut,
                  std::span<const int> parameters);

class Fetcher {
 public:
  struct Streams {
    StreamIndex compute = 0;
    StreamIndex all_gather = 0;  // = compute without overlap_comm
    CommIndex world = 0;
  };
  Fetcher(ScheduleBuilder& builder, const TrainingStep& step, LayerWalk& walk, Streams streams,
          BufferIndex shards);

  void begin_step();  // the optimizer has run: the gather stream waits for it
  // One coalesced all-gather.
  void gather(std::span<const int> parameters);
  // Before a module runs: its parameters' gathers are waited for.
  void wait(std::span<const int> parameters);
  void release(std::span<const int> parameters);
  View view_of(int parameter) const;

 private:
  struct Parameter {
    BufferIndex full = -1;   // the gathered parameter
    BufferIndex flat = -1;   // the flat tensor of the call that gathers it
    OpIndex gather_op = -1;  // in flight when >= 0
    Bytes bytes = 0;         // with padding
    Bytes shard_offset = 0;  // in this rank's shards
    Bytes shard_bytes = 0;
  };
  struct Call {
    BufferIndex flat = -1;
    int waiting = 0;  // parameters that have not been copied out of it yet
  };

  ScheduleBuilder& builder_;
  const TrainingStep& step_;
  LayerWalk& walk_;
  Streams streams_;
  BufferIndex shards_;
  std::vector<Parameter> parameters_;
  std::vector<Call> calls_;
  std::vector<BufferIndex> flats_by_size_;  // reused declarations of flat tensors
  std::deque<OpIndex> events_;
};

}  // namespace stepcast::zero

#pragma once
// Stage 3's gathers as ops: all-gather, copy together, wait, and the limit of two outstanding
// fetch events. See stage3.hpp.
//
// ZeRO++ hpZ (zero_hpz_partition_size = g): the first gather of a parameter in a step is global.
// When the parameter is first released, this rank keeps a secondary 16-bit shard of numel / g of
// it, and the host waits for the stream after that copy, parameter by parameter; later gathers of
// the step (backward, further micro-batches) are among the g ranks of the group alone. The
// optimizer step drops the shards: they are stale. Memory: 2Ψ/g bytes. 7e9 parameters, g = 8: 1.75
// GB.
//
// Source: DeepSpeed partition_parameters.py (docs/sources.md 1.6, 1.7). Tested by
// tests/unit/strategies/zero3_test.cpp, zero3_knobs_test.cpp.

#include <deque>
#include <span>
#include <vector>

#include "sim/schedule/builder.hpp"
#include "sim/strategies/common/layer_walk.hpp"
#include "sim/strategies/common/view_list.hpp"

namespace stepcast::zero {

// What gathers are fed from: the shards among all ranks, or hpZ's within a group.
enum class Source : std::uint8_t { shards, secondary_shards };

// What lies in a buffer of stage 3's partitions: a rank's chunks of these parameters, or of all
// ranks one after the other.
void chunk_layout(ScheduleBuilder& builder, const TrainingStep& step, BufferIndex buffer, Cut cut,
                  std::span<const int> parameters, Source source = Source::shards);

class Fetcher {
 public:
  struct Streams {
    StreamIndex compute = 0;
    StreamIndex all_gather = 0;  // = compute without overlap_comm
    CommIndex world = 0;
    CommIndex secondary = -1;  // hpZ
  };
  Fetcher(ScheduleBuilder& builder, const TrainingStep& step, LayerWalk& walk, Streams streams,
          BufferIndex shards);

  void begin_step();  // the optimizer has run: the gather stream waits for it
  // One coalesced all-gather.
  void gather(std::span<const int> parameters);
  // Before a module runs: its parameters' gathers are waited for.
  void wait(std::span<const int> parameters);
  void release(std::span<const int> parameters);
  // The optimizer has changed the parameters.
  void drop_secondaries();
  View view_of(int parameter) const;

 private:
  void gather_from(Source source, std::span<const int> parameters);
  void keep_secondary(int parameter);

  struct Parameter {
    BufferIndex full = -1;   // the gathered parameter
    BufferIndex flat = -1;   // the flat tensor of the call that gathers it
    OpIndex gather_op = -1;  // in flight when >= 0
    Bytes bytes = 0;         // with padding
    Bytes shard_offset = 0;  // in this rank's shards
    Bytes shard_bytes = 0;
    BufferIndex secondary = -1;  // hpZ's shard
    bool has_secondary = false;
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
  std::deque<OpIndex> events_;
};

}  // namespace stepcast::zero

#pragma once
// The scales of fp8 casts across ranks: which numbers are exchanged, and when.
//
//   te_delayed          Largest values of inputs and weights (forward) and of gradients (backward)
//                       go into a history of 16 steps, of which the next scale is made. All ranks
//                       must use one scale, so they are all-reduced by maximum, forward's and
//                       backward's once each a micro-batch, over all ranks (fp8_group: none given).
//                       3 numbers a weight: latency, no bytes. LayerWalk issues both behind the
//                       backward of the first layer.
//   torchao_tensorwise  Inputs and gradients are scaled by the rank's own largest value: nothing is
//                       exchanged. Weights are, too, where they are gathered in 16 bit: every rank
//                       sees the whole weight. Under fp8 all-gather a rank sees a shard: the
//                       largest value of each weight is all-reduced before it is cast, one
//                       all-reduce of one number a weight and gather (fsdp2/gather.cpp), or, with
//                       fp8_precompute_scale, all of them in one, after the optimizer.
//
// Example, llama-3-8b: 7 weights a block, 224 in all. te_delayed: 448 and 224 numbers a
// micro-batch. Sources: docs/sources.md, "fp8". Tested by tests/unit/strategies/fp8_test.cpp.

#include "sim/schedule/builder.hpp"
#include "sim/strategies/strategy.hpp"

namespace stepcast {

// Weights whose products run in fp8, of some layers or of all.
int fp8_weights(const Model& model, const WrapUnit& unit);
int fp8_weights(const Model& model);

// te_delayed: what the ranks exchange in a micro-batch, and the scales made of it. `history` is
// fp8_history_bytes() long. Returns the last op.
Bytes fp8_history_bytes(const Model& model);
OpIndex reduce_delayed_scales(ScheduleBuilder& builder, const Model& model, StreamIndex compute,
                              CommIndex comm, BufferIndex history);

// fp8_precompute_scale: the largest value of every weight, over the shards that this rank holds.
OpIndex precompute_scales(ScheduleBuilder& builder, const TrainingStep& step, StreamIndex compute,
                          CommIndex comm, std::span<const View> shards);

}  // namespace stepcast

#pragma once
// Schedules that several tests share.

#include <array>

#include "sim/schedule/builder.hpp"

namespace stepcast {

// Two units, gathered, computed and reduced, with a limiter that looks into the step before: every
// kind of op and every key of the text form occurs.
inline Schedule everything() {
  ScheduleBuilder b("every kind of op", Mesh{2, 4});
  const LaneIndex main = b.lane("main", "gil");
  const LaneIndex autograd = b.lane("autograd", "gil");
  const StreamIndex compute = b.stream("compute");
  const StreamIndex gather = b.stream("all_gather", -1);
  const CommIndex shard = b.communicator("shard", Axis::shard);
  const CommIndex world = b.communicator("world", Axis::world);
  const BufferIndex input = b.persistent("input", BufferKind::input, Dtype::int64, 64 * kib);
  const BufferIndex parameters =
      b.persistent("parameters", BufferKind::parameter, Dtype::fp32, 2 * mib);
  const BufferIndex first = b.view_of("parameters.0", parameters, 0, mib);
  const BufferIndex full0 = b.buffer("full", BufferKind::unsharded, Dtype::bf16, 2 * mib, gather);
  const BufferIndex full1 = b.buffer("full", BufferKind::unsharded, Dtype::bf16, 1001, compute);
  const BufferIndex loss = b.persistent("loss", BufferKind::other, Dtype::fp32, 4);
  b.note("rows are padded to the \"world\" size\nsee the layout");
  const std::array<Kernel, 2> block = {gemm("qkv proj", Dtype::bf16, 128, 96, 64),
                                       attention("sdpa", KernelKind::attention_forward, Dtype::bf16,
                                                 1, 8, 2, 128, 128, 64, true, false)};
  const std::array<Kernel, 1> norm = {memory_bound("norm", Dtype::bf16, 4096, 4096, 3)};
  const Range block_kernels = b.kernels(block);
  const Range again = b.kernels(block);  // the same list at another place of the arena
  const Range norm_kernels = b.kernels(norm);

  b.role("even", 0, 4, 2);
  for (int role = 0; role < 2; ++role) {
    if (role == 1) b.role("odd", 1, 4, 2);
    for (const char* step : {"first", "steady"}) {
      b.step(step);
      b.on_lane(main);
      b.at(Phase::load);
      const std::array<View, 1> whole_input = {b.whole(input)};
      b.storage("read", 64 * kib, {}, whole_input);
      b.copy("copy_in", CopyKind::host_to_device, compute, 64 * kib, whole_input, whole_input);
      for (int micro = 0; micro < 2; ++micro) {
        b.at(Phase::forward, b.unit("layers.0"), micro);
        b.rule("fsdp2.two-gathers-alive");
        b.host_work("fsdp_pre_forward", 1);
        b.alloc(full0);
        const std::array<View, 1> shard0 = {b.whole(first)};
        const std::array<View, 1> gathered = {b.whole(full0)};
        const OpIndex ag = b.collective("all_gather", CollectiveKind::all_gather, shard, gather,
                                        Dtype::bf16, mib, Reduction::none, shard0, gathered);
        b.stream_wait(compute, ag);
        const std::array<View, 2> used = {View{full0, 0, mib}, View{full0, mib, 1024}};
        const OpIndex done =
            b.compute("compute", compute, micro == 0 ? block_kernels : again, used, {});
        const std::array<OpRef, 2> waits = {OpRef{done, 0}, OpRef{ag, 1}};
        b.host_wait(waits);
        const std::array<StreamIndex, 2> streams = {gather, compute};
        b.free_after_streams(full0, streams);
      }
      b.at(Phase::backward, b.unit("layers.1"));
      b.on_lane(autograd);
      b.alloc(full1);
      const std::array<View, 1> scratch = {b.whole(full1)};
      const OpIndex backward = b.compute("compute", compute, norm_kernels, {}, scratch);
      b.free_after(full1, OpRef{backward, 0});
      b.on_lane(main);
      b.at(Phase::optimizer);
      const std::array<View, 1> value = {b.whole(loss)};
      b.collective("sync", CollectiveKind::all_reduce, world, compute, Dtype::fp32, 1,
                   Reduction::avg, value, value);
      b.collective("tell", CollectiveKind::broadcast, world, compute, Dtype::fp32, 1,
                   Reduction::none, value, value, 0);
      b.host_wait_stream(compute);
      b.host_wait_device();
      b.host_work("zero_grad", 3);
    }
  }
  return b.take();
}

}  // namespace stepcast

#include "sim/strategies/ddp/comm_hook.hpp"

#include "sim/strategies/common/view_list.hpp"
#include "sim/strategies/ddp/powersgd.hpp"

namespace stepcast::ddp {
namespace {

const Name verb_all_reduce("all_reduce");
const Name verb_divide("divide");
const Name verb_compress("compress");
const Name verb_decompress("decompress");
const Name rule_order("ddp.buckets-in-index-order");
const Name rule_hook("ddp.hook-averages");
const Name cost_hook("ddp_comm_hook");

class PlainReduction : public BucketReduction {
 public:
  PlainReduction(const HookPlace& place, const std::vector<Bucket>& buckets, bool hook)
      : place_(place), buckets_(buckets), hook_(hook) {}

  OpIndex launch(int index, BufferIndex buffer, LayerWalk& walk) override {
    ScheduleBuilder& builder = place_.builder;
    const Dtype dtype = place_.step.precision.reduce;
    const Bytes bytes = buckets_[static_cast<std::size_t>(index)].bytes;
    const View view = builder.whole(buffer);
    if (hook_) {
      builder.host_work(cost_hook, 1);
      builder.rule(rule_hook);
      walk.ran_on_compute(builder.one_kernel(verb_divide, place_.streams.compute,
                                             memory_bound(verb_divide, dtype, bytes, bytes),
                                             ViewList(view), ViewList(view)));
    }
    builder.rule(rule_order);
    builder.stream_wait(place_.streams.nccl, walk.last_compute());
    return builder.collective(verb_all_reduce, CollectiveKind::all_reduce, place_.streams.world,
                              place_.streams.nccl, dtype, bytes / bytes_per_element(dtype),
                              Reduction::sum, ViewList(view), ViewList(view));
  }

 private:
  HookPlace place_;
  const std::vector<Bucket>& buckets_;
  bool hook_;
};

class CompressedReduction : public BucketReduction {
 public:
  CompressedReduction(const HookPlace& place, const std::vector<Bucket>& buckets, Dtype dtype)
      : place_(place), buckets_(buckets), dtype_(dtype) {
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      compressed_.push_back(place_.builder.buffer(
          "compressed." + place_.label + std::to_string(b), BufferKind::other, dtype,
          elements(b) * bytes_per_element(dtype), place_.streams.compute));
    }
  }

  OpIndex launch(int index, BufferIndex buffer, LayerWalk& walk) override {
    ScheduleBuilder& builder = place_.builder;
    const Streams& streams = place_.streams;
    const auto b = static_cast<std::size_t>(index);
    const View full = builder.whole(buffer);
    const View half = builder.whole(compressed_[b]);
    builder.host_work(cost_hook, 1);
    builder.rule(rule_hook);
    builder.alloc(compressed_[b]);
    const std::vector<Kernel> cast_and_divide{
        memory_bound(verb_compress, dtype_, full.bytes, half.bytes),
        memory_bound(verb_divide, dtype_, half.bytes, half.bytes)};
    walk.ran_on_compute(builder.compute(verb_compress, streams.compute,
                                        builder.kernels(cast_and_divide), ViewList(full),
                                        ViewList(half)));
    builder.rule(rule_order);
    builder.stream_wait(streams.nccl, walk.last_compute());
    const OpIndex reduced =
        builder.collective(verb_all_reduce, CollectiveKind::all_reduce, streams.world, streams.nccl,
                           dtype_, elements(b), Reduction::sum, ViewList(half), ViewList(half));
    builder.rule(rule_hook);
    builder.stream_wait(streams.hook, reduced);
    const OpIndex back =
        builder.one_kernel(verb_decompress, streams.hook,
                           memory_bound(verb_decompress, dtype_, half.bytes, full.bytes),
                           ViewList(half), ViewList(full));
    const StreamIndex users[] = {streams.nccl, streams.hook};
    builder.free_after_streams(compressed_[b], users);
    return back;
  }

 private:
  std::int64_t elements(std::size_t b) const {
    return buckets_[b].bytes / bytes_per_element(place_.step.precision.reduce);
  }

  HookPlace place_;
  const std::vector<Bucket>& buckets_;
  Dtype dtype_;
  std::vector<BufferIndex> compressed_;
};

}  // namespace

CommHook hook_of_iteration(CommHook hook, bool steady) {
  return hook == CommHook::power_sgd && !steady ? CommHook::allreduce : hook;
}

bool has_callbacks(CommHook hook) { return hook != CommHook::none && hook != CommHook::allreduce; }

std::unique_ptr<BucketReduction> make_reduction(CommHook hook, const HookPlace& place,
                                                const std::vector<Bucket>& buckets) {
  switch (hook) {
    case CommHook::none: return std::make_unique<PlainReduction>(place, buckets, false);
    case CommHook::allreduce: return std::make_unique<PlainReduction>(place, buckets, true);
    case CommHook::fp16_compress:
      return std::make_unique<CompressedReduction>(place, buckets, Dtype::fp16);
    case CommHook::bf16_compress:
      return std::make_unique<CompressedReduction>(place, buckets, Dtype::bf16);
    case CommHook::power_sgd: return make_powersgd(place, buckets);
  }
  STEPCAST_ASSERT(false, "an unknown communication hook");
}

}  // namespace stepcast::ddp

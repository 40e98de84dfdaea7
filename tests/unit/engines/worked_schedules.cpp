#include "tests/unit/engines/worked_schedules.hpp"

#include <algorithm>

#include "sim/schedule/builder.hpp"

namespace stepcast::testing {

Schedule ddp(int layers, const std::vector<std::vector<int>>& buckets) {
  ScheduleBuilder b("ddp", Mesh{8, 1});
  b.lane("main");
  const StreamIndex compute = b.stream("compute");
  const StreamIndex nccl = b.stream("nccl");
  const CommIndex world = b.communicator("world", Axis::world);
  b.role("all", 0, 8);
  b.step("steady");
  const auto layer = [](int i) { return "l" + std::to_string(i); };
  for (int i = 0; i < layers; ++i) {
    b.at(Phase::forward, b.unit(layer(i)));
    b.compute("forward", compute, {}, {}, {});
  }
  std::vector<OpIndex> reduced;
  std::size_t next = 0;  // buckets are launched strictly in order
  for (int i = layers - 1; i >= 0; --i) {
    b.at(Phase::backward, b.unit(layer(i)));
    const OpIndex ready = b.compute("backward", compute, {}, {}, {});
    while (next < buckets.size() &&
           *std::min_element(buckets[next].begin(), buckets[next].end()) >= i) {
      b.at(Phase::backward, b.unit("b" + std::to_string(next)));
      b.stream_wait(nccl, ready);
      const auto elements = static_cast<std::int64_t>(buckets[next].size()) * 10 * mib / 4;
      reduced.push_back(b.collective("all_reduce", CollectiveKind::all_reduce, world, nccl,
                                     Dtype::fp32, elements, Reduction::sum, {}, {}));
      ++next;
    }
  }
  for (const OpIndex done : reduced) b.stream_wait(compute, done);
  return b.take();
}

namespace {

// The hooks of FSDP2, named as in PyTorch; each appends what the host issues there.
class Fsdp2 {
 public:
  explicit Fsdp2(const Fsdp2Options& options)
      : options_(options), b_("fsdp2", options.all_reduce ? Mesh{2, 8} : Mesh{1, 8}) {
    b_.lane("main");
    compute_ = b_.stream("compute");
    copy_in_ = b_.stream("all_gather_copy_in", -1);
    gather_ = b_.stream("all_gather", -1);
    reduce_ = b_.stream("reduce_scatter", -1);
    all_reduce_ = b_.stream("all_reduce");
    shard_ = b_.communicator("shard", Axis::shard);
    scatter_ =
        options.separate_reduce_scatter ? b_.communicator("reduce_scatter", Axis::shard) : shard_;
    replicate_ = b_.communicator("replicate", Axis::replicate);
    b_.role("all", 0, options.all_reduce ? 16 : 8);
    b_.step("steady");
  }

  Schedule step() {
    at(Phase::forward, "root");
    unshard();
    wait_for_unshard();
    b_.compute("embedding", compute_, {}, {}, {});
    for (int i = 0; i < options_.units; ++i) {
      at(Phase::forward, unit(i));
      unshard();
      wait_for_unshard();
      b_.compute("compute", compute_, {}, {}, {});
    }
    at(Phase::forward, "root");
    b_.compute("head", compute_, {}, {}, {});
    release_gather();

    at(Phase::backward, unit(options_.units - 1));
    unshard();  // by the root's output hook
    at(Phase::backward, "root");
    b_.compute("head", compute_, {}, {}, {});
    for (int i = options_.units - 1; i >= 0; --i) {
      at(Phase::backward, unit(i));
      wait_for_unshard();
      release_gather();
      if (i > 0) {
        at(Phase::backward, unit(i - 1));
        unshard();  // implicit prefetch
        at(Phase::backward, unit(i));
      }
      b_.compute("compute", compute_, {}, {}, {});
      post_backward();
    }
    at(Phase::backward, "root");
    b_.compute("embedding", compute_, {}, {}, {});
    post_backward();
    for (const OpIndex done : reduced_) b_.stream_wait(compute_, done);
    return b_.take();
  }

 private:
  static std::string unit(int i) { return "u" + std::to_string(i); }
  void at(Phase phase, const std::string& name) { b_.at(phase, b_.unit(name)); }

  void unshard() {
    const OpIndex cast = b_.compute("copy_in", copy_in_, {}, {}, {});
    b_.stream_wait(gather_, cast);
    gathered_ = b_.collective("all_gather", CollectiveKind::all_gather, shard_, gather_,
                              Dtype::bf16, 1024, Reduction::none, {}, {});
  }

  // In forward the gather of the group before is released here; its copy-out is long issued.
  void wait_for_unshard() {
    if (held_ >= 0) release_gather();
    b_.stream_wait(compute_, gathered_);
    held_ = b_.compute("copy_out", compute_, {}, {}, {});
  }

  void release_gather() {
    b_.stream_wait(copy_in_, held_);
    b_.stream_wait(gather_, held_);
    held_ = -1;
  }

  void post_backward() {
    if (scattered_ >= 0) b_.stream_wait(compute_, scattered_);
    const OpIndex copied = b_.compute("reduce_copy_in", compute_, {}, {}, {});
    b_.stream_wait(reduce_, copied);
    scattered_ = b_.collective("reduce_scatter", CollectiveKind::reduce_scatter, scatter_, reduce_,
                               Dtype::fp32, 1024, Reduction::avg, {}, {});
    reduced_.push_back(scattered_);
    if (!options_.all_reduce) return;
    b_.stream_wait(all_reduce_, scattered_);
    reduced_.back() = b_.collective("all_reduce", CollectiveKind::all_reduce, replicate_,
                                    all_reduce_, Dtype::fp32, 128, Reduction::avg, {}, {});
  }

  Fsdp2Options options_;
  ScheduleBuilder b_;
  StreamIndex compute_ = -1, copy_in_ = -1, gather_ = -1, reduce_ = -1, all_reduce_ = -1;
  CommIndex shard_ = -1, scatter_ = -1, replicate_ = -1;
  OpIndex gathered_ = -1;   // all-gather of the group that is unsharded next
  OpIndex held_ = -1;       // copy-out of the group whose gather output is alive; -1: none
  OpIndex scattered_ = -1;  // reduce-scatter of the group before
  std::vector<OpIndex> reduced_;
};

}  // namespace

Schedule fsdp2(const Fsdp2Options& options) { return Fsdp2(options).step(); }

}  // namespace stepcast::testing

#include "sim/strategies/ddp/powersgd.hpp"

#include <algorithm>

#include "sim/strategies/common/view_list.hpp"

namespace stepcast::ddp {
namespace {

const Name verb_prepare("powersgd_prepare");
const Name verb_plain("all_reduce");
const Name verb_p("all_reduce_p");
const Name verb_q("all_reduce_q");
const Name verb_unpack("powersgd_unpack");
const Name verb_next_q("powersgd_q");
const Name verb_decompress("powersgd_decompress");
const Name verb_error("powersgd_error");
const Name kernel_add("error_feedback");
const Name kernel_clone("clone");
const Name kernel_cat("cat");
const Name kernel_orthogonalize("orthogonalize");
const Name kernel_matmul("matmul");
const Name kernel_divide("divide");
const Name rule_powersgd("ddp.powersgd");
const Name rule_sync("ddp.powersgd-synchronizes-the-device");
const Name cost_hook("ddp_comm_hook");

constexpr int kernels_a_column = 5;  // norm, divide, product, scale, subtract

// What one bucket does; the same in every micro-batch.
struct Plan {
  std::int64_t plain = 0;  // elements that are not compressed
  std::int64_t p = 0, q = 0;
  Range prepare, unpack, next_q, decompress, error;
  BufferIndex clone = -1, uncompressed = -1, new_error = -1;  // come and go
  BufferIndex last_error = -1, p_buffer = -1, q_buffer = -1;  // persistent
};

class PowerSgd : public BucketReduction {
 public:
  PowerSgd(const HookPlace& place, const std::vector<Bucket>& buckets) : place_(place) {
    for (std::size_t b = 0; b < buckets.size(); ++b) plans_.push_back(plan(buckets[b], b));
  }

  OpIndex launch(int index, BufferIndex buffer, LayerWalk& walk) override {
    ScheduleBuilder& builder = place_.builder;
    const Streams& streams = place_.streams;
    const Plan& plan = plans_[static_cast<std::size_t>(index)];
    const View bucket = builder.whole(buffer);
    const View error = builder.whole(plan.last_error);
    const View clone = builder.whole(plan.clone);
    const View p = whole_or_none(plan.p_buffer);
    const View q = whole_or_none(plan.q_buffer);
    const View plain = whole_or_none(plan.uncompressed);
    const StreamIndex on_hook[] = {streams.hook};
    const StreamIndex on_both[] = {streams.nccl, streams.hook};

    builder.host_work(cost_hook, 1);
    builder.rule(rule_powersgd);
    builder.alloc(plan.clone);
    if (plan.plain > 0) builder.alloc(plan.uncompressed);
    walk.ran_on_compute(builder.compute(verb_prepare, streams.compute, plan.prepare,
                                        ViewList(bucket).add(error).add(q),
                                        ViewList(bucket).add(clone).add(plain).add(p).add(q)));
    OpIndex ready = walk.last_compute();
    if (plan.plain > 0) {
      all_reduce(verb_plain, plan.plain, plain, ready);
      ready = builder.compute(verb_unpack, streams.hook, plan.unpack, ViewList(plain),
                              ViewList(bucket));
      builder.free_after_streams(plan.uncompressed, on_both);
    }
    if (plan.p > 0) {
      all_reduce(verb_p, plan.p, p, ready);
      const OpIndex next = builder.compute(verb_next_q, streams.hook, plan.next_q,
                                           ViewList(p).add(bucket), ViewList(p).add(q));
      all_reduce(verb_q, plan.q, q, next);
      builder.compute(verb_decompress, streams.hook, plan.decompress, ViewList(p).add(q),
                      ViewList(q).add(bucket));
    }
    builder.rule(rule_sync);
    builder.host_wait_device();
    builder.rule(rule_powersgd);
    // The new tensor takes the old error's place.
    builder.alloc(plan.new_error);
    const OpIndex done =
        builder.compute(verb_error, streams.hook, plan.error, ViewList(clone).add(bucket),
                        ViewList(error).add(builder.whole(plan.new_error)));
    builder.free(plan.new_error);
    builder.free_after_streams(plan.clone, on_hook);
    return done;
  }

 private:
  // The hook's stream waits for it.
  void all_reduce(Name verb, std::int64_t elements, View view, OpIndex ready) {
    ScheduleBuilder& builder = place_.builder;
    builder.stream_wait(place_.streams.nccl, ready);
    const OpIndex reduced = builder.collective(
        verb, CollectiveKind::all_reduce, place_.streams.world, place_.streams.nccl,
        place_.step.precision.reduce, elements, Reduction::sum, ViewList(view), ViewList(view));
    builder.stream_wait(place_.streams.hook, reduced);
  }

  View whole_or_none(BufferIndex buffer) const {
    return buffer < 0 ? View{} : place_.builder.whole(buffer);
  }

  Plan plan(const Bucket& bucket, std::size_t index) {
    ScheduleBuilder& builder = place_.builder;
    const Dtype dtype = place_.step.precision.reduce;
    const Bytes size = bytes_per_element(dtype);
    const StrategyOptions& options = place_.step.strategy;
    std::vector<Kernel> prepare, unpack, next_q, decompress;
    std::vector<Kernel> orthogonalize_q, p_of;
    const Bytes n = bucket.bytes;
    prepare.push_back(memory_bound(kernel_add, dtype, 2 * n, n));
    prepare.push_back(memory_bound(kernel_clone, dtype, n, n));
    Plan plan;
    int plain_tensors = 0;
    const auto orthogonalize = [&](std::int64_t length, std::int64_t rank) {
      // Column i is normalised and taken out of the rank - i after it.
      const Bytes moved = length * rank * (rank + 1) / 2 * size;
      return memory_bound(kernel_orthogonalize, dtype, 2 * moved, moved,
                          static_cast<int>(rank) * kernels_a_column);
    };
    for (const int index_of_parameter : bucket.tensors) {
      const Parameter& parameter =
          place_.step.model.parameters[static_cast<std::size_t>(index_of_parameter)];
      const Factors f =
          factors_of(parameter, options.powersgd_rank, options.powersgd_min_compression_rate);
      if (f.rank == 0) {
        plan.plain += parameter.elements();
        ++plain_tensors;
        continue;
      }
      plan.p += f.rows * f.rank;
      plan.q += f.columns * f.rank;
      orthogonalize_q.push_back(orthogonalize(f.columns, f.rank));
      p_of.push_back(gemm(kernel_matmul, dtype, f.rows, f.rank, f.columns));
      next_q.push_back(orthogonalize(f.rows, f.rank));
      next_q.push_back(gemm(kernel_matmul, dtype, f.columns, f.rank, f.rows));
      decompress.push_back(gemm(kernel_matmul, dtype, f.rows, f.columns, f.rank));
    }
    const std::string suffix = place_.label + std::to_string(index);
    const auto temporary = [&](const char* name, Bytes bytes, StreamIndex pool) {
      return builder.buffer(name + suffix, BufferKind::other, dtype, bytes, pool);
    };
    const auto kept = [&](const char* name, Bytes bytes) {
      return builder.persistent(name + suffix, BufferKind::other, dtype, bytes);
    };
    plan.clone = temporary("powersgd_clone.", n, place_.streams.compute);
    plan.new_error = temporary("powersgd_new_error.", n, place_.streams.hook);
    plan.last_error = kept("powersgd_error.", n);
    if (plan.plain > 0) {
      const Bytes bytes = plan.plain * size;
      plan.uncompressed = temporary("powersgd_uncompressed.", bytes, place_.streams.compute);
      prepare.push_back(memory_bound(kernel_cat, dtype, bytes, bytes));
      unpack.push_back(memory_bound(kernel_divide, dtype, bytes, bytes));
      unpack.push_back(memory_bound(kernel_clone, dtype, bytes, bytes, plain_tensors));
    }
    if (plan.p > 0) {
      plan.p_buffer = kept("powersgd_p.", plan.p * size);
      plan.q_buffer = kept("powersgd_q.", plan.q * size);
      decompress.insert(decompress.begin(),
                        memory_bound(kernel_divide, dtype, plan.q * size, plan.q * size));
    }
    prepare.insert(prepare.end(), orthogonalize_q.begin(), orthogonalize_q.end());
    prepare.insert(prepare.end(), p_of.begin(), p_of.end());
    const Kernel error = memory_bound(verb_error, dtype, 2 * n, n);
    plan.prepare = builder.kernels(prepare);
    plan.unpack = builder.kernels(unpack);
    plan.next_q = builder.kernels(next_q);
    plan.decompress = builder.kernels(decompress);
    plan.error = builder.kernels(std::span<const Kernel>(&error, 1));
    return plan;
  }

  HookPlace place_;
  std::vector<Plan> plans_;  // by bucket
};

}  // namespace

Factors factors_of(const Parameter& parameter, int rank, double min_compression_rate) {
  Factors f;
  f.rows = parameter.shape.empty() ? 1 : parameter.shape.front();
  f.columns = f.rows == 0 ? 0 : parameter.elements() / f.rows;
  const double factored = static_cast<double>(f.rows + f.columns) * rank * min_compression_rate;
  if (factored < static_cast<double>(f.rows) * static_cast<double>(f.columns)) {
    f.rank = std::min<std::int64_t>({rank, f.rows, f.columns});
  }
  return f;
}

std::unique_ptr<BucketReduction> make_powersgd(const HookPlace& place,
                                               const std::vector<Bucket>& buckets) {
  return std::make_unique<PowerSgd>(place, buckets);
}

}  // namespace stepcast::ddp

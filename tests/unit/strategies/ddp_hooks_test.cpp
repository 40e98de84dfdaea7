// Communication hooks: what is reduced, and what it costs on the device.

#include <doctest/doctest.h>

#include "sim/strategies/ddp/powersgd.hpp"
#include "tests/unit/strategies/ddp_grid.hpp"
#include "tests/unit/strategies/four_layers.hpp"
#include "tests/unit/strategies/schedule_golden.hpp"
#include "tests/unit/strategies/worked.hpp"

namespace stepcast {
namespace {

using testing::bytes_of_each;
using testing::count_of;
using testing::four_layer_cost;
using testing::ops_of;

TrainingStep four_layers(CommHook hook) {
  TrainingStep step = testing::four_layers(StrategyKind::ddp);
  step.strategy.comm_hook = hook;
  return step;
}

Parameter tensor(const char* name, std::vector<std::int64_t> shape) {
  return {Name(name), std::move(shape)};
}

TEST_CASE("allreduce hook: the same bytes, divided in place after the last copy-in") {
  const Schedule schedule = build_schedule(four_layers(CommHook::allreduce));
  testing::check_sound(schedule);
  CHECK(bytes_of_each(ops_of(schedule), "all_reduce") == std::vector<Bytes>{10 * mib, 30 * mib});
  CHECK(count_of(ops_of(schedule), "divide") == 2);
  CHECK(schedule.streams.size() == 2);  // nothing runs in a callback
}

TEST_CASE("fp16 compression halves the bytes and copies back on the callback's stream") {
  const Schedule schedule = build_schedule(four_layers(CommHook::fp16_compress));
  testing::check_sound(schedule);
  testing::check_golden(schedule, "ddp-fp16-compress");
  CHECK(bytes_of_each(ops_of(schedule), "all_reduce") == std::vector<Bytes>{5 * mib, 15 * mib});
  for (auto& engine : testing::both_engines()) {
    // the decompression takes 1 a bucket
    const testing::Events events(*engine, schedule, [](const Op& op) {
      return op.verb == Name("decompress") ? 1.0 : four_layer_cost(op);
    });
    events.check("backward.all_reduce.bucket0", 12, 14.5);
    events.check("backward.decompress.bucket0", 14.5, 15.5);
    events.check("backward.all_reduce.bucket1", 24, 31.5);
    events.check("backward.decompress.bucket1", 31.5, 32.5);
    CHECK(events.end() == doctest::Approx(32.5));  // the optimizer waits for it
  }
}

TEST_CASE("fp16 compression holds a 16-bit copy of one bucket at a time, as the host frees it") {
  const TrainingStep plain = four_layers(CommHook::none);
  const TrainingStep compressed = four_layers(CommHook::bf16_compress);
  // buckets of 10 and 30 MiB: the larger copy is 15 MiB, in the last piece of backward, where all
  // gradients exist
  CHECK(memory_ledger(build_schedule(compressed))[0].peak.total ==
        memory_ledger(build_schedule(plain))[0].peak.total + 15 * mib);
}

TEST_CASE("E-24: PowerSGD's factors of rank 4 and what is left alone") {
  const auto elements = [](const Parameter& parameter, int rank) {
    const ddp::Factors f = ddp::factors_of(parameter, rank, 2);
    return f.rank == 0 ? std::int64_t{-1} : f.elements();
  };
  CHECK(elements(tensor("w", {4096, 4096}), 4) == 32'768);
  CHECK(elements(tensor("e", {50257, 768}), 4) == 204'100);
  CHECK(elements(tensor("b", {4096}), 4) == -1);
  CHECK(elements(tensor("s", {2, 2}), 1) == -1);          // 4 · 2 < 4 is false
  CHECK(elements(tensor("c", {64, 3, 7, 7}), 1) == 211);  // 64 x 147
}

TrainingStep two_matrices(int rank) {
  TrainingStep step = four_layers(CommHook::power_sgd);
  // one bucket of a matrix, a bias and a matrix: 4 (1024² + 1024 + 512·1024) bytes
  step.model =
      model_of_tensors({tensor("a", {1024, 1024}), tensor("b", {1024}), tensor("c", {512, 1024})});
  step.strategy.bucket_cap_mib = 25;
  step.strategy.powersgd_rank = rank;
  return step;
}

TEST_CASE("E-24: three dependent all-reduces a bucket: the biases, all P, all Q") {
  const Schedule schedule = build_schedule(two_matrices(4));
  testing::check_sound(schedule);
  testing::check_golden(schedule, "ddp-powersgd");
  const std::vector<Op>& ops = ops_of(schedule);
  CHECK(bytes_of_each(ops, "all_reduce") == std::vector<Bytes>{4 * 1024});
  CHECK(bytes_of_each(ops, "all_reduce_p") == std::vector<Bytes>{4 * 4 * (1024 + 512)});
  CHECK(bytes_of_each(ops, "all_reduce_q") == std::vector<Bytes>{4 * 4 * (1024 + 1024)});
  for (auto& engine : testing::both_engines()) {
    // forward 3 x 2, backward 3 x 4: at 18 the bucket is full; each all-reduce takes 1, each
    // product 2
    const testing::Events events(*engine, schedule, [](const Op& op) {
      if (op.kind == OpKind::collective) return 1.0;
      if (op.verb.str().rfind("powersgd", 0) == 0) return 2.0;
      return four_layer_cost(op);
    });
    events.check("backward.powersgd_prepare.bucket0", 18, 20);
    events.check("backward.all_reduce.bucket0", 20, 21);
    events.check("backward.powersgd_unpack.bucket0", 21, 23);
    events.check("backward.all_reduce_p.bucket0", 23, 24);
    events.check("backward.powersgd_q.bucket0", 24, 26);
    events.check("backward.all_reduce_q.bucket0", 26, 27);
    events.check("backward.powersgd_decompress.bucket0", 27, 29);
    events.check("backward.host_wait.bucket0", 0, 29);  // the host stops in the middle of backward
    events.check("backward.powersgd_error.bucket0", 29, 31);
    CHECK(events.end() == doctest::Approx(31));
  }
}

TEST_CASE("PowerSGD keeps the error and the factors, and clones the bucket meanwhile") {
  const auto ledger = [](CommHook hook) {
    TrainingStep step = two_matrices(4);
    step.strategy.comm_hook = hook;
    return memory_ledger(build_schedule(step))[0];
  };
  const RoleLedger plain = ledger(CommHook::none);
  const RoleLedger power = ledger(CommHook::power_sgd);
  const Bytes bucket = 4 * (1024 * 1024 + 1024 + 512 * 1024);
  const Bytes factors = 4 * 4 * (1024 + 512 + 1024 + 1024);
  CHECK(power.persistent == plain.persistent + bucket + factors);
  // at the peak besides: the clone and the new error (the uncompressed tensors are freed by then)
  CHECK(power.peak.total == plain.peak.total + 3 * bucket + factors);
}

TEST_CASE("PowerSGD begins after its first iterations, which run the all-reduce hook") {
  TrainingStep step = two_matrices(1);
  step.first_step = true;
  const Schedule schedule = build_schedule(step);
  testing::check_sound(schedule);
  CHECK(count_of(ops_of(schedule, "first"), "all_reduce_p") == 0);
  CHECK(count_of(ops_of(schedule, "second"), "all_reduce_p") == 0);
  CHECK(count_of(ops_of(schedule, "steady"), "all_reduce_p") == 1);
}

TEST_CASE("every hook with bucket views, accumulation and every kind of bucket layout is sound") {
  for (const CommHook hook : {CommHook::none, CommHook::allreduce, CommHook::fp16_compress,
                              CommHook::bf16_compress, CommHook::power_sgd}) {
    for (const bool views : {false, true}) {
      for (const bool batched : {false, true}) {
        for (const bool find_unused : {false, true}) {
          TrainingStep step = two_matrices(2);
          step.strategy.comm_hook = hook;
          step.strategy.gradient_as_bucket_view = views;
          step.strategy.batched_grad_copy = batched;
          step.strategy.find_unused_parameters = find_unused;
          step.strategy.bucket_cap_mib = 2;
          step.accumulation = 2;
          step.strategy.accumulation_sync =
              views ? AccumulationSync::every : AccumulationSync::last;
          testing::check_sound(build_schedule(step));
        }
      }
    }
  }
}

}  // namespace
}  // namespace stepcast

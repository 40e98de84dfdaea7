// Where gradients live: zero_grad, bucket views, batched copies.

#include <doctest/doctest.h>

#include "tests/unit/strategies/ddp_grid.hpp"
#include "tests/unit/strategies/four_layers.hpp"
#include "tests/unit/strategies/schedule_golden.hpp"
#include "tests/unit/strategies/worked.hpp"

namespace stepcast {
namespace {

using testing::count_of;
using testing::ops_of;

TrainingStep four_layers(bool set_to_none, bool views) {
  TrainingStep step = testing::four_layers(StrategyKind::ddp);
  step.strategy.zero_grad_set_to_none = set_to_none;
  step.strategy.gradient_as_bucket_view = views;
  return step;
}

constexpr Bytes tokens = 16;  // a token and a label of the plain model

TEST_CASE("zero_grad that keeps gradients: they stay allocated, and each new one is added") {
  const Schedule none = build_schedule(four_layers(true, false));
  const Schedule kept = build_schedule(four_layers(false, false));
  testing::check_sound(kept);
  testing::check_golden(kept, "ddp-zero-grad-kept");
  // parameters 40, moments 80, buckets 40, and now gradients 40
  CHECK(memory_ledger(none)[0].persistent == 160 * mib + tokens);
  CHECK(memory_ledger(kept)[0].persistent == 200 * mib + tokens);
  // the same at the peak but for one fresh gradient
  CHECK(memory_ledger(kept)[0].peak.total == memory_ledger(none)[0].peak.total + 10 * mib);
  CHECK(count_of(ops_of(kept), "zero_grad") == 1);
  CHECK(count_of(ops_of(kept), "accumulate") == 4);
  CHECK(count_of(ops_of(none), "zero_grad") == 0);
  CHECK(count_of(ops_of(none), "accumulate") == 0);
}

TEST_CASE("kept gradients that are views of the buckets are only divided in place") {
  const Schedule kept = build_schedule(four_layers(false, true));
  testing::check_sound(kept);
  CHECK(memory_ledger(kept)[0].persistent ==
        160 * mib + tokens);  // no gradients beside the buckets
  CHECK(count_of(ops_of(kept), "copy_in") == 0);
  CHECK(count_of(ops_of(kept), "divide") == 4);
  CHECK(count_of(ops_of(kept), "copy_out") == 0);
  TrainingStep hooked = four_layers(false, true);
  hooked.strategy.comm_hook = CommHook::allreduce;
  const Schedule hook = build_schedule(hooked);
  testing::check_sound(hook);
  CHECK(count_of(ops_of(hook), "copy_in") == 0);
  CHECK(count_of(ops_of(hook), "divide") == 2);  // the hook's, one a bucket
  // set to None, the alias is lost every step, so the copy is not saved
  CHECK(count_of(ops_of(build_schedule(four_layers(true, true))), "copy_in") == 4);
}

TEST_CASE("batched_grad_copy: one copy and one division a bucket") {
  TrainingStep step = four_layers(true, false);
  step.strategy.batched_grad_copy = true;
  const Schedule schedule = build_schedule(step);
  testing::check_sound(schedule);
  testing::check_golden(schedule, "ddp-batched-grad-copy");
  CHECK(count_of(ops_of(schedule), "copy_in") == 2);
  CHECK(count_of(ops_of(schedule), "divide") == 2);
}

TEST_CASE("PyTorch 1.4: a copy a parameter, a division a bucket, buckets in order of definition") {
  TrainingStep step = four_layers(true, false);
  step.strategy.bucket_rule = BucketRule::pytorch_1_4;
  for (const bool first : {false, true}) {
    step.first_step = first;
    const Schedule schedule = build_schedule(step);
    testing::check_sound(schedule);
    // Layers of 10 MiB against 1 MiB, then 25: {l0}, {l1, l2, l3}; in the same ones every step.
    CHECK(count_of(ops_of(schedule), "copy_in") == 4);
    CHECK(count_of(ops_of(schedule), "divide") == 2);
  }
}

TEST_CASE("PyTorch 1.4's DDP has no views, static graph, hook or join") {
  TrainingStep step = four_layers(true, true);
  step.strategy.bucket_rule = BucketRule::pytorch_1_4;
  CHECK_THROWS_AS(build_schedule(step), InputError);
  step.strategy.gradient_as_bucket_view = false;
  step.strategy.static_graph = true;
  CHECK_THROWS_AS(build_schedule(step), InputError);
  step.strategy.static_graph = false;
  step.strategy.comm_hook = CommHook::allreduce;
  CHECK_THROWS_AS(build_schedule(step), InputError);
}

TEST_CASE("every mix of zero_grad, views, batched copies, unused parameters and first steps") {
  for (int bits = 0; bits < 64; ++bits) {
    CAPTURE(bits);
    TrainingStep step = four_layers((bits & 1) != 0, (bits & 2) != 0);
    step.strategy.batched_grad_copy = (bits & 4) != 0;
    step.first_step = (bits & 8) != 0;
    step.strategy.static_graph = (bits & 16) != 0;
    step.strategy.find_unused_parameters = (bits & 16) == 0;
    if ((bits & 32) != 0) {
      step.strategy.unused_parameters = {"l3*"};
      step.strategy.unused_on_ranks = {7};
    }
    step.accumulation = (bits & 4) != 0 ? 2 : 1;
    testing::check_sound(build_schedule(step));
  }
}

TEST_CASE("the default layout's first steps are sound with kept gradients and bucket views") {
  for (int bits = 0; bits < 8; ++bits) {
    CAPTURE(bits);
    TrainingStep step = four_layers((bits & 1) != 0, (bits & 2) != 0);
    step.first_step = true;
    step.strategy.batched_grad_copy = (bits & 4) != 0;
    testing::check_sound(build_schedule(step));
  }
}

}  // namespace
}  // namespace stepcast

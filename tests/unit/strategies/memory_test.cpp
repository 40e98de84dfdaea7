// What is alive at once, counted on the schedules themselves (E-19, E-20).

#include <doctest/doctest.h>

#include <algorithm>

#include "sim/memory/ledger.hpp"
#include "sim/strategies/strategy.hpp"

namespace stepcast {
namespace {

TrainingStep llama(StrategyKind kind, const char* recipe) {
  TrainingStep step;
  step.model = load_model("llama-2-7b");
  step.workload.seq_len = 4096;
  step.workload.checkpointing = Checkpointing::full;
  step.strategy.kind = kind;
  step.precision = precision_recipe(recipe);
  step.mesh = kind == StrategyKind::fsdp2 ? Mesh{1, 8} : Mesh{8, 1};
  return step;
}

// The most bytes alive at once of buffers whose name has one of the prefixes and speaks of a block.
Bytes most_alive(const Schedule& schedule, const std::vector<std::string>& prefixes) {
  Bytes now = 0;
  Bytes most = 0;
  for (const Op& op : schedule.roles[0].steps.back().ops) {
    if (op.kind != OpKind::alloc && op.kind != OpKind::free) continue;
    const Buffer& buffer = schedule.buffers[static_cast<std::size_t>(op.buffer)];
    const std::string& name = buffer.name.str();
    const bool counted = std::any_of(prefixes.begin(), prefixes.end(), [&](const std::string& p) {
      return name.rfind(p + ".layers.", 0) == 0;
    });
    if (!counted) continue;
    now += op.kind == OpKind::alloc ? buffer.bytes : -buffer.bytes;
    most = std::max(most, now);
  }
  CHECK(now == 0);
  return most;
}

constexpr Bytes block = 202'383'360;  // parameters of a Llama-2-7B block

TEST_CASE("E-20: FSDP2's backward holds ten bytes a block parameter, eight with a bf16 reduction") {
  const std::vector<std::string> transient{"gathered", "unsharded", "gradients", "reduce_input"};
  // unsharded(i) 2 + gathered(i-1) 2 + gradients(i) 2 + reduce_input(i+1) 4
  CHECK(most_alive(build_schedule(llama(StrategyKind::fsdp2, "bf16-mixed")), transient) ==
        10 * block);
  CHECK(most_alive(build_schedule(llama(StrategyKind::fsdp2, "bf16-mixed-reduce-bf16")),
                   transient) == 8 * block);
}

TEST_CASE("E-20: two flat gather outputs are alive at most, 386 MiB each") {
  const Schedule schedule = build_schedule(llama(StrategyKind::fsdp2, "bf16-mixed"));
  CHECK(most_alive(schedule, {"gathered"}) == 2 * 404'766'720);
  CHECK(most_alive(schedule, {"reduce_input"}) == 809'533'440);
}

// The most bytes alive at once during the optimizer's step, gradients only.
Bytes gradients_in_the_step(const Schedule& schedule) {
  Bytes now = 0;
  Bytes most = 0;
  for (const Op& op : schedule.roles[0].steps.back().ops) {
    if (op.kind != OpKind::alloc && op.kind != OpKind::free) continue;
    const Buffer& buffer = schedule.buffers[static_cast<std::size_t>(op.buffer)];
    if (buffer.kind != BufferKind::gradient) continue;
    now += op.kind == OpKind::alloc ? buffer.bytes : -buffer.bytes;
    if (op.phase == Phase::optimizer) most = std::max(most, now);
  }
  CHECK(now == 0);
  return most;
}

TEST_CASE("E-19: ZeRO-2 in its step: 1.75 GB of own gradients, as much flattened, 3.5 GB in fp32") {
  std::vector<Parameter> tensors;
  for (int i = 0; i < 70; ++i) tensors.push_back({Name("t" + std::to_string(i)), {100'000'000}});
  TrainingStep step;
  step.model = model_of_tensors(tensors);
  step.mesh = {8, 1};
  for (const StrategyKind kind : {StrategyKind::zero1, StrategyKind::zero2}) {
    step.strategy.kind = kind;
    step.precision = precision_recipe("bf16-master");
    // partition, flat copy, fp32 slice: (2 + 2 + 4) x 7e9 / 8
    CHECK(gradients_in_the_step(build_schedule(step)) == 7'000'000'000);
    // fp32 gradients are flattened into the slice itself: (4 + 4) x 7e9 / 8
    step.precision = precision_recipe("fp32");
    CHECK(gradients_in_the_step(build_schedule(step)) == 7'000'000'000);
  }
}

TEST_CASE("E-19: persistent bytes of the schedules are 16 bytes a parameter, sharded or not") {
  const Bytes psi = 6'738'415'616;
  const auto kinds = [](const TrainingStep& step) {
    return memory_ledger(build_schedule(step)).at(0).persistent_by_kind;
  };
  const auto at = [](const KindBytes& bytes, BufferKind kind) {
    return bytes[static_cast<std::size_t>(kind)];
  };
  const KindBytes fsdp = kinds(llama(StrategyKind::fsdp2, "bf16-mixed"));
  // 4 + 8 of the 16 bytes between steps; the gradient's 4 come and go. Rows divide by 8.
  CHECK(at(fsdp, BufferKind::parameter) == 4 * psi / 8);
  CHECK(at(fsdp, BufferKind::optimizer_state) == 8 * psi / 8);
  const KindBytes ddp = kinds(llama(StrategyKind::ddp, "bf16-master"));
  CHECK(at(ddp, BufferKind::parameter) == 2 * psi);
  CHECK(at(ddp, BufferKind::optimizer_state) == 12 * psi);
  CHECK(at(ddp, BufferKind::bucket) == 2 * psi);
  const KindBytes zero = kinds(llama(StrategyKind::zero2, "bf16-master"));
  CHECK(at(zero, BufferKind::parameter) == 2 * psi);
  CHECK(at(zero, BufferKind::optimizer_state) == 12 * psi / 8);
}

TEST_CASE("E-19: ZeRO-2's backward holds two 1 GB buckets with overlap_comm, one without") {
  TrainingStep step = llama(StrategyKind::zero2, "bf16-master");
  const auto buckets = [](const Schedule& schedule) {
    Bytes now = 0;
    Bytes most = 0;
    for (const Op& op : schedule.roles[0].steps.back().ops) {
      if (op.kind != OpKind::alloc && op.kind != OpKind::free) continue;
      const Buffer& buffer = schedule.buffers[static_cast<std::size_t>(op.buffer)];
      if (buffer.name.str().rfind("ipg_bucket", 0) != 0) continue;
      now += op.kind == OpKind::alloc ? buffer.bytes : -buffer.bytes;
      most = std::max(most, now);
    }
    return most;
  };
  CHECK(buckets(build_schedule(step)) == 1'000'000'000);
  step.strategy.overlap_comm = true;
  CHECK(buckets(build_schedule(step)) == 2'000'000'000);
}

TEST_CASE("a steady step of every strategy leaves as much allocated as it found") {
  for (const StrategyKind kind :
       {StrategyKind::dp, StrategyKind::ddp, StrategyKind::zero1, StrategyKind::zero2,
        StrategyKind::zero3, StrategyKind::fsdp1, StrategyKind::fsdp2, StrategyKind::hsdp}) {
    for (const int accumulation : {1, 2}) {
      TrainingStep step = llama(kind, default_precision(kind).c_str());
      step.model = load_model("gpt2");
      step.workload.seq_len = 1024;
      step.accumulation = accumulation;
      const bool shards =
          kind == StrategyKind::zero3 || kind == StrategyKind::fsdp1 || kind == StrategyKind::fsdp2;
      step.mesh = kind == StrategyKind::hsdp ? Mesh{2, 4} : shards ? Mesh{1, 8} : Mesh{8, 1};
      CAPTURE(std::string(to_string(kind)));
      for (const RoleLedger& role : memory_ledger(build_schedule(step))) CHECK(role.growth == 0);
    }
  }
}

}  // namespace
}  // namespace stepcast

// nn.DataParallel: a timeline worked by hand, bytes out of GPU 0, memory by role, host threads.

#include <doctest/doctest.h>

#include <map>

#include "sim/memory/ledger.hpp"
#include "sim/strategies/dp/replicate.hpp"
#include "tests/unit/strategies/four_layers.hpp"
#include "tests/unit/strategies/worked.hpp"

namespace stepcast {
namespace {

TrainingStep four_layers(int gpus) {
  TrainingStep step = testing::four_layers(StrategyKind::dp);
  step.mesh = {gpus, 1};
  return step;
}

TrainingStep gpt2(int gpus, std::int64_t micro_batch = 4) {
  TrainingStep step;
  step.model = load_model("gpt2");
  step.workload.micro_batch = micro_batch;
  step.workload.seq_len = 1024;
  step.workload.compute_dtype = Dtype::fp32;
  step.mesh = {gpus, 1};
  step.precision = precision_recipe("fp32");
  step.strategy.kind = StrategyKind::dp;
  return step;
}

// Forward 2, backward 4 a layer and of the loss, the loss itself 3; 1 for each broadcast and reduce
// of 10 MiB, 2 for the gather and 2 for the scatter; the optimizer 5.
Seconds cost(const Op& op) {
  static const Name compute("compute");
  switch (op.kind) {
    case OpKind::collective:
      return op.collective == CollectiveKind::broadcast || op.collective == CollectiveKind::reduce
                 ? 1.0
                 : 2.0;
    case OpKind::compute:
      if (op.phase == Phase::loss) return 3.0;
      if (op.phase == Phase::optimizer) return 5.0;
      if (op.verb != compute) return 0.0;
      return op.phase == Phase::forward ? 2.0 : 4.0;
    default: return 0.0;
  }
}

// Spans of role 1 in a timeline, by op name.
std::map<std::string, Span> spans_of(const Schedule& schedule, const Timeline& timeline, int role) {
  std::map<std::string, Span> spans;
  const std::vector<std::string> names =
      op_names(schedule, schedule.roles[static_cast<std::size_t>(role)].steps.back());
  for (const Span& span : timeline.spans) {
    if (span.role == role && span.step == 0) {
      spans[names[static_cast<std::size_t>(span.op)]] = span;
    }
  }
  return spans;
}

double sent_from_gpu0(const Schedule& schedule, int gpus) {
  double bytes = 0;
  for (const Op& op : schedule.roles[0].steps.back().ops) {
    if (op.kind != OpKind::collective) continue;
    const auto size = static_cast<double>(bytes_of(op));
    if (op.collective == CollectiveKind::broadcast) bytes += size;  // into NCCL's chain
    if (op.collective == CollectiveKind::scatter) bytes += size * (gpus - 1) / gpus;
  }
  return bytes;
}

Bytes of_kind(const Schedule& schedule, CollectiveKind kind) {
  Bytes bytes = 0;
  for (const Op& op : schedule.roles[0].steps.back().ops) {
    if (op.kind == OpKind::collective && op.collective == kind) bytes += bytes_of(op);
  }
  return bytes;
}

TEST_CASE(
    "one step by hand: replicate, forward, gather, loss on GPU 0, scatter, backward, reduce") {
  // Each tensor of 10 MiB is a chunk in both directions.
  const Schedule schedule = build_schedule(four_layers(8));
  CHECK(testing::faults(schedule) == "");
  REQUIRE(schedule.roles.size() == 2);
  CHECK(schedule.roles[0].name == Name("gpu0"));
  CHECK(schedule.roles[1].rank_count == 7);
  const CostTable costs = costs_by(schedule, cost);
  for (auto& engine : testing::both_engines()) {
    RunOptions options;
    options.programs = {0};
    const Timeline timeline = engine->run(schedule, costs, options);
    const auto check = [&](int role, const char* name, Seconds start, Seconds end) {
      INFO(timeline.engine << ", role " << role << ": " << name);
      const auto spans = spans_of(schedule, timeline, role);
      const auto found = spans.find(name);
      REQUIRE(found != spans.end());
      CHECK(found->second.start == doctest::Approx(start));
      CHECK(found->second.end == doctest::Approx(end));
    };
    for (const int role : {0, 1}) {
      check(role, "forward.broadcast.chunk0", 0, 1);
      check(role, "forward.broadcast.chunk3", 3, 4);
      check(role, "forward.compute.l1.weight", 4, 6);
      check(role, "forward.compute.l4.weight", 10, 12);
      check(role, "loss.gather.loss", 12, 14);
      // The loss takes 14 to 17 on GPU 0 and its backward to 21; then the gradient is scattered.
      check(role, "backward.scatter.loss", 21, 23);
      check(role, "backward.compute.l4.weight", 23, 27);
      check(role, "backward.compute.l1.weight", 35, 39);
      check(role, "backward.reduce.chunk0", 39, 40);
      check(role, "backward.reduce.chunk3", 42, 43);
    }
    check(0, "loss.compute.loss", 14, 17);
    check(0, "backward.compute.loss", 17, 21);
    check(0, "optimizer.adamw", 43, 48);
    CHECK(spans_of(schedule, timeline, 1).count("loss.compute.loss") == 0);
    CHECK(timeline.steps.at(0).end == doctest::Approx(48));
  }
}

TEST_CASE(
    "the steady period repeats the step: GPU 0's optimizer holds everybody's next broadcast") {
  const Schedule schedule = build_schedule(four_layers(2));
  const CostTable costs = costs_by(schedule, cost);
  for (auto& engine : testing::both_engines()) {
    CHECK(engine->run(schedule, costs).period() == doctest::Approx(48));
  }
}

TEST_CASE("every micro-batch replicates and reduces: there is no no_sync") {
  TrainingStep step = four_layers(4);
  for (const int accumulation : {1, 3}) {
    step.accumulation = accumulation;
    const Schedule schedule = build_schedule(step);
    CHECK(of_kind(schedule, CollectiveKind::broadcast) == accumulation * 40 * mib);
    CHECK(of_kind(schedule, CollectiveKind::reduce) == accumulation * 40 * mib);
    const CostTable costs = costs_by(schedule, cost);
    for (auto& engine : testing::both_engines()) {
      CHECK(engine->run(schedule, costs).period() == doctest::Approx(43 * accumulation + 5));
    }
  }
}

TEST_CASE("sound schedules for 1, 2, 3, 4 and 8 GPUs, whatever is accumulated or recomputed") {
  for (const int gpus : {1, 2, 3, 4, 8}) {
    for (const int accumulation : {1, 3}) {
      for (const Checkpointing checkpointing : {Checkpointing::none, Checkpointing::full}) {
        for (const char* recipe : {"fp32", "amp-bf16", "bf16-master", "amp-fp16"}) {
          TrainingStep step = gpt2(gpus);
          step.accumulation = accumulation;
          step.workload.checkpointing = checkpointing;
          step.precision = precision_recipe(recipe);
          step.workload.compute_dtype = step.precision.compute;
          step.workload.autocast_weights = step.precision.autocast;
          const Schedule schedule = build_schedule(step);
          CAPTURE(gpus);
          CAPTURE(recipe);
          CHECK(testing::faults(schedule) == "");
          CHECK(schedule.roles.size() == (gpus == 1 ? 1 : 2));
          for (const RoleLedger& role : memory_ledger(schedule)) CHECK(role.growth == 0);
        }
      }
    }
  }
}

TEST_CASE("a fused loss keeps the gathered logits until its backward") {
  TrainingStep step = gpt2(2);
  step.workload.fused_loss = true;
  const Schedule schedule = build_schedule(step);
  CHECK(testing::faults(schedule) == "");
  for (const RoleLedger& role : memory_ledger(schedule)) CHECK(role.growth == 0);
}

TEST_CASE(
    "loss_in_forward: each GPU computes its own, GPU 0 gathers logits and a number from each") {
  TrainingStep step = gpt2(4);
  step.accumulation = 2;
  step.strategy.loss_in_forward = true;
  for (const bool fused : {false, true}) {
    step.workload.fused_loss = fused;
    const Schedule schedule = build_schedule(step);
    CHECK(testing::faults(schedule) == "");
    const std::vector<RoleLedger> roles = memory_ledger(schedule);
    for (const RoleLedger& role : roles) CHECK(role.growth == 0);
    const Bytes logits = Bytes{4} * 1024 * 50257 * 4;  // of one GPU
    CHECK(of_kind(schedule, CollectiveKind::gather) == 2 * (4 * logits + 16));
    CHECK(of_kind(schedule, CollectiveKind::scatter) == 2 * 16);
    const auto held = [&](int role) {
      return roles[static_cast<std::size_t>(role)]
          .highest_by_kind[static_cast<std::size_t>(BufferKind::logits)];
    };
    // GPU 0 while it gathers: all logits, its own and its log-probabilities (a fused loss keeps a
    // number a token). The others at most three of their own, in the loss's backward.
    CHECK(held(0) == (fused ? 5 * logits + 4 * 4 * 1024 : 6 * logits));
    CHECK(held(1) == (fused ? 2 * logits + 4 * 4 * 1024 : 3 * logits));
  }
}

TEST_CASE("loss_in_forward by hand: 50, of which the losses run on both GPUs at once") {
  TrainingStep step = four_layers(2);
  step.strategy.loss_in_forward = true;
  const Schedule schedule = build_schedule(step);
  CHECK(testing::faults(schedule) == "");
  const CostTable costs = costs_by(schedule, cost);
  for (auto& engine : testing::both_engines()) {
    // Replicate 4, forward 8, loss 3, two gathers 4, scatter 2, loss backward 4, backward 16,
    // reduce 4, optimizer 5.
    CHECK(engine->run(schedule, costs).period() == doctest::Approx(50));
  }
}

TEST_CASE("both engines agree on both roles where nothing contends") {
  TrainingStep step = gpt2(4);
  step.accumulation = 2;
  const Schedule schedule = build_schedule(step);
  const CostTable costs = costs_by(schedule, [](const Op& op) {
    const int n = static_cast<int>(op.kind) * 7 + static_cast<int>(op.phase) + op.unit;
    return op.kind == OpKind::stream_wait ? 0.0 : 1e-4 * (1 + n % 5);
  });
  const Timeline formula = make_formula_engine()->run(schedule, costs);
  const Timeline fluid = make_fluid_engine()->run(schedule, costs);
  REQUIRE(formula.spans.size() == fluid.spans.size());
  for (std::size_t i = 0; i < formula.spans.size(); ++i) {
    CHECK(formula.spans[i].start == doctest::Approx(fluid.spans[i].start).epsilon(1e-6));
    CHECK(formula.spans[i].end == doctest::Approx(fluid.spans[i].end).epsilon(1e-6));
  }
}

TEST_CASE("GPT-2: what leaves GPU 0 is the parameters and the others' gradients of the logits") {
  for (const int gpus : {2, 4, 8}) {
    const Schedule schedule = build_schedule(gpt2(gpus));
    const double parameters = 124'439'808.0 * 4;
    const double logits = 4.0 * 4 * 1024 * 50257 * gpus;  // fp32, of all GPUs
    CHECK(of_kind(schedule, CollectiveKind::broadcast) == static_cast<Bytes>(parameters));
    CHECK(of_kind(schedule, CollectiveKind::reduce) == static_cast<Bytes>(parameters));
    CHECK(of_kind(schedule, CollectiveKind::gather) == static_cast<Bytes>(logits));
    CHECK(of_kind(schedule, CollectiveKind::scatter) == static_cast<Bytes>(logits));
    CHECK(sent_from_gpu0(schedule, gpus) ==
          doctest::Approx(parameters + logits * (gpus - 1) / gpus));
  }
}

TEST_CASE("GPU 0 holds parameters, moments, gathered logits and the loss, the others a replica") {
  const Schedule schedule = build_schedule(gpt2(2));
  const std::vector<RoleLedger> roles = memory_ledger(schedule);
  REQUIRE(roles.size() == 2);
  const RoleLedger& gpu0 = roles[0];
  const RoleLedger& rest = roles[1];
  const auto at = [](const KindBytes& bytes, BufferKind kind) {
    return bytes[static_cast<std::size_t>(kind)];
  };
  const Bytes psi = 124'439'808;
  CHECK(gpu0.persistent == 12 * psi);
  CHECK(rest.persistent == 0);
  CHECK(at(rest.highest_by_kind, BufferKind::optimizer_state) == 0);
  // The replica is gone again after the step; it is as large as the parameters.
  CHECK(at(rest.highest_by_kind, BufferKind::parameter) == 4 * psi);
  // GPU 0 in the loss's backward: log-probabilities, and a gradient of them and of the logits, of
  // 2 x 4 x 1024 x 50257 elements in fp32; the others receive their half of the last.
  const Bytes logits = Bytes{2} * 4 * 1024 * 50257 * 4;
  CHECK(at(gpu0.highest_by_kind, BufferKind::logits) == 3 * logits);
  CHECK(at(rest.highest_by_kind, BufferKind::logits) == logits / 2);
  CHECK(gpu0.peak.op_name.rfind("backward.alloc.loss", 0) == 0);
  // GPU 0's peak is in the loss, 12 psi and 3 logits against the other's replica and half a logits:
  // both hold the same activations then.
  CHECK(gpu0.peak.total > rest.peak.total + 8 * psi);
  // Gradients: each GPU its own, and GPU 0 what they are reduced to.
  CHECK(at(gpu0.highest_by_kind, BufferKind::gradient) >= 8 * psi);
  CHECK(at(rest.highest_by_kind, BufferKind::gradient) < 8 * psi);
}

TEST_CASE("modules are counted by the parameters' names") {
  // The model, l1, l2, l3, l4.
  CHECK(dp::module_count(four_layers(2).model) == 5);
  // GPT-2: itself, transformer, wte, wpe, h, ln_f; a block: itself, ln_1, attn and its 2, ln_2, mlp
  // and its 2. Where names have no "transformer." the count is one less.
  const Model model = load_model("gpt2");
  const bool prefixed = model.parameters.front().name.str().rfind("transformer.", 0) == 0;
  CHECK(dp::module_count(model) == 12 * 9 + 5 + (prefixed ? 1 : 0));
}

TEST_CASE("threads take turns: the forward is issued by a lane of G sharers, the backward is not") {
  const Schedule schedule = build_schedule(gpt2(8));
  for (const Role& role : schedule.roles) {
    for (const Op& op : role.steps.back().ops) {
      if (op.kind != OpKind::compute || op.verb != Name("compute")) continue;
      const Lane& lane = schedule.lanes[static_cast<std::size_t>(op.lane)];
      if (op.phase == Phase::forward) {
        CHECK(lane.sharers == 8);
        CHECK(lane.lock == Name("gil"));
      } else {
        CHECK(lane.sharers == 1);
      }
      if (op.phase == Phase::backward) CHECK(lane.lock.empty());
    }
  }
}

TEST_CASE("one GPU runs the module as it is") {
  const Schedule schedule = build_schedule(gpt2(1));
  REQUIRE(schedule.roles.size() == 1);
  CHECK(schedule.communicators.empty());
  for (const Op& op : schedule.roles[0].steps.back().ops) CHECK(op.kind != OpKind::collective);
}

TEST_CASE("module buffers follow the parameters in every forward, by dtype") {
  TrainingStep step = four_layers(2);
  step.model.buffers = {{Name("l1.running_mean"), {512}, Dtype::fp32},
                        {Name("l1.running_var"), {512}, Dtype::fp32},
                        {Name("l1.num_batches_tracked"), {}, Dtype::int64}};
  const Schedule schedule = build_schedule(step);
  CHECK(testing::faults(schedule) == "");
  std::vector<Bytes> sizes;
  for (const Op& op : schedule.roles[1].steps.back().ops) {
    if (op.kind == OpKind::collective && op.collective == CollectiveKind::broadcast) {
      sizes.push_back(bytes_of(op));
    }
  }
  CHECK(sizes == std::vector<Bytes>{10 * mib, 10 * mib, 10 * mib, 10 * mib, 4096, 8});
  for (const RoleLedger& role : memory_ledger(schedule)) CHECK(role.growth == 0);
}

}  // namespace
}  // namespace stepcast

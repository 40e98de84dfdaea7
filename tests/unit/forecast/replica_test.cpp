// The outer dimension of hybrid jobs: replicas of several GPUs.
#include "sim/forecast/replica.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "base/error.hpp"
#include "sim/forecast/forecast.hpp"

using namespace stepcast;

namespace {

std::string scenario(const std::string& strategy, int gpus, const std::string& rest) {
  return "model = \"gpt2\"\ncluster = \"dgx-h100\"\nprecision = \"fp32\"\nstrategy = \"" +
         strategy + "\"\ngpus = " + std::to_string(gpus) + "\n" + rest;
}

Forecast run(const std::string& text) { return forecast(parse_scenario(text, "s.toml")); }

std::string error_of(const std::string& text) {
  try {
    run(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

// Elements of a kind of collective in the reported step.
std::int64_t elements(const Forecast& f, CollectiveKind kind) {
  const auto program = static_cast<std::size_t>(f.timeline.steps.back().program_index);
  std::int64_t sum = 0;
  for (const Op& op : f.schedule.roles[0].steps[program].ops) {
    if (op.kind == OpKind::collective && op.collective == kind) sum += op.elements;
  }
  return sum;
}

Bytes memory_of(const Forecast& f, BufferKind kind) {
  for (const MemoryRow& row : f.report.memory[0].rows) {
    if (row.kind == to_string(kind)) return row.bytes;
  }
  return 0;
}

constexpr std::int64_t gpt2 = 124439808;  // every tensor has a dimension that 2, 4 and 8 divide

}  // namespace

TEST_CASE("a replica of one GPU is today's forecast bit for bit") {
  // Under fluid one after the other in one process: the clock a run starts at must not show.
  for (const auto& [strategy, name] :
       {std::pair{"ddp", "formula"}, std::pair{"zero2", "formula"}, std::pair{"fsdp2", "formula"},
        std::pair{"ddp", "fluid"}, std::pair{"zero2", "fluid"}, std::pair{"fsdp2", "fluid"}}) {
    CAPTURE(strategy);
    CAPTURE(name);
    const std::string engine = "engine = \"" + std::string(name) + "\"\n";
    const Forecast plain = run(scenario(strategy, 16, engine));
    const Forecast one = run(scenario(strategy, 16, engine + "replica_gpus = 1\n"));
    CHECK(one.report.step_time == plain.report.step_time);
    CHECK(one.report.mfu == plain.report.mfu);
    CHECK(one.report.memory[0].peak == plain.report.memory[0].peak);
    CHECK(one.report.notes == plain.report.notes);
    CHECK(elements(one, CollectiveKind::all_reduce) == elements(plain, CollectiveKind::all_reduce));
  }
}

TEST_CASE("DDP over replicas of k GPUs reduces a k-th of the gradients a GPU") {
  for (const int k : {2, 8}) {
    const Forecast f = run(
        scenario("ddp", 16, "replica_gpus = " + std::to_string(k) + "\nreplica_step_ms = 100\n"));
    CAPTURE(k);
    CHECK(f.schedule.mesh.world_size() == 16 / k);
    CHECK(elements(f, CollectiveKind::all_reduce) == gpt2 / k);
    CHECK(f.report.parameters == gpt2);
    CHECK(f.report.gpus == 16);
    CHECK(f.report.samples_per_step == 16.0 / k);
    CHECK(f.report.samples_per_second_per_gpu ==
          doctest::Approx(1.0 / k / f.report.step_time).epsilon(1e-12));
  }
}

TEST_CASE("memory a GPU is a k-th of parameters, gradients and optimizer state") {
  const Forecast f = run(scenario("ddp", 16, "replica_gpus = 8\nreplica_step_ms = 100\n"));
  CHECK(memory_of(f, BufferKind::parameter) == 4 * gpt2 / 8);
  CHECK(memory_of(f, BufferKind::optimizer_state) == 2 * 4 * gpt2 / 8);
  // FSDP2 over the two replicas: half of that.
  const Forecast sharded = run(scenario("fsdp2", 16, "replica_gpus = 8\nreplica_step_ms = 100\n"));
  CHECK(elements(sharded, CollectiveKind::reduce_scatter) >= gpt2 / 8);
  CHECK(memory_of(sharded, BufferKind::optimizer_state) >= 2 * 4 * gpt2 / 16);
  CHECK(memory_of(sharded, BufferKind::optimizer_state) < 2 * 4 * gpt2 / 16 + 100000);
}

TEST_CASE("compute takes the time that was given, a third of it forward, in every micro-batch") {
  // One replica: nothing to reduce but with itself, and nothing that slows the compute down.
  const Forecast f =
      run(scenario("ddp", 8, "replica_gpus = 8\nreplica_step_ms = 300\naccumulation = 2\n"));
  double forward = 0;
  double backward = 0;
  const auto program = static_cast<std::size_t>(f.timeline.steps.back().program_index);
  const std::vector<Op>& ops = f.schedule.roles[0].steps[program].ops;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind != OpKind::compute || ops[i].verb != Name("compute")) continue;
    const OpCost& cost = f.costs.cost(0, static_cast<int>(program), static_cast<OpIndex>(i));
    (ops[i].phase == Phase::forward ? forward : backward) += cost.solo;
    CHECK(cost.host == 0);
  }
  CHECK(forward == doctest::Approx(0.2).epsilon(1e-9));
  CHECK(backward == doctest::Approx(0.4).epsilon(1e-9));
  CHECK(f.report.step_time > 0.6);
  CHECK(f.report.step_time < 0.62);
}

TEST_CASE("checkpointing's recomputation is in the given time") {
  for (const char* checkpointing : {"none", "full"}) {
    const Forecast f =
        run(scenario("fsdp2", 16,
                     "replica_gpus = 2\nreplica_step_ms = 300\nreplica_forward_share = 0.25\n"
                     "checkpointing = \"" +
                         std::string(checkpointing) + "\"\n"));
    double solo = 0;
    const auto program = static_cast<std::size_t>(f.timeline.steps.back().program_index);
    const std::vector<Op>& ops = f.schedule.roles[0].steps[program].ops;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const bool forward = ops[i].phase == Phase::forward;
      if (ops[i].verb != Name("compute") && ops[i].verb != Name("recompute")) continue;
      if (!forward)
        solo += f.costs.cost(0, static_cast<int>(program), static_cast<OpIndex>(i)).solo;
    }
    CHECK(solo == doctest::Approx(0.225).epsilon(1e-9));
  }
}

TEST_CASE("eight siblings load their node's links together") {
  // Two nodes, eight siblings: a ring of two ranks a sibling. Each GPU sends all of the buffer,
  // once, through the rail beside it: as one such pair alone would.
  const Cluster cluster =
      resolve_cluster(parse_scenario("cluster = \"dgx-h100\"\ngpus = 16\n", "s.toml"));
  CollectiveOptions siblings;
  siblings.siblings = {8, 8};
  const Collectives eight(cluster, {2, 1}, siblings);
  const Bytes bytes = 64ll << 20;
  const CollectiveCost cost =
      eight.cost(Axis::world, CollectiveKind::all_reduce, bytes, Dtype::fp32, Reduction::sum);
  double nic = 0;
  for (const LinkLoad& load : cost.loads) {
    if (load.resource == Name("nic")) nic = load.bytes;
  }
  CHECK(nic == doctest::Approx(static_cast<double>(bytes)).epsilon(0.1));
  CHECK(cost.bytes_sent_inter == doctest::Approx(static_cast<double>(bytes)).epsilon(0.1));
  // As whole nodes (stages outside) nothing leaves the node.
  siblings.siblings = {2, 1};
  const Collectives stages(cluster, {8, 1}, siblings);
  CHECK(stages.nodes(Axis::world) == 1);
  CHECK(stages.cost(Axis::world, CollectiveKind::all_reduce, bytes, Dtype::fp32, Reduction::sum)
            .bytes_sent_inter == 0);
}

TEST_CASE("replicas that the cluster cannot hold, or that say too little, are refused") {
  CHECK(error_of(scenario("ddp", 16, "replica_gpus = 3\nreplica_step_ms = 1\n")) ==
        "s.toml:6: replica_gpus: 3 does not divide the 16 GPUs; accepted: a divisor of 16");
  CHECK(error_of(scenario("ddp", 16, "replica_gpus = 4\nreplica_inner = 3\n")) ==
        "s.toml:7: replica_inner: 3 does not divide the 4 GPUs of a replica; accepted: a divisor "
        "of 4");
  CHECK(error_of(scenario("ddp", 16, "replica_gpus = 4\n")).find("--replica-step-ms: is missing") !=
        std::string::npos);
  CHECK(error_of(scenario("ddp", 16, "replica_forward_share = 0.5\n"))
            .find("replica_forward_share: is the share of replica_step_ms") != std::string::npos);
  CHECK(error_of(scenario("ddp", 16,
                          "replica_gpus = 4\nreplica_step_ms = 1\n"
                          "perturb = [\"rank=3:late=1s\"]\n"))
            .find("perturb: applies where compute is forecast") != std::string::npos);
  CHECK(error_of(
            scenario("ddp", 16, "replica_gpus = 4\nreplica_step_ms = 1\nengine = \"messages\"\n"))
            .find("engine: 'messages' places ranks of one GPU") != std::string::npos);
  CHECK(error_of(scenario("dp", 8, "replica_gpus = 2\nreplica_step_ms = 1\n"))
            .find("replica_gpus: applies where ranks are processes") != std::string::npos);
}

// A job of 64 nodes with a degraded rail and a slow GPU: the forecast of a few classes of ranks is
// that of all ranks simulated each on its own, and costs no more than that of 8 nodes. What it
// costs is counted in simulated ops, for no test depends on the time it takes.

#include <doctest/doctest.h>

#include "sim/forecast/bind.hpp"
#include "sim/forecast/forecast.hpp"

using namespace stepcast;

namespace {

struct Simulated {
  PerturbedStep report;
  std::size_t ops = 0;  // of all roles and steps
};

// Kernels that set the pace, not the host, or a slow GPU loses nothing.
Simulated simulated(Engine& engine, int nodes, int gpus_per_node, const std::string& strategy,
                    const std::string& what, Folding folding) {
  const std::string group =
      strategy == "hsdp" ? "shard_group = " + std::to_string(gpus_per_node) + "\n" : "";
  const Resolved r = resolve(parse_scenario(
      "model = \"gpt2\"\ncluster = \"dgx-h100\"\nseq_len = 1024\nmicro_batch = 4\nnodes = " +
          std::to_string(nodes) + "\ngpus_per_node = " + std::to_string(gpus_per_node) +
          "\nstrategy = \"" + strategy + "\"\n" + group + "perturb = [" + what + "]\n",
      "test"));
  const Schedule schedule = build_schedule(r.step);
  const Collectives collectives(r.cluster, r.step.mesh, r.collectives);
  const CostTable costs = bind_costs(schedule, r.cluster, collectives, r.profile);
  const Perturbed p = perturb(
      schedule, costs, engine, engine.run(schedule, costs).period(),
      {.perturbations = r.perturbations, .folding = folding, .other = other_costs(schedule, r)});
  REQUIRE(p.timeline);
  return {p.report, p.timeline->spans.size()};
}

const std::string rail = "\"node=5,nic=1:slow=0.02\"";
const std::string slow_gpu = "\"rank=9:slow=0.8\"";

void check_64_nodes(Engine& engine, int gpus_per_node, const std::string& strategy,
                    const std::string& what, std::size_t classes) {
  CAPTURE(strategy);
  CAPTURE(what);
  const auto run = [&](int nodes, Folding folding) {
    return simulated(engine, nodes, gpus_per_node, strategy, what, folding);
  };
  const Simulated folded = run(64, Folding::classes);
  const Simulated alone = run(64, Folding::none);
  const auto ranks = static_cast<std::size_t>(64 * gpus_per_node);
  REQUIRE(folded.report.classes.size() == classes);
  REQUIRE(alone.report.classes.size() == ranks);
  CHECK(folded.report.step_time == doctest::Approx(alone.report.step_time).epsilon(1e-6));
  CHECK(folded.report.lost() > 0.01 * folded.report.before);  // nothing hides it
  // Each class runs the program once, as each rank does: 64 nodes cost what 8 do.
  CHECK(folded.ops / classes == alone.ops / ranks);
  CHECK(folded.ops == run(8, Folding::classes).ops);
}

}  // namespace

// Two GPUs a node: the fluid engine runs at most 1,024 tasks at a time.
TEST_CASE("fluid: a degraded rail on 1 of 64 nodes is folded as 128 ranks on their own are") {
  const auto engine = make_fluid_engine();
  check_64_nodes(*engine, 2, "ddp", rail, 2);
  check_64_nodes(*engine, 2, "fsdp2", rail, 2);
  check_64_nodes(*engine, 2, "hsdp", rail, 4);
}

TEST_CASE("fluid: a GPU at 80 % on 64 nodes is folded as 128 ranks on their own are") {
  const auto engine = make_fluid_engine();
  check_64_nodes(*engine, 2, "ddp", slow_gpu, 2);
  check_64_nodes(*engine, 2, "fsdp2", slow_gpu, 2);
  check_64_nodes(*engine, 2, "hsdp", slow_gpu, 4);
}

// Rank 9 and rank 41, whose NIC is broken, are replicas of each other: the two, the rest of each's
// shard group, their other replicas, and all others.
TEST_CASE("formula: both on 64 nodes of 8 are folded as 512 ranks on their own are") {
  check_64_nodes(*make_formula_engine(), 8, "hsdp", rail + ", " + slow_gpu, 6);
}

// Broken links and nodes of another machine: folded into classes as with every rank a role of its
// own, and what is refused.

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "sim/forecast/bind.hpp"
#include "sim/forecast/forecast.hpp"

using namespace stepcast;

namespace {

const Where here{.file = "--perturb", .line = 0, .key = ""};

std::string refusal(const std::vector<std::string>& texts) {
  try {
    parse_perturbations(texts, {64, 8, 8}, here);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

Scenario on_nodes(int nodes, const std::string& strategy, const std::string& perturb) {
  return parse_scenario(
      "model = \"gpt2\"\ncluster = \"dgx-h100\"\nnodes = " + std::to_string(nodes) +
          "\nseq_len = 256\nstrategy = " + strategy + "\nperturb = [\"" + perturb + "\"]\n",
      "test");
}

PerturbedStep perturbed(const Scenario& scenario, Folding folding = Folding::classes) {
  const Resolved r = resolve(scenario);
  const Schedule schedule = build_schedule(r.step);
  const Collectives collectives(r.cluster, r.step.mesh, r.collectives);
  const CostTable costs = bind_costs(schedule, r.cluster, collectives, r.profile);
  const auto engine = make_fluid_engine();
  return perturb(schedule, costs, *engine, engine->run(schedule, costs).period(),
                 {.perturbations = r.perturbations,
                  .folding = folding,
                  .other = other_costs(schedule, r)})
      .report;
}

const std::vector<std::string> three_strategies{"\"ddp\"", "\"fsdp2\"",
                                                "\"hsdp\"\nshard_group = 8"};

}  // namespace

TEST_CASE("links are named by node, rail or rank, and what no link can be is refused") {
  const auto read = [](const std::string& text) {
    return parse_perturbation(text, {64, 8, 8}, here);
  };
  const Perturbation nic = read("node=3,nic=2:slow=0.5");
  CHECK(nic.kind == Perturbation::Kind::link);
  CHECK(nic.ranks.front() == 24);
  CHECK(nic.ranks.back() == 31);
  REQUIRE(nic.links.size() == 1);
  CHECK(nic.links[0].index == 2);
  CHECK(nic.links[0].speed == 0.5);
  CHECK(read("rail=2-3:down").links.size() == 2);
  CHECK(read("rail=2-3:down").links[1].speed == 0);
  CHECK(read("rail=2:slow=0.5").ranks.size() == 64);
  CHECK(read("rank=17,nvlink:slow=0.5").links[0].index == 1);
  CHECK(read("rank=17,nvlink:slow=0.5").ranks.front() == 16);
  CHECK(read("node=3:machine=dgx-a100").machine == "dgx-a100");

  // A flag's value is cut at commas.
  CHECK(parse_perturbations({"node=3", "nic=2:down", "rank=1:slow=0.5"}, {64, 8, 8}, here).size() ==
        2);
  CHECK(refusal({"rank=1:slow=0.5", "node=3"}).find("'node=3': accepted") != std::string::npos);

  CHECK(refusal({"node=3,nic=8:down"}).find("NICs 0 to 7") != std::string::npos);
  CHECK(refusal({"rank=3,nvlink:down"}).find("accepted: rank=R") != std::string::npos);
  CHECK(refusal({"rank=3-4,nvlink:slow=0.5"}).find("the links of one rank") != std::string::npos);
  CHECK(refusal({"rank=3:machine=dgx-a100"}).find("accepted: rank=R") != std::string::npos);
  CHECK(refusal({"rail=1,nic=2:down"}).find("accepted: rank=R") != std::string::npos);
  CHECK(refusal({"node=3,nic=2:late=5s"}).find("accepted: rank=R") != std::string::npos);
  CHECK(refusal({"node=3,nic=0-7:down"}).find("leaves node 3 without a NIC") != std::string::npos);
  CHECK(refusal({"node=3,nic=2:down", "rail=2:slow=0.5"}).find("said already") !=
        std::string::npos);
}

TEST_CASE("a slow NIC, a lost one, slow NVLinks and another machine equal the unfolded run") {
  for (const std::string& strategy : three_strategies) {
    for (const char* text : {"node=1,nic=2:slow=0.02", "node=1,nic=1-7:down",
                             "rank=9,nvlink:slow=0.02", "node=1:machine=dgx-a100"}) {
      CAPTURE(strategy);
      CAPTURE(text);
      Scenario s = on_nodes(2, strategy, text);
      s.seq_len = 1024;
      s.micro_batch = 2;
      const PerturbedStep folded = perturbed(s);
      const PerturbedStep alone = perturbed(s, Folding::none);
      CHECK(alone.classes.size() == 16);
      CHECK(folded.classes.size() <= 4);
      CHECK(folded.step_time == doctest::Approx(alone.step_time).epsilon(1e-6));
      CHECK(folded.lost() > 0.01 * folded.before);  // nothing hides it
    }
  }
}

TEST_CASE("a degraded rail on 1 of 64 nodes: few classes, and the loss does not need them all") {
  // All 512 GPUs wait in FSDP's rings; under HSDP the replica group on that rail alone is slow.
  const PerturbedStep fsdp = perturbed(on_nodes(64, "\"fsdp2\"", "node=5,nic=2:slow=0.25"));
  REQUIRE(fsdp.classes.size() == 2);
  CHECK(fsdp.classes[0].count == 8);
  CHECK(fsdp.classes[0].slower[0].seconds > 0);
  CHECK(fsdp.classes[1].slower.empty());
  CHECK_FALSE(fsdp.once);
  const PerturbedStep hsdp =
      perturbed(on_nodes(64, "\"hsdp\"\nshard_group = 8", "node=5,nic=2:slow=0.25"));
  CHECK(hsdp.classes.size() == 4);
  CHECK(hsdp.classes[0].count == 1);
  REQUIRE(hsdp.classes[0].slower.size() == 1);
  CHECK(hsdp.classes[0].slower[0].op == "all_reduce");
}

TEST_CASE("the same rail slow on every node is one class, or two of them") {
  CHECK(perturbed(on_nodes(64, "\"fsdp2\"", "rail=2:slow=0.25")).classes.size() == 1);
  CHECK(perturbed(on_nodes(64, "\"hsdp\"\nshard_group = 8", "rail=2:slow=0.25")).classes.size() ==
        2);
}

TEST_CASE("one node of A100s among H100s: the job runs as if it were all of A100s") {
  const PerturbedStep mixed = perturbed(on_nodes(2, "\"ddp\"", "node=1:machine=dgx-a100"));
  Scenario a100 = on_nodes(2, "\"ddp\"", "rank=0:slow=1");
  a100.cluster = "dgx-a100";
  const PerturbedStep all = perturbed(a100);
  CHECK(mixed.step_time == doctest::Approx(all.before).epsilon(0.01));
  CHECK(mixed.before < all.before);
}

TEST_CASE("a machine that cannot stand in for the others is refused") {
  CHECK_THROWS_WITH_AS(resolve(on_nodes(2, "\"ddp\"", "node=1:machine=dgx-z100")),
                       doctest::Contains("node=1:machine=dgx-z100"), InputError);
}

TEST_CASE(
    "ranks with whole links do not wait for those with a slow NIC, whose kernels are as theirs") {
  // All meet in every gather, which takes as long for all; nothing makes anybody late to the next.
  Scenario s = on_nodes(4, "\"fsdp2\"", "node=1,nic=2:slow=0.5");
  s.seq_len = 1024;
  s.micro_batch = 8;
  const PerturbedStep step = perturbed(s);
  CHECK(step.step_time > step.before);
  for (const PerturbedClass& each : step.classes) {
    CAPTURE(each.name);
    CHECK(each.waited < 0.01 * (step.step_time - step.before));
  }
}

// Slow, late and missing ranks: who waits where, against answers worked out by hand and against
// runs in which every rank is a role of its own.

#include "sim/forecast/perturb.hpp"

#include <doctest/doctest.h>

#include <map>

#include "base/error.hpp"
#include "sim/forecast/bind.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/schedule/builder.hpp"

using namespace stepcast;

namespace {

using Ranks = std::vector<std::int32_t>;

const RankLayout eight_nodes{64, 8};
const Where here{.file = "--perturb", .line = 0, .key = ""};

Perturbation parsed(const std::string& text) { return parse_perturbation(text, eight_nodes, here); }

std::string refusal(const std::string& text) {
  try {
    parsed(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// Communicators and nothing else.
Schedule bare(Mesh mesh) {
  ScheduleBuilder b("bare", mesh);
  b.communicator("world", Axis::world);
  if (mesh.shard > 1) b.communicator("shard", Axis::shard);
  if (mesh.replicate > 1) b.communicator("replicate", Axis::replicate);
  b.role("all", 0, mesh.world_size());
  b.step("steady");
  return b.take();
}

std::map<std::string, Ranks> classes_of(Mesh mesh, const std::vector<std::string>& texts) {
  const RankLayout layout{mesh.world_size(), 8};
  std::map<std::string, Ranks> result;
  for (const RankClass& each : rank_classes(bare(mesh), parse_perturbations(texts, layout, here))) {
    result[each.name] = each.ranks;
  }
  return result;
}

// A step of one kernel of 1 s and an all-reduce of 1 s behind it, on each of 4 ranks.
struct Step {
  Schedule schedule;
  CostTable costs;
};
Step kernel_and_all_reduce() {
  ScheduleBuilder b("step", Mesh{4, 1});
  b.lane("main");
  const StreamIndex compute = b.stream("compute");
  const CommIndex world = b.communicator("world", Axis::world);
  b.role("all", 0, 4);
  b.step("steady");
  b.at(Phase::backward, b.unit("bucket0"));
  b.compute("compute", compute, {}, {}, {});
  b.collective("all_reduce", CollectiveKind::all_reduce, world, compute, Dtype::fp32, 1,
               Reduction::sum, {}, {});
  Step step{b.take(), {}};
  step.costs = costs_by(step.schedule, [](const Op&) { return 1.0; });
  return step;
}

PerturbedStep perturbed(const std::vector<std::string>& texts, Engine& engine,
                        Seconds timeout = 600) {
  const Step step = kernel_and_all_reduce();
  PerturbOptions options;
  options.perturbations = parse_perturbations(texts, {4, 4}, here);
  options.timeout = timeout;
  return perturb(step.schedule, step.costs, engine, 2.0, options).report;
}

template <typename Check>
void in_both_engines(Check&& check) {
  for (const auto& engine : {make_formula_engine(), make_fluid_engine()}) {
    CAPTURE(engine->name());
    check(*engine);
  }
}

}  // namespace

TEST_CASE("a perturbation names ranks by range or node, and what is wrong with them") {
  CHECK(parsed("rank=17:late=5s").ranks == Ranks{17});
  CHECK(parsed("rank=17:late=5s").late == 5);
  CHECK(parsed("rank=8-10:late=200ms").ranks == Ranks{8, 9, 10});
  CHECK(parsed("rank=8-10:late=200ms").late == doctest::Approx(0.2));
  CHECK(parsed("node=3:slow=0.8").ranks == Ranks{24, 25, 26, 27, 28, 29, 30, 31});
  CHECK(parsed("node=3:slow=0.8").speed == 0.8);
  CHECK(parsed("rank=0:missing").kind == Perturbation::Kind::missing);
}

TEST_CASE("jitter is of all ranks: two deviations, and a seed if it matters") {
  const Perturbation jitter = parsed("all:jitter=0.01/0.05/7");
  CHECK(jitter.kind == Perturbation::Kind::jitter);
  CHECK(jitter.jitter.persistent == 0.01);
  CHECK(jitter.jitter.kernel == 0.05);
  CHECK(jitter.jitter.seed == 7);
  CHECK(parsed("all:jitter=0/0.05").jitter.seed == 1);
}

TEST_CASE("jitter comes on top: the one kernel of each of 4 ranks, as late as the latest of four") {
  // 1.0294 deviations of hypot(3 %, 4 %) = 5 % of 1 s.
  in_both_engines([](Engine& engine) {
    const PerturbedStep step = perturbed({"all:jitter=0.03/0.04"}, engine);
    REQUIRE(step.jitter);
    CHECK(step.jitter->expected == doctest::Approx(1.02938 * 0.05).epsilon(1e-5));
    CHECK(step.step_time == doctest::Approx(2 + 1.02938 * 0.05).epsilon(1e-5));
    REQUIRE(step.jitter->drawn);
    CHECK(*step.jitter->drawn > 0);
    CHECK_FALSE(step.once);
  });
}

TEST_CASE("jitter on top of a profile's: of independent causes the squares add") {
  // Ranks differ by 3 % anyway, 4 % more make 5 %.
  const Step step = kernel_and_all_reduce();
  PerturbOptions options;
  options.perturbations = parse_perturbations({"all:jitter=0.04/0"}, {4, 4}, here);
  options.rank_jitter = 0.03;
  options.straggling = 1.02938 * 0.03;
  in_both_engines([&](Engine& engine) {
    const double before = 2 + options.straggling;
    const PerturbedStep p = perturb(step.schedule, step.costs, engine, before, options).report;
    CHECK(p.jitter->expected == doctest::Approx(1.02938 * 0.02).epsilon(1e-5));
    CHECK(p.step_time == doctest::Approx(2 + 1.02938 * 0.05).epsilon(1e-5));
  });
}

TEST_CASE("what no perturbation says is refused with what is accepted") {
  CHECK(
      refusal("rank=17").starts_with("--perturb: 'rank=17': accepted: rank=R, rank=A-B or node=N, "
                                     "then :late=5s, :missing, :slow=0.8 or (a node)"));
  CHECK(refusal("rank=64:missing") ==
        "--perturb: 'rank=64:missing': accepted: ranks 0 to 63, the lower one first");
  CHECK(refusal("node=8:missing").find("nodes 0 to 7") != std::string::npos);
  CHECK(refusal("rank=9-8:missing").find("the lower one first") != std::string::npos);
  CHECK(refusal("rank=1:late=5").find("a time with its unit") != std::string::npos);
  CHECK(refusal("rank=1:late=-5s").find("a time with its unit") != std::string::npos);
  CHECK(refusal("rank=1:slow=1.5").find("0.001 to 1") != std::string::npos);
  CHECK(refusal("rank=1:slow=nan").find("0.001 to 1") != std::string::npos);
  CHECK(refusal("gpu=1:missing").find("accepted: rank=R") != std::string::npos);
  CHECK(refusal("rank=1:sloow=0.5").find("accepted: rank=R") != std::string::npos);
  CHECK(refusal("all:jitter=0.5/0").find("accepted: 0 to 0.3") != std::string::npos);
  CHECK(refusal("all:jitter=0.1").find("all:jitter=P/K") != std::string::npos);
  CHECK_THROWS_WITH_AS(
      parse_perturbations({"rank=1-3:slow=0.5", "rank=2:slow=0.8"}, eight_nodes, here),
      "--perturb: 'rank=2:slow=0.8' says of rank 2 what 'rank=1-3:slow=0.5' said already; "
      "accepted: each once",
      InputError);
}

TEST_CASE("a slow GPU under HSDP makes four classes: it, its shard group, its replicas, the rest") {
  const auto classes = classes_of({8, 8}, {"rank=17:slow=0.8"});
  REQUIRE(classes.size() == 4);
  CHECK(classes.at("rank 17") == Ranks{17});
  CHECK(classes.at("its shard group") == Ranks{16, 18, 19, 20, 21, 22, 23});
  CHECK(classes.at("its replicas") == Ranks{1, 9, 25, 33, 41, 49, 57});
  CHECK(classes.at("the rest").size() == 64 - 1 - 7 - 7);
}

TEST_CASE("the number of classes does not grow with the number of ranks") {
  const auto classes = classes_of({2048, 8}, {"rank=17:slow=0.8"});
  REQUIRE(classes.size() == 4);
  CHECK(classes.at("its replicas").size() == 2047);
  CHECK(classes.at("the rest").size() == 16384 - 1 - 7 - 2047);
}

TEST_CASE("without a second axis there are two classes: the slow one and the rest") {
  for (const Mesh mesh : {Mesh{64, 1}, Mesh{1, 64}}) {
    const auto classes = classes_of(mesh, {"rank=17:slow=0.8"});
    REQUIRE(classes.size() == 2);
    CHECK(classes.at("the rest").size() == 63);
  }
}

TEST_CASE("ranks in the same position are one class, others are not") {
  // 17 and 26 are slow in different groups and columns: their groups look alike, and so do their
  // columns. But 18 (in 17's group and 26's column) and 25 (the other way round) meet both.
  const auto both = classes_of({8, 8}, {"rank=17:slow=0.8", "rank=26:slow=0.8"});
  REQUIRE(both.size() == 5);
  CHECK(both.at("ranks 17, 26") == Ranks{17, 26});
  // A whole slow node under HSDP: it and the rest, since every column has one of each.
  CHECK(classes_of({8, 8}, {"node=2:slow=0.8"}).size() == 2);
}

TEST_CASE("a role of listed ranks is a sound schedule") {
  const Step step = kernel_and_all_reduce();
  const auto classes =
      rank_classes(step.schedule, parse_perturbations({"rank=1:slow=0.5"}, {4, 4}, here));
  const Schedule split = split_roles(step.schedule, classes);
  REQUIRE(split.roles.size() == 2);
  CHECK(split.roles[1].listed == Ranks{0, 2, 3});
  CHECK(split.roles[1].rank(1) == 2);
}

TEST_CASE("slow: kernels of 1 s take 1.25 s at 0.8, the collective still 1 s, peers wait 0.25 s") {
  in_both_engines([](Engine& engine) {
    const PerturbedStep step = perturbed({"rank=2:slow=0.8"}, engine);
    CHECK_FALSE(step.once);
    CHECK(step.step_time == doctest::Approx(2.25));
    CHECK(step.lost() == doctest::Approx(0.25));
    CHECK(step.goodput == doctest::Approx(2 / 2.25));
    REQUIRE(step.classes.size() == 2);
    CHECK(step.classes[0].name == "rank 2");
    CHECK(step.classes[0].waited == 0);
    CHECK(step.classes[1].waited == doctest::Approx(0.25));
    REQUIRE(step.classes[1].waits.size() == 1);
    CHECK(step.classes[1].waits[0].op == "backward.all_reduce.bucket0");
  });
}

TEST_CASE("late: every peer stands in the collective for as long, and the step loses it whole") {
  in_both_engines([](Engine& engine) {
    const PerturbedStep step = perturbed({"rank=2:late=5s"}, engine);
    CHECK(step.once);
    CHECK(step.step_time == doctest::Approx(7));
    CHECK(step.goodput == doctest::Approx(2.0 / 7));
    CHECK(step.classes[0].waited == 0);
    CHECK(step.classes[1].waited == doctest::Approx(5));
    CHECK_FALSE(step.torn_down);
  });
}

TEST_CASE("late by more than the timeout ends the job, counted from the issue of the collective") {
  // Issued at 0 by the peers, it would end at 7: with a timeout of 4 s the job ends at 4.
  in_both_engines([](Engine& engine) {
    const PerturbedStep step = perturbed({"rank=2:late=5s"}, engine, 4);
    CHECK(step.torn_down);
    CHECK(step.ended_at == doctest::Approx(4));
    CHECK(step.goodput == 0);
    CHECK(step.timed_out_at == "backward.all_reduce.bucket0");
  });
}

TEST_CASE("missing: peers stand at the named collective since they came to it") {
  in_both_engines([](Engine& engine) {
    const PerturbedStep step = perturbed({"rank=2:missing"}, engine);
    CHECK(step.torn_down);
    CHECK(step.ended_at == doctest::Approx(600));
    REQUIRE(step.classes.size() == 2);
    CHECK(step.classes[0].stalled_at.empty());
    CHECK(step.classes[1].stalled_at == "backward.all_reduce.bucket0");
    CHECK(step.classes[1].stalled_since == doctest::Approx(1));
    CHECK(step.classes[1].stalled_for == std::vector<std::string>{"rank 2"});
  });
}

TEST_CASE("slow and late together: the late step is measured from the slow one") {
  // Every step 2.25 s; this one begins 1 s late on the slow rank itself.
  in_both_engines([](Engine& engine) {
    const PerturbedStep step = perturbed({"rank=2:slow=0.8", "rank=2:late=1s"}, engine);
    CHECK(step.step_time == doctest::Approx(3.25));
    CHECK(step.classes[1].waited == doctest::Approx(1.25));
  });
}

namespace {

struct Built {
  Resolved resolved;
  Schedule schedule;
  CostTable costs;
};

Built built(const std::string& strategy, const std::string& more = "seq_len = 256\n") {
  Built b;
  b.resolved = resolve(parse_scenario(
      "model = \"gpt2\"\ncluster = \"dgx-h100\"\ngpus = 8\nstrategy = " + strategy + "\n" + more,
      "test"));
  const Collectives collectives(b.resolved.cluster, b.resolved.step.mesh, b.resolved.collectives);
  b.schedule = build_schedule(b.resolved.step);
  b.costs = bind_costs(b.schedule, b.resolved.cluster, collectives, b.resolved.profile);
  return b;
}

const std::vector<std::string> three_strategies{"\"ddp\"", "\"fsdp2\"",
                                                "\"hsdp\"\nshard_group = 2"};

// Folded into classes, each class waits as each of its ranks does when all 8 are roles. A slow GPU
// needs kernels that set the pace, not the host, or it loses nothing.
void compare_with_unfolded(Engine& engine, const std::string& strategy, const std::string& text) {
  CAPTURE(engine.name());
  CAPTURE(strategy);
  CAPTURE(text);
  const bool slow = text.find("slow") != std::string::npos;
  const Built b = built(strategy, slow ? "seq_len = 1024\nmicro_batch = 16\n" : "seq_len = 256\n");
  const Seconds before = engine.run(b.schedule, b.costs).period();
  PerturbOptions options;
  options.perturbations = parse_perturbations({text}, {8, 8}, here);
  const PerturbedStep folded = perturb(b.schedule, b.costs, engine, before, options).report;
  options.folding = Folding::none;
  const PerturbedStep alone = perturb(b.schedule, b.costs, engine, before, options).report;
  REQUIRE(alone.classes.size() == 8);
  CHECK(folded.classes.size() < 8);
  CHECK(folded.step_time == doctest::Approx(alone.step_time).epsilon(1e-6));
  if (slow) CHECK(folded.step_time > 1.1 * before);
  CHECK(folded.torn_down == alone.torn_down);
  for (const RankClass& each : rank_classes(b.schedule, options.perturbations)) {
    for (const PerturbedClass& row : folded.classes) {
      if (row.name != each.name) continue;
      for (const std::int32_t rank : each.ranks) {
        const PerturbedClass& single = alone.classes[static_cast<std::size_t>(rank)];
        CHECK(row.waited == doctest::Approx(single.waited).epsilon(1e-6));
        CHECK(row.stalled_at == single.stalled_at);
        CHECK(row.stalled_since == doctest::Approx(single.stalled_since).epsilon(1e-6));
      }
    }
  }
}

}  // namespace

TEST_CASE("formula: late, missing and slow under DDP, FSDP2 and HSDP equal the unfolded run") {
  const auto engine = make_formula_engine();
  for (const std::string& strategy : three_strategies) {
    for (const char* text : {"rank=5:late=100ms", "rank=5:missing", "rank=5:slow=0.8"}) {
      compare_with_unfolded(*engine, strategy, text);
    }
  }
}

TEST_CASE("fluid: late, missing and slow under DDP, FSDP2 and HSDP equal the unfolded run") {
  const auto engine = make_fluid_engine();
  for (const std::string& strategy : three_strategies) {
    for (const char* text : {"rank=5:late=100ms", "rank=5:missing", "rank=5:slow=0.8"}) {
      compare_with_unfolded(*engine, strategy, text);
    }
  }
}

TEST_CASE("a missing rank under HSDP: its group stands in a gather, the others in an all-reduce") {
  const Built b = built("\"hsdp\"\nshard_group = 2");
  PerturbOptions options;
  options.perturbations = parse_perturbations({"rank=5:missing"}, {8, 8}, here);
  const auto engine = make_formula_engine();
  const PerturbedStep step = perturb(b.schedule, b.costs, *engine, 1, options).report;
  std::map<std::string, PerturbedClass> by_name;
  for (const PerturbedClass& row : step.classes) by_name[row.name] = row;
  REQUIRE(by_name.size() == 4);
  CHECK(by_name.at("its shard group").stalled_at.find("all_gather") != std::string::npos);
  CHECK(by_name.at("its shard group").stalled_for == std::vector<std::string>{"rank 5"});
  CHECK(by_name.at("its replicas").stalled_at.find("all_reduce") != std::string::npos);
  CHECK(by_name.at("its replicas").stalled_for == std::vector<std::string>{"rank 5"});
  // The rest wait for the peers of the missing one's group, who wait for it.
  CHECK(by_name.at("the rest").stalled_at == by_name.at("its replicas").stalled_at);
  CHECK(by_name.at("the rest").stalled_for == std::vector<std::string>{"its shard group"});
}

TEST_CASE("V36: FSDP waits for the slowest rank every micro-batch, HSDP once an accumulation") {
  // Four micro-batches on 8 GPUs. In micro-batch m the two GPUs 2m and 2m+1 are half as fast. FSDP
  // meets all of them in every gather, so each micro-batch takes its slowest rank's time: all four
  // are slow. Under HSDP the shard groups are these pairs: each loses in one micro-batch of its
  // own, and they meet in the last one's all-reduce: the step loses once.
  const auto lost = [](const std::string& strategy) {
    const Built b = built(strategy, "accumulation = 4\nmicro_batch = 64\nseq_len = 1024\n");
    const std::vector<RankClass> ranks = rank_classes(b.schedule, {}, Folding::none);
    const Schedule split = split_roles(b.schedule, ranks);
    std::vector<RankClass> half = ranks;
    for (RankClass& each : half) each.speed = 0.5;
    const CostTable slow = split_costs(b.costs, b.schedule, half);
    CostTable costs = slow;  // holds both twins of every cost
    for (std::size_t r = 0; r < 8; ++r) {
      for (std::size_t p = 0; p < costs.cost_of[r].size(); ++p) {
        const std::vector<Op>& ops = split.roles[r].steps[p].ops;
        for (std::size_t i = 0; i < ops.size(); ++i) {
          const bool is_slow = ops[i].micro_batch == static_cast<int>(r) / 2 &&
                               (ops[i].phase == Phase::forward || ops[i].phase == Phase::backward);
          if (!is_slow) costs.cost_of[r][p][i] = b.costs.cost_of[0][p][i];
        }
      }
    }
    const auto engine = make_formula_engine();
    return engine->run(split, costs).period() - engine->run(b.schedule, b.costs).period();
  };
  const Seconds fsdp = lost("\"fsdp2\"");
  const Seconds hsdp = lost("\"hsdp\"\nshard_group = 2");
  CHECK(hsdp > 0);
  CHECK(fsdp == doctest::Approx(4 * hsdp).epsilon(0.05));
}

TEST_CASE("a scenario's perturbations come with its forecast, and without them nothing changes") {
  Scenario scenario = parse_scenario(
      "model = \"gpt2\"\ncluster = \"dgx-h100\"\ngpus = 8\nseq_len = 256\nstrategy = \"ddp\"\n"
      "perturb = [\"rank=3:late=2s\", \"rank=4-5:slow=0.9\"]\n",
      "test");
  const Forecast with = forecast(scenario);
  REQUIRE(with.report.perturbed);
  CHECK(with.report.perturbed->asked.size() == 2);
  // Rank 3 is late by 2 s and itself not slow: less than what ranks 4 and 5 lose comes on top.
  CHECK(with.report.perturbed->lost() == doctest::Approx(2).epsilon(0.01));
  scenario.perturb.reset();
  const Forecast without = forecast(scenario);
  CHECK_FALSE(without.report.perturbed);
  CHECK(with.report.step_time == without.report.step_time);
}

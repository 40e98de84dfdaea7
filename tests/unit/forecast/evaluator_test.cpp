// The evaluator against forecast(): the same figures to the last bit, whatever came before.
#include "sim/forecast/evaluator.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/forecast/scenario_keys.hpp"

using namespace stepcast;

namespace {

Scenario scenario(const std::string& text) {
  return parse_scenario("model = \"gpt2\"\nseq_len = 512\n" + text, "s.toml");
}

Evaluation whole(const Scenario& s) {
  Evaluation e;
  try {
    const Forecast f = forecast(s, {.search_change = false});
    return evaluation_of(f.report, f.resolved.profile);
  } catch (const InputError& error) {
    e.state = Evaluation::State::refused;
    e.why = error.what();
  } catch (const InfeasibleError& error) {
    e.state = Evaluation::State::infeasible;
    e.why = error.what();
  }
  return e;
}

void check_same(const Evaluation& a, const Evaluation& b) {
  CHECK(a.state == b.state);
  CHECK(a.why == b.why);
  CHECK(a.strategy == b.strategy);
  CHECK(a.engine == b.engine);
  CHECK(a.nodes == b.nodes);
  CHECK(a.gpus == b.gpus);
  CHECK(a.mesh.replicate == b.mesh.replicate);
  CHECK(a.mesh.shard == b.mesh.shard);
  CHECK(a.step_time == b.step_time);
  CHECK(a.interval.low == b.interval.low);
  CHECK(a.interval.high == b.interval.high);
  CHECK(a.samples_per_second == b.samples_per_second);
  CHECK(a.tokens_per_second == b.tokens_per_second);
  CHECK(a.tflops_per_gpu == b.tflops_per_gpu);
  CHECK(a.mfu == b.mfu);
  CHECK(a.hfu == b.hfu);
  CHECK(a.split.compute == b.split.compute);
  CHECK(a.split.copies == b.split.copies);
  CHECK(a.split.interference == b.split.interference);
  CHECK(a.split.optimizer == b.split.optimizer);
  CHECK(a.split.host == b.split.host);
  CHECK(a.split.other == b.split.other);
  REQUIRE(a.split.exposed.size() == b.split.exposed.size());
  for (std::size_t i = 0; i < a.split.exposed.size(); ++i) {
    CHECK(a.split.exposed[i].cause == b.split.exposed[i].cause);
    CHECK(a.split.exposed[i].seconds == b.split.exposed[i].seconds);
  }
  CHECK(a.binding == b.binding);
  CHECK(a.perturbed_step_time == b.perturbed_step_time);
  CHECK(a.memory_peak == b.memory_peak);
  CHECK(a.memory_reserved == b.memory_reserved);
  CHECK(a.memory_capacity == b.memory_capacity);
}

// Forwards, and backwards in an evaluator that knows other things by then.
void play(const std::vector<Scenario>& scenarios) {
  Evaluator forwards, backwards;
  std::vector<Evaluation> told;
  for (const Scenario& s : scenarios) told.push_back(forwards.evaluate(s));
  for (std::size_t i = scenarios.size(); i-- > 0;) {
    CAPTURE(to_toml(scenarios[i]));
    const Evaluation expected = whole(scenarios[i]);
    check_same(told[i], expected);
    check_same(backwards.evaluate(scenarios[i]), expected);
  }
}

const std::vector<std::string> strategies{"dp",    "ddp",   "zero1", "zero2",
                                          "zero3", "fsdp1", "fsdp2", "hsdp"};

}  // namespace

TEST_CASE("an evaluator says what forecast says, under all strategies, sizes and engines") {
  std::vector<Scenario> grid;
  for (const std::string& strategy : strategies) {
    for (const char* engine : {"formula", "fluid"}) {
      for (const char* cluster : {"dgx-h100", "dgx-a100"}) {
        for (const char* size : {"gpus = 4", "nodes = 2", "nodes = 6"}) {
          grid.push_back(scenario("strategy = \"" + strategy + "\"\nengine = \"" + engine +
                                  "\"\ncluster = \"" + cluster + "\"\n" + size + "\n"));
        }
      }
    }
  }
  play(grid);
}

TEST_CASE("an evaluator says what forecast says where points differ in rates only") {
  std::vector<Scenario> grid;
  for (const std::string strategy : {"ddp", "fsdp1", "fsdp2", "zero3"}) {
    for (const char* rate :
         {"", "nic_gbps = 12.5", "fabric = \"rail_only\"", "oversubscription = 4", "leaf_ports = 4",
          "network = \"ethernet\"", "gpudirect_rdma = false", "nccl_version = \"2.30.7\"",
          "nccl = \"NCCL_ALGO=Ring NCCL_MAX_NCHANNELS=2\"", "collective_corrections = false",
          "expandable_segments = true", "max_split_size_mb = 32", "engine = \"formula\"",
          "profile = \"pytorch-compile\""}) {
      grid.push_back(scenario("cluster = \"dgx-h100\"\nnodes = 4\nstrategy = \"" + strategy +
                              "\"\n" + rate + "\n"));
    }
  }
  play(grid);
}

TEST_CASE("an evaluator says what forecast says of what does not fit and of what is refused") {
  std::vector<Scenario> grid;
  for (const char* text :
       {"micro_batch = 4096", "micro_batch = 64", "micro_batch = 96", "step = \"first\"",
        "perturb = [\"rank=3:slow=0.5\"]", "perturb = [\"rank=3:missing\"]",
        "perturb = [\"node=0,nic=2:down\"]", "unused_parameters = [\"transformer.h.11.*\"]",
        "unused_parameters = [\"transformer.h.11.*\"]\nunused_on_ranks = [1]", "shard_group = 4",
        "wrap = \"size\"", "model = \"gpt3\"", "cluster = \"abacus\"", "image_size = 224",
        "loader_workers = 2\nstorage_gbps = 0.001"}) {
    Scenario s = scenario("");
    const std::string added = text;
    // The last word counts, also over the two keys that scenario() gives.
    for (const std::string& line : {std::string("cluster = \"dgx-h100\"\nnodes = 2\n"),
                                    std::string("strategy = \"ddp\"\n"), added + "\n"}) {
      s = merged(s, parse_scenario(line, "s.toml"));
    }
    grid.push_back(s);
  }
  play(grid);
}

TEST_CASE("no rate is part of a schedule") {
  // What evaluator.cpp leaves out of a schedule's identity, changed one by one.
  const std::string base = "cluster = \"dgx-h100\"\nnodes = 4\n";
  for (const std::string strategy : {"ddp", "zero2", "zero3", "fsdp1", "fsdp2", "hsdp"}) {
    const std::string text = base + "strategy = \"" + strategy + "\"\n";
    const Schedule plain = build_schedule(resolve(scenario(text)).step);
    for (const char* rate :
         {"nic_gbps = 1.5", "oversubscription = 8", "fabric = \"single_switch\"", "leaf_ports = 2",
          "network = \"efa\"", "gpudirect_rdma = false", "nccl_version = \"2.30.7\"",
          "nccl = \"NCCL_PROTO=Simple\"", "collective_corrections = false", "engine = \"formula\"",
          "expandable_segments = true", "max_split_size_mb = 64"}) {
      CAPTURE(strategy);
      CAPTURE(rate);
      CHECK(equal(plain, build_schedule(resolve(scenario(text + rate + "\n")).step)));
    }
    // The comparison sees what does differ.
    CHECK_FALSE(equal(plain, build_schedule(resolve(scenario(text + "micro_batch = 2\n")).step)));
  }
}

TEST_CASE("what binds a step is its largest part, named by what more of would help") {
  Report report;
  report.split.compute = 4;
  report.split.host = 3;
  report.split.exposed = {{"tail_all_reduce", 2.5}, {"backward_all_reduce", 2.5}, {"loader", 4.5}};
  CollectiveRow& row = report.collectives.emplace_back();
  row.kind = CollectiveKind::all_reduce;
  row.calls = 2;
  row.cost.seconds = 3;
  row.cost.predicted.wire_us = 2e6;
  row.cost.predicted.latency_us = 1e6;
  row.cost.loads = {{Name("nvlink"), 1, 0.5}, {Name("nic"), 1, 2}};
  CHECK(binding(report) == "nic");  // 5 of both causes, over 4.5 and 4
  // The NIC's own PCIe link, which NCCL rates just below it, is the way to the network.
  row.cost.loads = {{Name("pcie"), 1, 2.05}, {Name("nic"), 1, 2}};
  CHECK(binding(report) == "nic");
  row.cost.loads = {{Name("pcie"), 1, 3}, {Name("nic"), 1, 2}};
  CHECK(binding(report) == "pcie");
  row.cost.fixed = 2;  // of 3 s: more than half does not grow with bytes
  CHECK(binding(report) == "latency");
  report.split.compute = 6;
  CHECK(binding(report) == "compute");
}

TEST_CASE("a point that does not fit is bound by memory") {
  Evaluator evaluator;
  const Evaluation e = evaluator.evaluate(
      scenario("cluster = \"dgx-h100\"\nstrategy = \"ddp\"\nmicro_batch = 1024\n"));
  CHECK(e.state == Evaluation::State::does_not_fit);
  CHECK(e.binding == "memory");
  CHECK(e.why.find("does not fit: ") == 0);
  CHECK(e.step_time > 0);
}

TEST_CASE("an evaluator's report is forecast's, and its peak the fullest role's") {
  Evaluator evaluator;
  for (const std::string strategy : {"ddp", "fsdp2", "hsdp"}) {
    for (const char* more : {"nodes = 2", "nodes = 4\nengine = \"formula\"",
                             "nodes = 2\nperturb = [\"rank=3:slow=0.5\"]"}) {
      CAPTURE(more);
      const Scenario s =
          scenario("cluster = \"dgx-h100\"\nstrategy = \"" + strategy + "\"\n" + more + "\n");
      const Forecast f = forecast(s, {.search_change = false});
      const EvaluatedReport e = evaluator.report(s);
      CHECK(e.profile.name == f.resolved.profile.name);
      CHECK(e.report.step_time == f.report.step_time);
      REQUIRE(e.report.collectives.size() == f.report.collectives.size());
      for (std::size_t i = 0; i < e.report.collectives.size(); ++i) {
        CHECK(e.report.collectives[i].kind == f.report.collectives[i].kind);
        CHECK(e.report.collectives[i].calls == f.report.collectives[i].calls);
      }
      Bytes peak = 0;
      for (const RoleMemory& role : f.report.memory) peak = std::max(peak, role.peak);
      CHECK(evaluator.memory_peak(s) == peak);
    }
  }
  // The place where a strategy's key was said is in the sentence, as forecast() has it.
  const Scenario wrong = scenario("cluster = \"dgx-h100\"\nstrategy = \"ddp\"\nshard_group = 4\n");
  std::string expected;
  try {
    forecast(wrong);
  } catch (const InputError& error) {
    expected = error.what();
  }
  CHECK_FALSE(expected.empty());
  CHECK_THROWS_WITH_AS(evaluator.report(wrong), expected.c_str(), InputError);
  CHECK_THROWS_WITH_AS(evaluator.memory_peak(wrong), expected.c_str(), InputError);
}

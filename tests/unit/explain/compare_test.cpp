// Differences that add up, by cause and by aspect.
#include "sim/explain/compare.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.hpp"

using namespace stepcast;

namespace {

Scenario of(const std::string& more) {
  return parse_scenario("model = \"llama-3.2-1b\"\nseq_len = 2048\nmicro_batch = 2\n" + more,
                        "test");
}

StepComparison compared(const Scenario& a, const Scenario& b) {
  return compare_steps(a, b, "A", "B");
}

// Whatever was exchanged: both accounts are of the whole difference.
void check_sums(const StepComparison& c) {
  const Seconds difference = c.b.step_time - c.a.step_time;
  Seconds by_cause = 0, a = 0, by_aspect = 0;
  for (const CauseDifference& d : c.causes) {
    by_cause += d.b - d.a;
    a += d.a;
  }
  for (const AspectDifference& d : c.aspects) by_aspect += d.difference;
  CHECK(a == doctest::Approx(c.a.step_time).epsilon(1e-9));
  CHECK(by_cause - difference == doctest::Approx(0).scale(c.a.step_time).epsilon(1e-9));
  CHECK(by_aspect - difference == doctest::Approx(0).scale(c.a.step_time).epsilon(1e-9));
  if (!c.aspects.empty()) CHECK(c.aspects.back().step == doctest::Approx(c.b.step_time));
}

const AspectDifference* find(const StepComparison& c, const std::string& aspect) {
  const auto found = std::find_if(c.aspects.begin(), c.aspects.end(),
                                  [&](const AspectDifference& d) { return d.aspect == aspect; });
  return found == c.aspects.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("two machines differ by GPU, network and node, and the three add up") {
  const std::string rest = "nodes = 2\nstrategy = \"fsdp2\"\n";
  const StepComparison c =
      compared(of(rest + "cluster = \"gcp-a3-mega\"\n"), of(rest + "cluster = \"hgx-b200\"\n"));
  check_sums(c);
  REQUIRE(c.aspects.size() == 3);
  CHECK(c.aspects[0].aspect == "GPU");
  CHECK(c.aspects[0].difference < 0);  // a B200 is faster
  CHECK(c.aspects[1].aspect == "network");
  CHECK(c.aspects[1].changes.find("200 GB/s a node, tcpxo -> 400 GB/s, infiniband") == 0);
  CHECK(c.aspects[1].difference < 0);
  CHECK(c.aspects[2].aspect == "node");
}

// Four NICs on PCIe Gen3 x16 pass 48 GB/s: they carry their 50 already, and faster ones would
// change nothing in that node.
TEST_CASE("NICs that fill their PCIe links are exchanged with the node") {
  const std::string rest = "nodes = 2\nstrategy = \"fsdp2\"\n";
  const StepComparison c =
      compared(of(rest + "cluster = \"aws-p4d\"\n"), of(rest + "cluster = \"dgx-h100\"\n"));
  check_sums(c);
  REQUIRE(c.aspects.size() == 2);
  CHECK(c.aspects[1].aspect == "network and node");
  CHECK(c.aspects[1].changes.find("50 GB/s a node, efa -> 400 GB/s, infiniband, of which the PCIe "
                                  "of aws-p4d passes 48 GB/s") == 0);
  CHECK(c.aspects[1].difference < 0);
}

TEST_CASE("machines with the same GPU differ by network and node only") {
  const std::string rest = "nodes = 2\nstrategy = \"ddp\"\n";
  const StepComparison c =
      compared(of(rest + "cluster = \"dgx-h100\"\n"), of(rest + "cluster = \"gcp-a3-high\"\n"));
  check_sums(c);
  CHECK(find(c, "GPU") == nullptr);
  REQUIRE(find(c, "network") != nullptr);
  CHECK(find(c, "network")->difference > 0);  // half the NICs of half the speed
}

TEST_CASE("one key is one aspect, with what it was and is") {
  const std::string rest = "cluster = \"dgx-a100\"\nstrategy = \"ddp\"\n";
  const StepComparison c = compared(of(rest), of(rest + "bucket_cap_mb = 1\n"));
  check_sums(c);
  REQUIRE(c.aspects.size() == 1);
  CHECK(c.aspects[0].aspect == "strategy");
  CHECK(c.aspects[0].changes == "bucket_cap_mb default -> 1");
}

TEST_CASE("several keys are exchanged aspect by aspect") {
  Scenario a = of("cluster = \"dgx-a100\"\nstrategy = \"ddp\"\n");
  Scenario b =
      of("cluster = \"dgx-a100\"\nstrategy = \"fsdp2\"\nnodes = 2\naccumulation = 2\n"
         "reshard_after_forward = false\nprofile = \"pytorch-compile\"\n");
  const StepComparison c = compared(a, b);
  check_sums(c);
  CHECK(find(c, "nodes") != nullptr);
  CHECK(find(c, "batch") != nullptr);
  CHECK(find(c, "strategy") != nullptr);
  CHECK(find(c, "software") != nullptr);
}

TEST_CASE("a step beside itself differs in nothing") {
  const Scenario a = of("cluster = \"dgx-a100\"\nstrategy = \"ddp\"\n");
  const StepComparison c = compared(a, a);
  check_sums(c);
  CHECK(c.aspects.empty());
  CHECK(to_text(c).find("nothing that the step depends on differs") != std::string::npos);
}

TEST_CASE("what cannot be exchanged alone goes together with the next") {
  // A V100 has no bf16: its kernels cannot run A's bf16 schedule.
  const std::string rest = "nodes = 2\nstrategy = \"ddp\"\n";
  const StepComparison c =
      compared(of(rest + "cluster = \"dgx-a100\"\n"), of(rest + "cluster = \"dgx-1v\"\n"));
  check_sums(c);
  REQUIRE_FALSE(c.aspects.empty());
  CHECK(c.aspects.front().aspect.find("GPU and ") == 0);
}

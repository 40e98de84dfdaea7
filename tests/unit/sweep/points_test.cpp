// Which points a sweep has, and by what they are known.
#include "sim/sweep/points.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "tests/unit/sweep/message.hpp"

using namespace stepcast;
using test::message;

namespace {

Scenario base(const std::string& more = "") {
  return parse_scenario("model = \"gpt2\"\ncluster = \"dgx-h100\"\n" + more, "s.toml");
}

std::vector<SweepAxis> axes(const std::vector<std::string>& texts) {
  std::vector<SweepAxis> list;
  for (const std::string& text : texts) list.push_back(parse_axis(text));
  return list;
}

std::vector<Expression> conditions(const std::vector<std::string>& texts) {
  std::vector<Expression> list;
  for (const std::string& text : texts) {
    list.push_back(Expression::parse(text, "--where", condition_names()));
  }
  return list;
}

// "strategy=ddp nodes=2", of the keys that vary.
std::vector<std::string> said(const Points& points) {
  std::vector<std::string> list;
  for (std::size_t p = 0; p < points.size(); ++p) {
    std::string text;
    for (const SweepAxis& axis : points.axes()) {
      const std::string value = axis.key->text(points.scenario(p));
      if (!value.empty()) text += (text.empty() ? "" : " ") + axis.name() + "=" + value;
    }
    list.push_back(text);
  }
  return list;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a grid is every combination, the last axis fastest") {
  const Points points(base("strategy = \"ddp\"\n"), axes({"nodes=1,2", "micro_batch=1,4"}), {});
  CHECK(said(points) == Texts{"nodes=1 micro_batch=1", "nodes=1 micro_batch=4",
                              "nodes=2 micro_batch=1", "nodes=2 micro_batch=4"});
  CHECK(points.combinations() == 4);
}

TEST_CASE("a knob that a strategy has not is left out of its points, which are one then") {
  const Points points(
      base(),
      axes({"strategy=ddp,fsdp2,zero1", "bucket_cap_mb=1,25", "reduce_bucket_size=1e8,5e8"}), {});
  CHECK(said(points) == Texts{"strategy=ddp bucket_cap_mb=1", "strategy=ddp bucket_cap_mb=25",
                              "strategy=fsdp2", "strategy=zero1 reduce_bucket_size=100000000",
                              "strategy=zero1 reduce_bucket_size=500000000"});
  CHECK(points.combinations() == 5);
  // Also what the scenario itself says.
  const Points of_base(base("strategy = \"ddp\"\nbucket_cap_mb = 5\n"),
                       axes({"strategy=ddp,fsdp2"}), {});
  CHECK(*of_base.scenario(0).bucket_cap_mb == 5);
  CHECK_FALSE(of_base.scenario(1).bucket_cap_mb);
}

TEST_CASE("shard groups are hybrid strategies' only") {
  const Points points(base("nodes = 2\n"), axes({"strategy=fsdp1,hsdp", "shard_group=4,8"}), {});
  CHECK(said(points) ==
        Texts{"strategy=fsdp1", "strategy=hsdp shard_group=4", "strategy=hsdp shard_group=8"});
}

TEST_CASE("without a choice of strategies a knob that the strategy has not is refused") {
  CHECK(message([] { Points(base("strategy = \"fsdp2\"\n"), axes({"bucket_cap_mb=1,25"}), {}); }) ==
        "--vary: bucket_cap_mb: fsdp2 has no such knob; accepted: keys that it has, or several "
        "strategies (--vary strategy=...)");
  CHECK(message([] { Points(base(), axes({"nodes=1,2"}), {}); }).find("no strategy given") !=
        std::string::npos);
  CHECK(message([] {
          Points(base("strategy = \"ddp\"\n"), axes({"nodes=1", "nodes=2"}), {});
        }) == "--vary: nodes is varied twice; accepted: once");
  CHECK(message([] {
          Points(base("strategy = \"ddp\"\n"), axes({"bucket_cap_mb=1:9:log"}), {});
        }).find("is for --sample") != std::string::npos);
  CHECK(message([] {
          Points(base("strategy = \"ddp\"\n"), axes({"nodes=1:2000", "micro_batch=1:2000"}), {});
        }).find("more than 1,000,000 combinations") != std::string::npos);
}

TEST_CASE("conditions on points know what nobody said: micro_batch 1, gpus of the machine") {
  const Points points(base("strategy = \"ddp\"\n"), axes({"nodes=1,2,4", "accumulation=1,2,4"}),
                      conditions({"micro_batch*accumulation*gpus <= 32", "nodes != 2"}));
  // 8, 16, 32 GPUs: 8 x 1, 2, 4; 32 x 1.
  CHECK(said(points) == Texts{"nodes=1 accumulation=1", "nodes=1 accumulation=2",
                              "nodes=1 accumulation=4", "nodes=4 accumulation=1"});
  CHECK(points.excluded() == 5);
  // What a point has not does not exclude it.
  const Points knobs(base(), axes({"strategy=ddp,fsdp2", "bucket_cap_mb=1,25"}),
                     conditions({"bucket_cap_mb > 5"}));
  CHECK(said(knobs) == Texts{"strategy=ddp bucket_cap_mb=25", "strategy=fsdp2"});
  const Points lengths(base("strategy = \"ddp\"\n"), axes({"micro_batch=1,2"}),
                       conditions({"micro_batch*seq_len <= 1024"}));  // gpt2's own 1024
  CHECK(said(lengths) == Texts{"micro_batch=1"});
}

TEST_CASE("one way to say how many GPUs there are replaces the other") {
  const Points points(base("strategy = \"ddp\"\ngpus = 4\n"), axes({"nodes=1,2"}), {});
  CHECK_FALSE(points.scenario(0).gpus);
}

TEST_CASE("a point is known by what it says, whoever says it") {
  const Points wide(base("strategy = \"ddp\"\n"), axes({"nodes=1,2", "micro_batch=1,4"}), {});
  const Points narrow(base("strategy = \"ddp\"\nnodes = 2\n"), axes({"micro_batch=4"}), {});
  CHECK(narrow.key(0) == wide.key(3));
  CHECK(narrow.key(0).size() == 32);
  CHECK(narrow.key(0, "formula") != narrow.key(0));
  std::set<std::string> keys;
  for (std::size_t p = 0; p < wide.size(); ++p) keys.insert(wide.key(p));
  CHECK(keys.size() == 4);
  CHECK(wide.fingerprint() != narrow.fingerprint());
}

TEST_CASE("a default that is said is the point of one that is not") {
  const Points silent(base("strategy = \"ddp\"\n"), axes({"nodes=1,2"}), {});
  for (const char* axis : {"accumulation=1,33", "micro_batch=1,2", "checkpointing=none,full"}) {
    CAPTURE(axis);
    const Points said(base("strategy = \"ddp\"\n"), axes({"nodes=1,2", axis}), {});
    CHECK(said.key(0) == silent.key(0));
    CHECK(said.key(2) == silent.key(1));
    CHECK(said.key(1) != silent.key(0));
  }
}

TEST_CASE("work is ordered so that what no schedule depends on varies fastest") {
  const Points points(base("strategy = \"ddp\"\nnodes = 2\n"),
                      axes({"nic_gbps=25,50", "micro_batch=1,2"}), {});
  // Points are (25,1) (25,2) (50,1) (50,2).
  CHECK(points.work_order() == std::vector<std::size_t>{0, 2, 1, 3});
}

TEST_CASE("samples are the same for one seed, others for another, and fill the space") {
  const auto drawn = [](const char* how, std::uint64_t seed) {
    return said(Points(base("strategy = \"ddp\"\n"),
                       axes({"bucket_cap_mb=1:200:log", "micro_batch=1:8"}), {},
                       parse_sampling(how, seed)));
  };
  CHECK(drawn("random:50", 1) == drawn("random:50", 1));
  CHECK(drawn("random:50", 1) != drawn("random:50", 2));
  CHECK(drawn("sobol:64", 0) == drawn("sobol:64", 0));
  CHECK(drawn("sobol:64", 0) != drawn("sobol:64", 3));
  // Of Sobol's first 8 points but the corner every eighth of an axis has one at most: by hand, in
  // one dimension, 1/2 3/4 1/4 3/8 7/8 5/8 1/8.
  const std::vector<std::vector<double>> rows = draw({.sobol = true, .count = 7, .seed = 0}, 1);
  const std::vector<double> expected{0.5, 0.75, 0.25, 0.375, 0.875, 0.625, 0.125};
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(rows[i][0] == expected[i]);
  for (const char* bad :
       {"sobol", "sobol:", "sobol:0", "sobol:1e3", "halton:5", "random:-1", "random:99999999999"}) {
    CAPTURE(bad);
    CHECK(message([&] { parse_sampling(bad, 0); }).find("accepted: sobol:N or random:N") !=
          std::string::npos);
  }
}

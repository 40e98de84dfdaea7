#include "sim/forecast/resolve_fp8.hpp"

#include <doctest/doctest.h>

#include "sim/forecast/forecast.hpp"

using namespace stepcast;

namespace {

Scenario base(const std::string& rest, const std::string& cluster = "dgx-h100",
              const std::string& model = "llama-3-8b") {
  return parse_scenario("model = \"" + model + "\"\ncluster = \"" + cluster + "\"\n" + rest,
                        "s.toml");
}

std::string refusal(const Scenario& scenario) {
  try {
    resolve(scenario);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a recipe stands beside the precision") {
  const Resolved r = resolve(base("strategy = \"ddp\"\nfp8 = \"te-delayed\"\n"));
  CHECK(r.step.workload.fp8 == Fp8Recipe::te_delayed);
  CHECK(r.step.precision.name == "amp-bf16");
  CHECK(resolve(base("strategy = \"ddp\"\nfp8 = \"none\"\n")).step.workload.fp8 == Fp8Recipe::none);
  const Resolved gathered =
      resolve(base("strategy = \"fsdp2\"\nfp8 = \"torchao-tensorwise\"\nfp8_all_gather = true\n"));
  CHECK(gathered.step.workload.fp8_gathered);
  CHECK(gathered.step.strategy.fp8_all_gather);
}

TEST_CASE("fp8 is refused where nothing multiplies it, with file and line") {
  const std::string v100 = refusal(base("strategy = \"ddp\"\nfp8 = \"te-delayed\"\n", "dgx-1v"));
  CHECK(has(v100, "s.toml:4"));
  CHECK(has(v100, "needs matrix products in fp8"));
  CHECK(has(v100, "accepted: none"));
  CHECK(has(refusal(base("strategy = \"ddp\"\nfp8 = \"te-delayed\"\n", "dgx-a100")), "A100"));
  CHECK(has(refusal(base("strategy = \"ddp\"\nfp8 = \"te-delayed\"\nprecision = \"fp32\"\n")),
            "beside a 16-bit precision"));
  CHECK(has(refusal(base("strategy = \"ddp\"\nfp8 = \"te-delayed\"\n", "dgx-h100", "resnet-50")),
            "no blocks with linear layers"));
  CHECK_THROWS_AS(base("strategy = \"ddp\"\nfp8 = \"mx\"\n"), InputError);
}

TEST_CASE("what goes with fp8 all-gather") {
  CHECK(has(refusal(base("strategy = \"fsdp2\"\nfp8 = \"te-delayed\"\nfp8_all_gather = true\n")),
            "needs fp8 torchao-tensorwise"));
  CHECK(has(refusal(base("strategy = \"fsdp2\"\nfp8 = \"torchao-tensorwise\"\n"
                         "fp8_precompute_scale = true\n")),
            "needs fp8_all_gather"));
  CHECK(has(refusal(base("strategy = \"fsdp1\"\nfp8 = \"torchao-tensorwise\"\n"
                         "fp8_all_gather = true\n")),
            "applies to fsdp2, hsdp only"));
  CHECK(has(refusal(base("strategy = \"ddp\"\nfp8 = \"te-delayed\"\njoin_early_ranks = 1\n")),
            "would hang"));
}

TEST_CASE("where casts make fp8 slower than bf16 a note says so, and what would help") {
  const auto note = [](const std::string& rest) {
    const Scenario s =
        base("strategy = \"ddp\"\nseq_len = 8192\nfp8 = \"torchao-tensorwise\"\n" + rest);
    for (const std::string& text : resolve(s).notes) {
      if (text.find("fp8 is slower than bf16 here: kernels of the blocks take ") == 0) return text;
    }
    return std::string();
  };
  CHECK(has(note("profile = \"pytorch-eager\"\n"), "--profile pytorch-compile"));
  CHECK(note("profile = \"pytorch-compile\"\n").empty());
  // It is so: the step of the same scenario.
  const auto step = [](const std::string& fp8) {
    return forecast(base("strategy = \"ddp\"\nseq_len = 8192\ngpus = 1\nengine = \"formula\"\n"
                         "profile = \"pytorch-eager\"\n" +
                         fp8),
                    {.search_change = false})
        .report.step_time;
  };
  CHECK(step("fp8 = \"torchao-tensorwise\"\n") > step(""));
}

TEST_CASE("fp8 is faster, both engines agree on it, and the report says so") {
  const std::string common =
      "strategy = \"fsdp2\"\nseq_len = 8192\nmicro_batch = 1\ncheckpointing = \"full\"\n"
      "profile = \"torchtitan-compile\"\n";
  const auto step = [&](const std::string& rest) {
    return forecast(base(common + rest), {.search_change = false}).report;
  };
  const Report bf16 = step("");
  for (const char* recipe : {"te-delayed", "torchao-tensorwise"}) {
    CAPTURE(std::string(recipe));
    const std::string fp8 = std::string("fp8 = \"") + recipe + "\"\n";
    const Report fluid = step(fp8);
    CHECK(fluid.fp8 == recipe);
    CHECK(fluid.step_time < 0.85 * bf16.step_time);
    CHECK(fluid.step_time > 0.5 * bf16.step_time);  // attention and the head stay
    CHECK(step(fp8 + "engine = \"formula\"\n").step_time ==
          doctest::Approx(fluid.step_time).epsilon(0.05));
  }
}

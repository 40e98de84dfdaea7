// The sources that are compiled in: complete, and split as their pages say.

#include "validate/published/source.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "sim/kernels/profile.hpp"
#include "validate/published/factors.hpp"
#include "validate/published/fits.hpp"
#include "validate/published/outcome.hpp"

using namespace stepcast;

TEST_CASE("every published source has a source, rows and what it must show") {
  std::set<std::string> ids;
  for (const PublishedSource& source : published_sources()) {
    INFO(source.name);
    CHECK_FALSE(source.source.empty());
    CHECK(source.bars.empty() == (source.name == "context" || source.name == "llmf-fp8"));
    for (const MeasuredRow& row : source.rows) {
      CHECK(ids.insert(row.id).second);
      CHECK((row.split == Split::none) == !row.left_out.empty());
    }
  }
}

TEST_CASE("llm-foundry's rows: 24 H100 and 113 A100 rows of one node are fitted, 44 are checked") {
  // 28 H100 rows are of one node; 4 of them are in fp8, which is llmf-fp8.
  std::map<std::string, int> fitted;
  int checked = 0;
  for (const PublishedSource& source : published_sources()) {
    if (source.name != "llmf") continue;
    for (const MeasuredRow& row : source.rows) {
      if (row.split == Split::fit) {
        CHECK(*row.scenario.gpus <= 8);
        ++fitted[*row.scenario.cluster == "hgx-h100-roce-3200" ? "h100" : "a100"];
      }
      checked += row.split == Split::check;
    }
  }
  CHECK(fitted["h100"] == 24);
  CHECK(fitted["a100"] == 113);
  CHECK(checked == 44);
}

TEST_CASE("what was fitted is said: factors by name, those that rows determine among them") {
  for (const PublishedSource& source : published_sources()) {
    for (const ProfileRest& rest : rests_of(source)) {
      INFO(source.name << " " << rest.profile);
      CHECK((rest.fitted_rows == 0 || !rest.factors.empty()));
      for (const std::string& name : rest.factors) CHECK_NOTHROW(factor_named(name, {}));
      for (const std::string& name : rest.determined) {
        CHECK(std::count(rest.factors.begin(), rest.factors.end(), name) == 1);
      }
    }
  }
}

TEST_CASE("llmf-transfer is llmf's H100 rows under a profile that saw none of them") {
  for (const PublishedSource& source : published_sources()) {
    if (source.name != "llmf-transfer") continue;
    CHECK(source.rows.size() == 33);  // 24 of one node and 9 of more
    for (const MeasuredRow& row : source.rows) {
      CHECK(row.split == Split::check);
      CHECK(row.scenario.cluster == "hgx-h100-roce-3200");
      CHECK(row.scenario.profile == "composer-torch2");
    }
    return;
  }
  FAIL("no such source");
}

TEST_CASE("a source says what all its rows have in common") {
  const PublishedSource source =
      parse_source("made",
                   "title = \"t\"\nsource = \"s\"\nreading = \"r\"\n[scenario]\nmodel = \"gpt2\"\n"
                   "cluster = \"dgx-h100\"\nstrategy = \"ddp\"\nmicro_batch = 2\n"
                   "[[bar]]\nfigure = \"step.check.median\"\nat_most = 2.5\n",
                   "gpus,step_ms\n8,100\n1,90\n");
  REQUIRE(source.rows.size() == 2);
  CHECK(source.rows[1].scenario.model == "gpt2");
  CHECK(source.rows[1].scenario.micro_batch == 2);
  CHECK(source.rows[1].scenario.gpus == 1);
  int said = 0;  // once a row is forecast
  const std::vector<Outcome> outcomes = forecast_rows(source, [&] { ++said; });
  REQUIRE(outcomes.size() == 2);
  CHECK(said == 2);
  CHECK(outcomes[0].measured == doctest::Approx(0.1));
  CHECK(outcomes[0].samples_per_gpu == 2);
  CHECK(outcomes[0].nodes == 1);
  CHECK(outcomes[0].forecast > outcomes[1].forecast);  // eight GPUs reduce gradients, one does not
}

TEST_CASE("data in bins of equal length takes the mean of a step at each") {
  const auto forecast = [](const std::string& keys) {
    const PublishedSource source =
        parse_source("made",
                     "title = \"t\"\nsource = \"s\"\nreading = \"r\"\n[scenario]\n"
                     "model = \"gpt2\"\ncluster = \"dgx-h100\"\nstrategy = \"ddp\"\n" +
                         keys,
                     "gpus,step_ms\n1,100\n");
    return forecast_rows(source).front();
  };
  const Outcome shorter = forecast("seq_len = 256\n");
  const Outcome longer = forecast("seq_len = 1024\n");
  const Outcome mixed = forecast(
      "seq_len = 1024\n[[length]]\ntokens = 256\nshare = 0.75\n"
      "[[length]]\ntokens = 1024\nshare = 0.25\n");
  CHECK(mixed.forecast ==
        doctest::Approx(0.75 * shorter.forecast + 0.25 * longer.forecast).epsilon(1e-12));
  CHECK(mixed.samples_per_gpu == longer.samples_per_gpu);
  CHECK(mixed.flops_per_gpu ==
        doctest::Approx(0.75 * shorter.flops_per_gpu + 0.25 * longer.flops_per_gpu));
  CHECK(mixed.interval.low < mixed.forecast);
  CHECK(mixed.interval.high > mixed.forecast);
  CHECK_THROWS_AS(forecast("[[length]]\ntokens = 256\nshare = 0.75\n"), InputError);
}

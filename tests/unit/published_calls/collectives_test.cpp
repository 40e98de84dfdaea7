// The corrections against every published row: what is shipped is what the fit gives, and the
// figures of docs/collectives.md and README.md are what comes out.

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>

#include "base/toml.hpp"
#include "validate/collectives/errors.hpp"
#include "validate/collectives/fit.hpp"

using namespace stepcast;
using namespace stepcast::validate;

namespace {

const std::vector<PublishedCall>& calls() {
  static const std::vector<PublishedCall> all = published_calls();
  return all;
}

const Fit& fitted() {
  static const Fit once = fit(calls());
  return once;
}

Errors on_check_machines(CollectiveKind kind, const Band& band) {
  return errors(fitted().corrections, calls(), [&](const PublishedCall& c) {
    return c.role == SiteRole::check && c.predicted.kind == kind && band.holds(c.bytes);
  });
}

}  // namespace

TEST_CASE("the shipped corrections are those of the fit") {
  const auto& shipped = Corrections::shipped()->all();
  CHECK(shipped.size() == fitted().corrections.all().size());
  for (const auto& [name, c] : fitted().corrections.all()) {
    CAPTURE(name);
    REQUIRE(shipped.count(name) == 1);
    const Correction& s = shipped.at(name);
    // A search may stop elsewhere on a flat stretch where a libm rounds otherwise.
    CHECK(s.launch_us == doctest::Approx(c.launch_us).epsilon(0.05));
    CHECK(s.step_us == doctest::Approx(c.step_us).epsilon(0.05));
    CHECK(s.efficiency == doctest::Approx(c.efficiency).epsilon(0.05));
    CHECK(s.two_node_all_reduce == doctest::Approx(c.two_node_all_reduce).epsilon(0.05));
    CHECK(s.ramp == doctest::Approx(c.ramp).epsilon(0.05));
    CHECK(s.stall == doctest::Approx(c.stall).epsilon(0.05));
  }
}

TEST_CASE("of the machines of a class in alphabetical order every second one is fitted on") {
  std::map<std::string, std::map<std::string, SiteRole>> classes;
  for (const PublishedCall& c : calls()) {
    if (c.role != SiteRole::apart) classes[c.network_class][c.machine] = c.role;
  }
  // nvlink3: aic-a100, azure-a100, galvatron-a100, oci-a100, stas-a100
  CHECK(classes.at("nvlink3").size() == 5);
  CHECK(classes.at("nvlink3").at("aic-a100") == SiteRole::check);
  CHECK(classes.at("nvlink3").at("azure-a100") == SiteRole::fit);
  CHECK(classes.at("nvlink3").at("stas-a100") == SiteRole::check);
  for (const auto& [name, machines] : classes) {
    CAPTURE(name);
    CHECK(machines.size() >= 2);
    int place = 0;
    for (const auto& machine : machines) {
      CHECK(machine.second == (++place % 2 == 0 ? SiteRole::fit : SiteRole::check));
    }
  }
}

TEST_CASE(
    "unhealthy paths, links of no class and classes with one machine are apart, and say why") {
  std::map<std::string, std::string> apart;
  for (const PublishedCall& c : calls()) {
    CHECK((c.role == SiteRole::apart) == !c.why_apart.empty());
    if (c.role == SiteRole::apart) apart[c.machine] = c.why_apart;
  }
  std::set<std::string> machines;
  for (const auto& [machine, why] : apart) machines.insert(machine);
  CHECK(machines == std::set<std::string>{"aic-l40s", "aic-rtx-pro-6000", "azure-a100-ipoib",
                                          "cscs-gh200-slow", "dgx-h100-noisy", "oci-v100",
                                          "redhat-l40s", "stas-b200", "ultrascale-h100",
                                          "v100-staged"});
  CHECK(apart.at("stas-b200") == "the only machine of nvlink5");
  CHECK(apart.at("redhat-l40s") == "the only machine of ethernet");
  CHECK(apart.at("ultrascale-h100") == "the only machine of efa-busy, which is fitted on it");
}

TEST_CASE("the busy cluster is in no table of classes, and its rows are fitted on all the same") {
  int fitted_rows = 0;
  for (const PublishedCall& c : calls()) {
    if (c.network_class != "efa-busy") continue;
    CHECK(c.role == SiteRole::apart);
    CHECK(fitted_on(c));
    ++fitted_rows;
  }
  CHECK(fitted_rows == 9);
  const std::string text = to_text(published_errors(fitted().corrections, calls()));
  CHECK(text.find("\n  efa, checked") != std::string::npos);
  CHECK(text.find("\n  efa-busy, ") == std::string::npos);
  CHECK(text.find("\n  ultrascale-h100, apart") != std::string::npos);
  CHECK(text.find("\n  ultrascale-h100             the only machine of efa-busy") !=
        std::string::npos);
}

TEST_CASE("what was published and is not compared is listed with the reason") {
  std::set<std::string> sources;
  const std::string text = to_text(published_errors(fitted().corrections, calls()));
  for (const LeftOut& left : left_out()) {
    CAPTURE(left.source);
    CHECK(sources.insert(left.source).second);
    CHECK(text.find(left.source + " (" + std::to_string(left.rows) + ")") != std::string::npos);
    CHECK(text.find(left.why) != std::string::npos);
    for (const PublishedCall& c : calls()) CHECK(c.machine != left.source);
  }
  CHECK(sources.count("stas-4-nodes") == 1);
  CHECK(sources.count("galvatron-groups") == 1);
}

TEST_CASE(
    "no class that ships a correction is worse than NCCL's prediction on its check machines") {
  for (const auto& entry : fitted().corrections.all()) {
    const std::string& name = entry.first;
    CAPTURE(name);
    for (const Band& band : bands) {
      const Errors e = errors(fitted().corrections, calls(), [&](const PublishedCall& c) {
        return c.role == SiteRole::check && c.network_class == name && band.holds(c.bytes);
      });
      CHECK(e.corrected_percent <= e.tuner_percent);
    }
  }
}

TEST_CASE("a class whose check machines would come out worse gets no correction") {
  std::vector<PublishedCall> calls_of_rivals = calls();
  // tcpxo's check machine as NCCL predicts it: nothing is left to correct, only to spoil.
  for (PublishedCall& c : calls_of_rivals) {
    if (c.network_class == "tcpxo" && c.role == SiteRole::check) c.measured_us = c.tuner_us();
  }
  const Fit again = fit(calls_of_rivals);
  CHECK(again.rejected == std::set<std::string>{"tcpxo"});
  CHECK(again.corrections.find("tcpxo") == nullptr);
  CHECK(again.corrections.find("rdma") != nullptr);
}

TEST_CASE("median errors on the check machines are those that docs/collectives.md prints") {
  struct Row {
    CollectiveKind kind;
    int band, rows;
    double tuner, corrected;
  };
  constexpr Row recorded[] = {
      {CollectiveKind::all_reduce, 0, 93, 34.1, 19.5},
      {CollectiveKind::all_gather, 0, 62, 30.8, 12.0},
      {CollectiveKind::reduce_scatter, 0, 60, 24.8, 14.6},
      {CollectiveKind::all_reduce, 1, 129, 14.0, 5.2},
      {CollectiveKind::all_gather, 1, 73, 22.5, 7.0},
      {CollectiveKind::reduce_scatter, 1, 53, 17.1, 7.7},
  };
  for (const Row& row : recorded) {
    const Errors e = on_check_machines(row.kind, bands[row.band]);
    CAPTURE(to_string(row.kind));
    CAPTURE(bands[row.band].name);
    CHECK(e.rows == row.rows);
    CHECK(std::abs(e.tuner_percent - row.tuner) < 0.2);
    CHECK(std::abs(e.corrected_percent - row.corrected) < 0.5);
    CHECK(e.corrected_percent < e.tuner_percent);
  }
}

TEST_CASE("the busy cluster's stall is no other EFA's") {
  const Correction& efa = *fitted().corrections.find("efa");
  const Correction& busy = *fitted().corrections.find("efa-busy");
  CHECK(efa.stall == 0);
  CHECK(busy.stall > 0.3);
  CHECK(busy.step_us == efa.step_us);
  CHECK(busy.ramp == efa.ramp);
}

TEST_CASE("all check machines: at most 10 % from 16 MiB, 25 % from 64 KiB") {
  const auto all = [](const Band& band) {
    return errors(fitted().corrections, calls(), [&](const PublishedCall& c) {
      return c.role == SiteRole::check && band.holds(c.bytes);
    });
  };
  CHECK(all(bands[0]).corrected_percent < 25);
  CHECK(all(bands[0]).tuner_percent > 25);
  CHECK(all(bands[1]).corrected_percent < 10);
  CHECK(all(bands[1]).tuner_percent > 10);
}

TEST_CASE("a check machine's rows do not move the fit") {
  std::vector<PublishedCall> doubled = calls();
  for (PublishedCall& c : doubled) {
    if (!fitted_on(c)) c.measured_us *= 2;
  }
  const Fit again = fit(doubled);
  int kept = 0;
  for (const auto& [name, c] : fitted().corrections.all()) {
    const Correction* same = again.corrections.find(name);
    if (same == nullptr)
      continue;  // check machines may only say no: against a faster two-node tree
    CHECK(same->launch_us == c.launch_us);
    CHECK(same->step_us == c.step_us);
    CHECK(same->efficiency == c.efficiency);
    CHECK(same->ramp == c.ramp);
    CHECK(same->stall == c.stall);
    ++kept;
  }
  CHECK(kept >= 5);
}

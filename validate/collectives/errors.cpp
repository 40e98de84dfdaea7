#include "validate/collectives/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace stepcast::validate {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace

double forecast_us(const Corrections& corrections, const PublishedCall& call) {
  const Correction* correction = corrections.find(call.network_class);
  return correction == nullptr ? call.tuner_us() : corrected_us(*correction, call.predicted);
}

Errors errors(const Corrections& corrections, const std::vector<PublishedCall>& calls,
              const std::function<bool(const PublishedCall&)>& wanted) {
  std::vector<double> tuner, corrected;
  for (const PublishedCall& call : calls) {
    if (!wanted(call)) continue;
    const double harness = call.harness_us;  // in both: it is no fault of either
    tuner.push_back(std::abs((call.tuner_us() + harness) / call.measured_us - 1) * 100);
    corrected.push_back(
        std::abs((forecast_us(corrections, call) + harness) / call.measured_us - 1) * 100);
  }
  if (tuner.empty()) return {};
  return {static_cast<int>(tuner.size()), median(tuner), median(corrected)};
}

std::string words(const Errors& e) {
  if (e.rows == 0) return "-";
  return fmt::format("{:.1f} > {:.1f} % ({})", e.tuner_percent, e.corrected_percent, e.rows);
}

PublishedErrors published_errors(const Corrections& corrections,
                                 const std::vector<PublishedCall>& calls) {
  constexpr const char* roles[] = {"fitted on", "checked", "apart"};
  std::set<std::string> classes;
  std::set<std::pair<int, std::string>> machines;  // fitted on, checked, apart
  std::set<std::string> names;
  std::set<std::pair<std::string, std::string>> apart;  // with the reason
  for (const PublishedCall& c : calls) {
    if (c.role != SiteRole::apart) classes.insert(c.network_class);
    if (c.role == SiteRole::apart) apart.emplace(c.machine, c.why_apart);
    machines.emplace(static_cast<int>(c.role), c.machine);
    names.insert(c.machine);
  }
  PublishedErrors published{calls.size(), names.size(), {}, {}, left_out()};
  for (const auto& [machine, why] : apart) published.apart.push_back({machine, why});
  const auto row = [&](const std::string& name, const auto& wanted) {
    ErrorRow& r = published.tables.back().rows.emplace_back();
    r.name = name;
    for (std::size_t b = 0; b < std::size(bands); ++b) {
      r.by_band[b] = errors(corrections, calls, [&](const PublishedCall& c) {
        return wanted(c) && bands[b].holds(c.bytes);
      });
    }
  };
  published.tables.push_back({"machines nothing was fitted on", {}});
  for (const CollectiveKind kind :
       {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter}) {
    row(std::string(to_string(kind)), [&](const PublishedCall& c) {
      return c.role == SiteRole::check && c.predicted.kind == kind;
    });
  }
  row("all", [](const PublishedCall& c) { return c.role == SiteRole::check; });
  published.tables.push_back({"classes of networks", {}});
  for (const std::string& name : classes) {
    for (const SiteRole role : {SiteRole::fit, SiteRole::check}) {
      row(name + ", " + roles[static_cast<int>(role)],
          [&](const PublishedCall& c) { return c.role == role && c.network_class == name; });
    }
  }
  published.tables.push_back({"machines", {}});
  for (const auto& machine : machines) {
    row(machine.second + ", " + roles[machine.first], [&](const PublishedCall& c) {
      return static_cast<int>(c.role) == machine.first && c.machine == machine.second;
    });
  }
  return published;
}

std::string to_text(const PublishedErrors& published) {
  std::string text = fmt::format(
      "{} published calls on {} machines, median |error|: NCCL's formula alone > forecast (rows)\n",
      published.calls, published.machines);
  for (const ErrorTable& table : published.tables) {
    text += fmt::format("\n{:<30}", table.title);
    for (const Band& band : bands) text += fmt::format("{:>24}", band.name);
    text += '\n';
    for (const ErrorRow& row : table.rows) {
      text += fmt::format("  {:<28}", row.name);
      for (const Errors& e : row.by_band) text += fmt::format("{:>24}", words(e));
      text += '\n';
    }
  }
  text += "\napart, under no bar, and why\n";
  for (const Apart& a : published.apart) text += fmt::format("  {:<26}  {}\n", a.machine, a.why);
  text += "\npublished, not compared, and why\n";
  for (const LeftOut& l : published.left_out) {
    text += fmt::format("  {:<26}  {}\n", fmt::format("{} ({})", l.source, l.rows), l.why);
  }
  return text;
}

}  // namespace stepcast::validate

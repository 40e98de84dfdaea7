#include "validate/collectives/fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "validate/collectives/errors.hpp"

namespace stepcast::validate {
namespace {

// Rounded to what the file holds, so that what is read equals what was fitted.
constexpr double finest = 0.01;
constexpr std::int64_t small_bytes = 1 << 20;  // up to here latency is seen

struct Parameter {
  double* value;
  double step, low, high;
};

double loss(const Correction& correction, const std::vector<const PublishedCall*>& rows) {
  double sum = 0;
  for (const PublishedCall* row : rows) {
    const double us = corrected_us(correction, row->predicted) + row->harness_us;
    sum += (row->bytes < 65536 ? 0.3 : 1.0) * std::abs(std::log(us / row->measured_us));
  }
  return sum / static_cast<double>(rows.size());
}

// `idle`: the class that this one is with others on the network.
Correction fit_class(const std::string& name, const std::vector<const PublishedCall*>& rows,
                     const Correction* idle) {
  const bool one_node = rows.front()->predicted.nodes == 1;
  const bool small = std::any_of(
      rows.begin(), rows.end(), [](const PublishedCall* row) { return row->bytes <= small_bytes; });
  Correction c = idle == nullptr ? Correction() : *idle;
  const bool many_nodes = std::any_of(
      rows.begin(), rows.end(), [](const PublishedCall* row) { return row->predicted.nodes > 2; });
  const bool two_node_trees = std::any_of(rows.begin(), rows.end(), [](const PublishedCall* row) {
    return is_two_node_tree(row->predicted);
  });
  std::vector<Parameter> free;
  if (idle != nullptr) {
    free.push_back({&c.stall, 0.16, 0, 2});
  } else {
    if (small && one_node) free.push_back({&c.launch_us, 8, 0, 200});
    if (small && !one_node) free.push_back({&c.step_us, 16, 0, 2000});
    free.push_back({&c.ramp, 1, 0, 50});
    if (many_nodes) free.push_back({&c.stall, 0.16, 0, 2});
  }
  // AWS ships a tuner plugin, so what ran is not what NCCL would choose: no bandwidth can be seen.
  if (name != "efa" && idle == nullptr) {
    // NCCL takes PCIe 4 and 5 for 24 and 48 GB/s and lets NICs of 25 and 50 reach no more.
    free.push_back({&c.efficiency, 0.08, 0.4, name == "host" ? 1.6 : one_node ? 1.0 : 25.0 / 24});
    if (two_node_trees) free.push_back({&c.two_node_all_reduce, 0.08, 0.5, 2.0});
  }
  double best = loss(c, rows);
  for (int halvings = 0; halvings < 10;) {
    bool better = false;
    for (Parameter& p : free) {
      for (const double sign : {1.0, -1.0}) {
        const double before = *p.value;
        *p.value = std::clamp(before + sign * p.step, p.low, p.high);
        const double tried = loss(c, rows);
        if (tried < best - 1e-9) {
          best = tried;
          better = true;
        } else {
          *p.value = before;
        }
      }
    }
    if (better) continue;
    for (Parameter& p : free) p.step /= 2;
    ++halvings;
  }
  if (idle == nullptr && !one_node && !two_node_trees) c.two_node_all_reduce = c.efficiency;
  for (double* value :
       {&c.launch_us, &c.step_us, &c.efficiency, &c.two_node_all_reduce, &c.ramp, &c.stall}) {
    *value = std::round(*value / finest) * finest;
  }
  return c;
}

}  // namespace

Fit fit(const std::vector<PublishedCall>& calls) {
  std::map<std::string, std::vector<const PublishedCall*>> by_class;
  for (const PublishedCall& call : calls) {
    if (fitted_on(call)) by_class[call.network_class].push_back(&call);
  }
  Fit out;
  for (const auto& [name, rows] : by_class) {  // "efa" before "efa-busy"
    const Correction* idle = is_busy(name) ? out.corrections.find(idle_class(name)) : nullptr;
    out.corrections.set(name, fit_class(name, rows, idle));
  }
  for (const auto& entry : by_class) {
    const std::string& name = entry.first;
    for (const Band& band : bands) {
      const Errors e = errors(out.corrections, calls, [&](const PublishedCall& call) {
        return call.network_class == name && call.role == SiteRole::check && band.holds(call.bytes);
      });
      if (e.rows > 0 && e.corrected_percent > e.tuner_percent) out.rejected.insert(name);
    }
  }
  for (const std::string& name : out.rejected) out.corrections.drop(name);
  return out;
}

std::string to_toml(const Fit& fit, const std::vector<PublishedCall>& calls) {
  const auto wanted = [](const PublishedCall& call, SiteRole role) {
    return role == SiteRole::fit ? fitted_on(call) : call.role == role;
  };
  const auto machines = [&](const std::string& name, SiteRole role) {
    std::set<std::string> names;
    for (const PublishedCall& call : calls) {
      if (call.network_class == name && wanted(call, role)) names.insert('"' + call.machine + '"');
    }
    return fmt::format("[{}]", fmt::join(names, ", "));
  };
  std::string text =
      "# Written by `fit_collectives` (validate/collectives) from its data/calls.csv; what the\n"
      "# numbers mean: sim/collectives/corrections.hpp. Residuals: median |error| of NCCL's own\n"
      "# prediction > corrected (rows), from 64 KiB to 16 MiB and from 16 MiB.\n";
  for (const auto& [name, c] : fit.corrections.all()) {
    text += fmt::format(
        "\n[[class]]\nname = \"{}\"\nlaunch_us = {:.2f}\nstep_us = {:.2f}\nefficiency = {:.2f}\n"
        "two_node_all_reduce = {:.2f}\nramp = {:.2f}\nstall = {:.2f}\nfitted_on = {}\nchecked_on = "
        "{}\n",
        name, c.launch_us, c.step_us, c.efficiency, c.two_node_all_reduce, c.ramp, c.stall,
        machines(name, SiteRole::fit), machines(name, SiteRole::check));
    const auto of = [&, &class_name = name](SiteRole role) {
      std::vector<std::string> parts;
      for (const Band& band : bands) {
        const Errors e = errors(fit.corrections, calls, [&](const PublishedCall& call) {
          return call.network_class == class_name && wanted(call, role) && band.holds(call.bytes);
        });
        parts.push_back(e.rows == 0 ? "none" : words(e));
      }
      return fmt::format("{}", fmt::join(parts, ", "));
    };
    text +=
        fmt::format("residuals = \"fit {}; check {}\"\n", of(SiteRole::fit), of(SiteRole::check));
  }
  return text;
}

}  // namespace stepcast::validate

#include "validate/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "sim/report/format.hpp"

namespace stepcast {

namespace {

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == by) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// A value as TOML has it: numbers and booleans bare, all else in quotes.
std::string toml_value(const std::string& text) {
  const bool bare =
      text == "true" || text == "false" ||
      (!text.empty() && text.find_first_not_of("0123456789.eE+-_") == std::string::npos &&
       text.find_first_of("0123456789") == 0);
  if (bare) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

// The keys of one point, as a scenario of their own.
Scenario keys_of(const std::string& key, const std::string& value, const Where& where) {
  std::string text;
  const std::size_t colon = value.find(':');
  if (key == "strategy" && colon != std::string::npos) {
    const std::string strategy = value.substr(0, colon);
    text = fmt::format("strategy = {}\n{} = {}\n", toml_value(strategy),
                       strategy == "hsdp" ? "shard_group" : "sharding_strategy",
                       toml_value(value.substr(colon + 1)));
  } else {
    text = fmt::format("{} = {}\n", key, toml_value(value));
  }
  Scenario scenario;
  try {
    scenario = parse_scenario(text, where.file);
  } catch (const InputError& error) {
    // Without the line of the text that was made up here.
    std::string message = error.what();
    const std::string prefix = where.file + ":";
    if (message.starts_with(prefix)) {
      const std::size_t space = message.find(": ");
      message = message.substr(space + 2);
    }
    throw InputError(where, message);
  }
  for (auto& [name, said] : scenario.said) said = where;
  return scenario;
}

}  // namespace

std::vector<SweepPoint> sweep_points(const Scenario& base, const std::string& sweep,
                                     const Where& where) {
  const std::size_t equals = sweep.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == sweep.size()) {
    throw InputError(
        where, "'" + sweep.substr(0, 80) + "' is not accepted; accepted: KEY=VALUE,VALUE,...");
  }
  std::string key = sweep.substr(0, equals);
  std::replace(key.begin(), key.end(), '-', '_');
  std::vector<SweepPoint> points;
  for (const std::string& value : split(sweep.substr(equals + 1), ',')) {
    if (value.empty()) {
      throw InputError(where, "an empty value is not accepted; accepted: KEY=VALUE,VALUE,...");
    }
    const bool strategies = key == "strategy" || key == "sharding_strategy";
    const Scenario start = strategies ? without_strategy(base) : base;
    points.push_back({value, merged(start, keys_of(key, value, where))});
  }
  return points;
}

double Sweep::median_error() const {
  std::vector<double> errors;
  for (const Comparison& c : points) errors.push_back(std::abs(c.step.error()));
  std::sort(errors.begin(), errors.end());
  if (errors.empty()) return 0;
  const std::size_t half = errors.size() / 2;
  return errors.size() % 2 == 1 ? errors[half] : (errors[half - 1] + errors[half]) / 2;
}

namespace {

struct Order {
  int told_apart = 0;
  int in_order = 0;
};

Order order_of(const std::vector<Comparison>& points) {
  Order order;
  for (std::size_t a = 0; a < points.size(); ++a) {
    for (std::size_t b = a + 1; b < points.size(); ++b) {
      const ComparedNumber& x = points[a].step;
      const ComparedNumber& y = points[b].step;
      const double noise = points[a].spread * x.measured / 2 + points[b].spread * y.measured / 2;
      if (std::abs(x.measured - y.measured) <= noise) continue;
      ++order.told_apart;
      if ((x.measured < y.measured) == (x.forecast < y.forecast)) ++order.in_order;
    }
  }
  return order;
}

}  // namespace

int Sweep::told_apart() const { return order_of(points).told_apart; }
int Sweep::in_order() const { return order_of(points).in_order; }

std::string to_text(const Sweep& sweep) {
  std::string out = fmt::format("  {} {:>12} {:>12} {:>9} {:>8}   {:>11} {:>11}   {:>11} {:>11}\n",
                                padded(sweep.key, 22), "forecast", "measured", "error", "spread",
                                "samples/s", "measured", "peak memory", "measured");
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    const Comparison& c = sweep.points[i];
    const auto rate = [&](Seconds step) {
      return step > 0 ? grouped(c.samples_per_step / step, 1) : std::string();
    };
    const bool memory = !c.memory.empty();
    out += fmt::format(
        "  {} {:>12} {:>12} {:>9} {:>8}   {:>11} {:>11}   {:>11} {:>11}\n",
        padded(sweep.values[i], 22), human_seconds(c.step.forecast), human_seconds(c.step.measured),
        fmt::format("{:+.1f} %", 100 * c.step.error()), percent(c.spread), rate(c.step.forecast),
        rate(c.step.measured), memory ? human_bytes(c.memory[0].forecast) : "",
        memory ? human_bytes(c.memory[0].measured) : "");
  }
  out += fmt::format(
      "\nmedian error {}; of {} pairs that the measurement tells apart, {} are "
      "forecast in that order\n",
      percent(sweep.median_error()), sweep.told_apart(), sweep.in_order());
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    out += folded(sweep.values[i] + ": ", verdict(sweep.points[i]));
  }
  return out;
}

std::string to_json(const Sweep& sweep) {
  nlohmann::ordered_json out;
  out["schema"] = "stepcast.validation-sweep/1";
  out["key"] = sweep.key;
  out["median_error"] = sweep.median_error();
  out["pairs_told_apart"] = sweep.told_apart();
  out["pairs_in_order"] = sweep.in_order();
  out["points"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    nlohmann::ordered_json point;
    point["value"] = sweep.values[i];
    point["validation"] = nlohmann::ordered_json::parse(to_json(sweep.points[i]));
    out["points"].push_back(std::move(point));
  }
  return out.dump(2) + "\n";
}

}  // namespace stepcast

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/version.hpp"
#include "sim/forecast/resolve.hpp"
#include "sim/forecast/scenario_keys.hpp"
#include "sim/report/format.hpp"
#include "sim/sweep/tune.hpp"

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;

double number(const Result& r, const char* output) {
  return r.numbers[static_cast<std::size_t>(output_index(output))];
}

// "22,659,202"; what is no whole number as a scenario says it.
std::string shown_value(const ScenarioKey& key, const Scenario& s) {
  const std::optional<double> number =
      key.is_number() && key.is_set(s) ? key.number(s) : std::nullopt;
  if (number && *number == std::floor(*number)) return grouped(*number);
  return key.text(s);
}

// "strategy fsdp2, micro_batch 2, ...": the knobs that are said.
std::string said(const Scenario& s) {
  std::string text;
  for (const std::string& key : tuned_keys()) {
    const std::string value = shown_value(scenario_key(key), s);
    if (!value.empty()) text += (text.empty() ? "" : ", ") + key + " " + value;
  }
  return text.empty() ? "all at their defaults" : text;
}

std::string speed(const Tuned& t, const Result& r) {
  const double rate = number(r, "samples_per_s");
  const std::string throughput =
      t.tokens_per_sample > 0
          ? grouped(rate * static_cast<double>(t.tokens_per_sample)) + " tokens/s"
          : grouped(rate, 1) + " images/s";
  return fmt::format("step {}, {}, MFU {}, memory {} of {} ({} reserved for tensors)",
                     human_seconds(number(r, "step_time_s")), throughput, percent(number(r, "mfu")),
                     human_gib(static_cast<Bytes>(number(r, "memory_peak_bytes"))),
                     human_gib(static_cast<Bytes>(number(r, "memory_capacity_bytes"))),
                     human_gib(static_cast<Bytes>(number(r, "memory_reserved_bytes"))));
}

std::string loss(double fraction) {
  return fraction < 0.0005 && fraction > -0.0005 ? "0.0 %" : percent(-fraction);
}

std::string shown_size(const std::string& key, double value) {
  return key == "bucket_cap_mb" ? fmt::format("{:.3g}", value) : human_count(value);
}

// "fsdp2 best, hsdp -0.4 %, ddp does not fit"
std::string choices(const KnobReport& knob) {
  std::vector<Alternative> order = knob.others;
  std::stable_sort(order.begin(), order.end(), [](const Alternative& a, const Alternative& b) {
    return a.runs != b.runs ? a.runs : a.runs && a.loss < b.loss;
  });
  std::string text;
  std::size_t shown = 0;
  for (const Alternative& a : order) {
    if (++shown > 6) {
      text += fmt::format(", and {} more", order.size() - 6);
      break;
    }
    const std::string how = a.value == knob.best ? "best" : a.runs ? loss(a.loss) : a.why;
    text += (text.empty() ? "" : ", ") + a.value + " " + (how.size() > 60 ? "refused" : how);
  }
  return text;
}

std::string sizes(const KnobReport& knob) {
  const auto range = [&](double low, double high) {
    return shown_size(knob.key, low) + " to " + shown_size(knob.key, high);
  };
  return fmt::format("{} best; within 1 % from {}, within 5 % from {}{}",
                     shown_size(knob.key, std::stod(knob.best)), range(knob.low_1, knob.high_1),
                     range(knob.low_5, knob.high_5),
                     knob.key == "bucket_cap_mb" ? " MiB" : " elements");
}

Json json(double value) { return std::isnan(value) ? Json(nullptr) : Json(value); }

Json tried_json(const Tried& tried) {
  Json knobs = Json::object();
  for (const std::string& key : tuned_keys()) {
    const ScenarioKey& of = scenario_key(key);
    if (!of.is_set(tried.scenario)) continue;
    const std::optional<double> value = of.number(tried.scenario);
    knobs[key] = value ? Json(*value) : Json(of.text(tried.scenario));
  }
  Json outputs_json = Json::object();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    outputs_json[std::string(outputs[i].name)] = json(tried.result.numbers[i]);
  }
  const bool ok = tried.result.state == "ok";
  return {{"knobs", knobs},
          {"state", tried.result.state},
          {"error", ok ? Json(nullptr) : Json(tried.result.why)},
          {"binding", tried.result.binding},
          {"outputs", outputs_json},
          {"toml", to_toml(tried.scenario)}};
}

Json alternative_json(const Alternative& a) {
  return {{"value", a.value},
          {"loss", a.runs ? Json(a.loss) : Json(nullptr)},
          {"error", a.runs ? Json(nullptr) : Json(a.why)}};
}

}  // namespace

std::string to_text(const Tuned& t) {
  std::string text = fmt::format(
      "{} combinations by formula, {} by fluid{}; {} GPUs, {} samples a step\n\n",
      grouped(static_cast<double>(t.screened)), grouped(static_cast<double>(t.confirmed)),
      t.sized > 0 ? fmt::format(", {} bucket sizes", t.sized) : "", grouped(t.gpus),
      grouped(t.samples_per_step));
  text += folded("best:  ", said(t.best.scenario));
  text += folded("       ", speed(t, t.best.result));
  const std::string base =
      t.given_strategy.empty() ? "" : " (no strategy was said: " + t.given_strategy + ")";
  text += folded("given: ", said(t.given.scenario) + base);
  if (t.given.rate > 0) {
    text += folded("       ", speed(t, t.given.result));
    const double lost = 1 - t.given.rate / t.best.rate;
    text += lost >= 0 ? fmt::format("       loses {} of the best's throughput\n", percent(lost))
                      : fmt::format("       {} faster: it has values that were not tried\n",
                                    percent(-lost));
  } else {
    text += folded("       ", t.given.result.state == "ok" ? "leaves too little memory free"
                                                           : t.given.result.why);
  }
  text += "\none knob changed, all else as in the best; strategies each at its own best\n";
  std::size_t width = 0;
  for (const KnobReport& knob : t.knobs) width = std::max(width, knob.key.size());
  for (const KnobReport& knob : t.knobs) {
    const std::string margin = fmt::format("  {:<{}}  ", knob.key, width);
    std::string line = knob.is_size ? sizes(knob) : choices(knob);
    if (knob.is_size && knob.default_loses) {
      const Alternative& d = *knob.default_loses;
      line += fmt::format("; the default, {}, {}", shown_size(knob.key, std::stod(d.value)),
                          d.runs ? "loses " + percent(std::max(0.0, d.loss)) : d.why);
    } else if (!knob.is_size && knob.default_loses) {
      const Alternative& d = *knob.default_loses;
      line += fmt::format("; the default is {}", d.value);
    }
    text += folded(margin, line);
  }
  return text;
}

std::string to_json(const Tuned& t) {
  Json document = {{"schema", "stepcast.tune/1"},
                   {"version", std::string(version())},
                   {"gpus", t.gpus},
                   {"samples_per_step", t.samples_per_step},
                   {"screened", t.screened},
                   {"confirmed", t.confirmed},
                   {"sized", t.sized}};
  document["best"] = tried_json(t.best);
  document["given"] = tried_json(t.given);
  document["given"]["assumed_strategy"] =
      t.given_strategy.empty() ? Json(nullptr) : Json(t.given_strategy);
  document["given"]["loss"] =
      t.given.rate > 0 ? Json(1 - t.given.rate / t.best.rate) : Json(nullptr);
  document["knobs"] = Json::array();
  for (const KnobReport& knob : t.knobs) {
    Json one = {{"key", knob.key}, {"best", knob.best}, {"default", knob.by_default}};
    if (knob.is_size) {
      one["within_1_percent"] = {knob.low_1, knob.high_1};
      one["within_5_percent"] = {knob.low_5, knob.high_5};
    }
    one["default_loses"] =
        knob.default_loses ? alternative_json(*knob.default_loses) : Json(nullptr);
    one["values"] = Json::array();
    for (const Alternative& a : knob.others) one["values"].push_back(alternative_json(a));
    document["knobs"].push_back(one);
  }
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace stepcast

// A comparison as text and JSON, and both timelines as one trace.

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/report/format.hpp"
#include "sim/report/trace.hpp"
#include "validate/compare.hpp"

namespace stepcast {

namespace {

constexpr double close_enough = 0.02;  // errors up to here are nobody's fault
constexpr int measured_pid = 1000;     // of the trace's second half

std::string signed_percent(double fraction) {
  return fmt::format("{:+.1f} %", std::abs(fraction) < 5e-4 ? 0.0 : 100 * fraction);
}

std::string line(const std::string& name, const std::string& forecast, const std::string& measured,
                 const std::string& error) {
  return fmt::format("  {} {:>12} {:>12} {:>10}\n", padded(name, 46), forecast, measured, error);
}

std::string seconds_line(const ComparedNumber& n) {
  return line(n.name, human_seconds(n.forecast), human_seconds(n.measured),
              n.measured > 0 ? signed_percent(n.error()) : "");
}

std::string name_of(const ComparedCollective& c) {
  const CollectiveRow& r = c.forecast;
  return fmt::format("{} of {} {}, {} x {}", to_string(r.kind),
                     human_bytes(static_cast<double>(r.bytes)), to_string(r.dtype), r.calls,
                     to_string(r.axis));
}

nlohmann::ordered_json json_of(const ComparedNumber& n, const char* unit) {
  nlohmann::ordered_json out;
  out["name"] = n.name;
  out[std::string("forecast_") + unit] = n.forecast;
  out[std::string("measured_") + unit] = n.measured;
  out["error"] = n.measured > 0 ? nlohmann::ordered_json(n.error()) : nullptr;
  return out;
}

}  // namespace

std::string verdict(const Comparison& c) {
  const double error = c.step.error();
  const std::string head = fmt::format("the forecast is {} {} the measured step",
                                       human_seconds(std::abs(c.step.forecast - c.step.measured)),
                                       error < 0 ? "below" : "above");
  if (std::abs(error) <= close_enough) return head + ": nothing to blame";
  if (std::abs(error) <= c.spread / 2) {
    return head + fmt::format(", less than the measured steps differ from each other ({})",
                              percent(c.spread));
  }
  const Seconds off = std::abs(c.step.forecast - c.step.measured);
  const auto left = [&](Seconds step) { return std::abs(step - c.step.measured); };
  std::string text = head;
  if (!c.blame.empty() && left(c.blame.front().step) < 0.7 * off) {
    const Blame& first = c.blame.front();
    text += fmt::format(
        "; {} ({} a step) took {:.2f} times what was forecast, and explain{} {:.0f} % "
        "of it",
        first.what, first.calls, first.ratio, first.calls == 1 ? "s" : "",
        100 * (1 - left(first.step) / off));
  } else {
    text += "; no single cost explains a third of it";
  }
  text += fmt::format("; with all costs as measured the forecast is {} ({})",
                      human_seconds(c.step_all), signed_percent(c.step_all / c.step.measured - 1));
  return text;
}

std::string to_text(const Comparison& c) {
  std::string out =
      fmt::format("{}; {} steps measured, spread {}\n\n", c.title, c.steps, percent(c.spread));
  out += line("", "forecast", "measured", "error");
  out += seconds_line(c.step);
  for (const ComparedNumber& part : c.parts) {
    if (part.forecast < 1e-7 && part.measured < 1e-7) continue;
    out += seconds_line(part);
  }
  if (!c.collectives.empty()) out += "\ncollectives, one call\n";
  for (const ComparedCollective& each : c.collectives) {
    out += line(name_of(each), human_seconds(each.forecast.mean_seconds),
                human_seconds(each.measured), signed_percent(each.error()));
  }
  if (!c.memory.empty()) out += "\nmemory\n";
  for (const ComparedNumber& each : c.memory) {
    out += line(each.name, human_bytes(each.forecast), human_bytes(each.measured),
                each.measured > 0 ? signed_percent(each.error()) : "");
  }
  if (!c.blame.empty()) out += "\nthe step forecast with these as they were measured\n";
  for (std::size_t i = 0; i < c.blame.size() && i < 6; ++i) {
    const Blame& b = c.blame[i];
    out +=
        fmt::format("  {} {:>12} {:>12} {:>10}\n",
                    padded(fmt::format("{}, {} x", b.what, b.calls), 46), human_seconds(b.step),
                    fmt::format("x {:.2f}", b.ratio), signed_percent(b.step / c.step.measured - 1));
  }
  out += "\n" + folded("", verdict(c));
  for (const std::string& note : c.notes) out += folded("note: ", note);
  return out;
}

std::string to_json(const Comparison& c) {
  nlohmann::ordered_json out;
  out["schema"] = "stepcast.validation/1";
  out["model"] = c.model;
  out["strategy"] = c.strategy;
  out["ranks"] = c.ranks;
  out["executor"] = c.executor;
  out["steps"] = c.steps;
  out["spread"] = c.spread;
  out["step"] = json_of(c.step, "s");
  out["samples_per_step"] = c.samples_per_step;
  for (const ComparedNumber& part : c.parts) out["parts"].push_back(json_of(part, "s"));
  out["collectives"] = nlohmann::ordered_json::array();
  for (const ComparedCollective& each : c.collectives) {
    const CollectiveRow& r = each.forecast;
    nlohmann::ordered_json row;
    row["op"] = to_string(r.kind);
    row["axis"] = to_string(r.axis);
    row["dtype"] = to_string(r.dtype);
    row["bytes"] = r.bytes;
    row["calls"] = r.calls;
    row["forecast_s"] = r.mean_seconds;
    row["measured_s"] = each.measured;
    row["error"] = each.error();
    row["provenance"] = to_string(r.cost.provenance);
    out["collectives"].push_back(row);
  }
  out["memory"] = nlohmann::ordered_json::array();
  for (const ComparedNumber& each : c.memory) out["memory"].push_back(json_of(each, "bytes"));
  out["blame"] = nlohmann::ordered_json::array();
  for (const Blame& b : c.blame) {
    out["blame"].push_back({{"what", b.what},
                            {"calls", b.calls},
                            {"measured_over_forecast", b.ratio},
                            {"step_s", b.step}});
  }
  out["step_with_all_as_measured_s"] = c.step_all;
  out["verdict"] = verdict(c);
  out["notes"] = c.notes;
  return out.dump(2) + "\n";
}

std::string both_as_trace(const Forecast& f, const Timeline& timeline) {
  Timeline measured = typical_step(timeline);
  // Both reported steps begin at the same time, the later one's own.
  const Seconds forecast_begin = f.timeline.steps.back().begin;
  const Seconds shift = forecast_begin - measured.steps.back().begin;
  for (StepSpan& step : measured.steps) {
    step.begin += shift;
    step.end += shift;
  }
  for (Span& span : measured.spans) {
    span.issued += shift;
    span.start += shift;
    span.end += shift;
  }
  for (MemorySample& sample : measured.memory) sample.time += shift;
  nlohmann::ordered_json both =
      nlohmann::ordered_json::parse(to_trace(f.schedule, f.costs, f.timeline));
  nlohmann::ordered_json second =
      nlohmann::ordered_json::parse(to_trace(f.schedule, f.costs, measured));
  const auto rename = [](nlohmann::ordered_json& event, const char* half) {
    if (event["name"] != "process_name") return;
    auto& name = event["args"]["name"];
    name = fmt::format("{}: {}", half, name.get<std::string>());
  };
  for (auto& event : both["traceEvents"]) rename(event, "forecast");
  for (auto& event : second["traceEvents"]) {
    event["pid"] = event["pid"].get<int>() + measured_pid;
    rename(event, "measured");
    both["traceEvents"].push_back(std::move(event));
  }
  return both.dump() + "\n";
}

}  // namespace stepcast

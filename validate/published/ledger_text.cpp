#include <fmt/format.h>

#include <algorithm>

#include "sim/report/format.hpp"
#include "validate/published/fits.hpp"
#include "validate/published/ledger.hpp"

namespace stepcast {

namespace {

constexpr std::size_t name_width = 34;

double value(const Figures& figures, const std::string& name) {
  const auto found = figures.find(name);
  return found == figures.end() ? 0 : found->second;
}

bool has(const Figures& figures, const std::string& name) {
  return figures.find(name) != figures.end();
}

// One line of median, p90 and worst.
std::string line(const Figures& figures, const std::string& words, const std::string& group,
                 const char* unit) {
  if (!has(figures, group + ".rows")) return "";
  return fmt::format("  {}{:5.0f} {:8.2f} {:8.2f} {:8.2f}  {}\n", padded(words, name_width),
                     value(figures, group + ".rows"), value(figures, group + ".median"),
                     value(figures, group + ".p90"), value(figures, group + ".worst"), unit);
}

std::string tables(const Figures& f) {
  std::string out =
      fmt::format("  {} rows   median      p90    worst\n", padded("absolute error", name_width));
  out += line(f, "step time, fitted rows", "step.fit", "%");
  out += line(f, "step time, checked rows", "step.check", "%");
  out += line(f, "  baseline: no network", "no_network.check", "%");
  out += line(f, "  baseline: FLOPs only", "flops_only.check", "%");
  out += line(f, "scaling efficiency, checked", "scaling.check", "points");
  out += line(f, "time added over fewer nodes", "added.check", "% of it");
  out += line(f, "change of throughput", "change.check", "points");
  out += line(f, "peak memory", "memory.all", "%");
  for (const char* group : {"added.check", "change.check"}) {
    const std::string name = std::string(group) + ".wrong_sign";
    if (has(f, name)) out += fmt::format("  wrong sign in {:.0f} rows\n", value(f, name));
  }
  if (has(f, "interval.check.width")) {
    out += fmt::format(
        "  the 10 to 90 % interval holds {:.0f} % of the checked rows; median width {:.1f} %\n",
        value(f, "interval.check.coverage"), value(f, "interval.check.width"));
  }
  if (has(f, "decisions.count")) {
    out += fmt::format("  rank order: {:.1f} % of {:.0f} decisions right",
                       value(f, "decisions.right"), value(f, "decisions.count"));
    out += fmt::format(" ({:.1f} % of all {:.0f} pairs)\n", value(f, "pairs.right"),
                       value(f, "pairs.count"));
  }
  return out;
}

std::string bars(const std::vector<BarResult>& results) {
  std::string out;
  for (const BarResult& r : results) {
    out += fmt::format("  bar {}: {} {} {:g}", r.met ? "met   " : "missed", r.bar.figure,
                       r.bar.at_most ? "at most" : "at least",
                       r.bar.at_most ? *r.bar.at_most : *r.bar.at_least);
    if (r.baseline)
      out += fmt::format(" and at most 0.7 of the better baseline's {:.2f}", *r.baseline);
    out += r.figure ? fmt::format("; it is {:.2f}\n", *r.figure) : "; there is no such figure\n";
  }
  return out;
}

std::string rows_of(const SourceResult& result) {
  std::string out;
  for (const Outcome& o : result.outcomes) {
    if (o.measured > 0) {
      out += fmt::format("  {}{:6} {:5} GPUs {:>11} measured {:>11} forecast {:+7.1f} %",
                         padded(o.row->id, 22), to_string(o.row->split), o.gpus,
                         human_seconds(o.measured), human_seconds(o.forecast), o.error() * 100);
    } else {
      out += fmt::format("  {}{:6} {:5} GPUs {:+6.1f} % measured {:+6.1f} % forecast",
                         padded(o.row->id, 22), to_string(o.row->split), o.gpus, o.measured_change,
                         o.forecast_change);
    }
    if (o.memory) {
      out +=
          fmt::format("  {} measured {} forecast", human_gib(*o.row->memory), human_gib(*o.memory));
    }
    out += "\n";
  }
  for (const MeasuredRow& row : result.source.rows) {
    if (!row.left_out.empty())
      out += "  " + padded(row.id, 22) + "left out: " + row.left_out + "\n";
  }
  return out;
}

}  // namespace

std::string to_text(const Ledger& ledger, bool rows) {
  std::string out;
  int met = 0, all = 0;
  for (const SourceResult& result : ledger.sources) {
    out += fmt::format("{}: {}\n", result.source.name, result.source.title);
    for (const ProfileRest& rest : rests_of(result.source)) out += "  " + words(rest) + "\n";
    out += tables(result.figures);
    if (result.left_out > 0) out += fmt::format("  {} rows left out\n", result.left_out);
    out += bars(result.bars);
    if (rows) out += rows_of(result);
    out += "\n";
    for (const BarResult& bar : result.bars) met += bar.met;
    all += static_cast<int>(result.bars.size());
  }
  return out + fmt::format("{} of {} bars met\n", met, all);
}

}  // namespace stepcast

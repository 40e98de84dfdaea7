#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/toml.hpp"
#include "sim/report/format.hpp"
#include "validate/published/fits.hpp"
#include "validate/published/ledger.hpp"

namespace stepcast {

namespace {

constexpr std::size_t worst_rows = 10;

constexpr const char* introduction =
    "# How right it is\n"
    "\n"
    "Written by `stepcast validate --published --page docs/accuracy.md`; do not edit. Rows and "
    "their sources are in `validate/published/data/`, compiled into the program, so an installed "
    "stepcast prints the same.\n"
    "\n"
    "A row's split says whether a fit of a software profile may see it (`fit`) or not (`check`). "
    "No factor belongs to a row, a model or a scale. Two baselines are computed by the same "
    "command: **no network**, the rate a GPU of the nearest fitted row with fewer nodes, and "
    "**FLOPs only**, 6N + 12LHs over one efficiency, the median of the source's fitted rows. A "
    "decision is a pair of rows with the same model, machine and sequence length that differ in a "
    "setting, or in nodes alone. Bars are what the project set itself; what is missed is printed "
    "as missed.\n";

// Why a row is off, as far as known or guessed: reasons.toml, [rows] by id, [sources] for the rest.
class Reasons {
 public:
  Reasons() : table_(TomlTable::from_text(published_text("reasons.toml"), "reasons.toml")) {
    rows_ = table_.table("rows");
    sources_ = table_.table("sources");
  }
  std::string of(const std::string& source, const std::string& id) {
    if (rows_ && rows_->has(id)) return rows_->string(id);
    if (sources_ && sources_->has(source)) return sources_->string(source);
    return "Not explained.";
  }

 private:
  TomlTable table_;
  std::optional<TomlTable> rows_, sources_;
};

double figure(const Figures& figures, const std::string& name) {
  const auto found = figures.find(name);
  return found == figures.end() ? 0 : found->second;
}

std::string table(const Figures& f) {
  struct Line {
    const char* group;
    const char* words;
  };
  constexpr Line lines[] = {{"step.fit", "step time, fitted rows, %"},
                            {"step.check", "step time, checked rows, %"},
                            {"no_network.check", "baseline no network, %"},
                            {"flops_only.check", "baseline FLOPs only, %"},
                            {"scaling.check", "scaling efficiency, points"},
                            {"added.check", "time added over fewer nodes, % of it"},
                            {"change.check", "change of throughput, points"},
                            {"memory.all", "peak memory, %"}};
  std::string out = "| absolute error | rows | median | p90 | worst |\n|---|---|---|---|---|\n";
  for (const Line& line : lines) {
    const std::string group = line.group;
    if (f.find(group + ".rows") == f.end()) continue;
    out += fmt::format("| {} | {:.0f} | {:.1f} | {:.1f} | {:.1f} |\n", line.words,
                       figure(f, group + ".rows"), figure(f, group + ".median"),
                       figure(f, group + ".p90"), figure(f, group + ".worst"));
  }
  if (f.find("interval.check.width") != f.end()) {
    out += fmt::format(
        "\nThe 10 to 90 % interval holds {:.0f} % of the checked rows; its median width is {:.1f} "
        "%.\n",
        figure(f, "interval.check.coverage"), figure(f, "interval.check.width"));
  }
  if (f.find("decisions.count") != f.end()) {
    out +=
        fmt::format("\nRank order: {:.1f} % of {:.0f} decisions, {:.1f} % of all {:.0f} pairs.\n",
                    figure(f, "decisions.right"), figure(f, "decisions.count"),
                    figure(f, "pairs.right"), figure(f, "pairs.count"));
  }
  return out;
}

std::string bars(const std::vector<BarResult>& results) {
  std::string out = "\n| bar | is | |\n|---|---|---|\n";
  for (const BarResult& r : results) {
    out += fmt::format("| `{}` {} {:g}", r.bar.figure, r.bar.at_most ? "at most" : "at least",
                       r.bar.at_most ? *r.bar.at_most : *r.bar.at_least);
    if (r.baseline) out += fmt::format(", and at most 0.7 of {:.1f}", *r.baseline);
    out += r.figure ? fmt::format(" | {:.1f} | {} |\n", *r.figure, r.met ? "met" : "**missed**")
                    : " | no such figure | **missed** |\n";
  }
  return out;
}

std::string source_section(const SourceResult& result) {
  const PublishedSource& s = result.source;
  std::string out =
      fmt::format("\n## {}\n\n{}. {}\n\nSource: {}.\n\n", s.name, s.title, s.reading, s.source);
  out += table(result.figures) + bars(result.bars);
  std::map<std::string, int> left_out;
  for (const MeasuredRow& row : s.rows) {
    if (!row.left_out.empty()) ++left_out[row.left_out];
  }
  for (const auto& [why, count] : left_out) {
    out += fmt::format("\nLeft out: {} rows ({}).\n", count, why);
  }
  return out;
}

// How many parameters were fitted on how many rows.
std::string profiles_section(const Ledger& ledger) {
  std::string out =
      "\n### Profiles\n\nA factor that its rows cannot determine stays near 1, where its prior "
      "holds it.\n\n| source | profile | machines | fitted factors | of them determined | fitted "
      "rows | checked rows |\n|---|---|---|---|---|---|---|\n";
  for (const SourceResult& result : ledger.sources) {
    for (const ProfileRest& rest : rests_of(result.source)) {
      out += fmt::format(
          "| {} | {} | {} | {}{} | {} | {} | {} |\n", result.source.name, rest.profile,
          fmt::join(rest.machines, ", "), rest.factors.size(),
          rest.factors.empty() ? "" : fmt::format(": {}", fmt::join(rest.factors, ", ")),
          rest.determined.size(), rest.fitted_rows, rest.checked_rows);
    }
  }
  return out;
}

std::string worst_section(const Ledger& ledger) {
  struct Row {
    const SourceResult* source;
    const Outcome* outcome;
  };
  std::vector<Row> rows;
  for (const SourceResult& result : ledger.sources) {
    for (const Outcome& o : result.outcomes) {
      if (o.measured > 0 && o.row->split == Split::check) rows.push_back({&result, &o});
    }
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::abs(a.outcome->error()) > std::abs(b.outcome->error());
  });
  rows.resize(std::min(rows.size(), worst_rows));
  Reasons reasons;
  std::string out = "\n## The ten worst checked rows\n";
  for (const Row& row : rows) {
    const Outcome& o = *row.outcome;
    out += fmt::format("\n**{}** ({} GPUs): measured {}, forecast {}, {:+.1f} %. {}\n", o.row->id,
                       o.gpus, human_seconds(o.measured), human_seconds(o.forecast),
                       o.error() * 100, reasons.of(row.source->source.name, o.row->id));
  }
  return out;
}

}  // namespace

std::string to_page(const Ledger& ledger) {
  std::string out = introduction;
  int met = 0, all = 0;
  for (const SourceResult& result : ledger.sources) {
    for (const BarResult& bar : result.bars) met += bar.met;
    all += static_cast<int>(result.bars.size());
  }
  out += fmt::format("\n{} of {} bars are met.\n\n", met, all);
  out += std::string(published_text("choices.md")) + profiles_section(ledger);
  for (const SourceResult& result : ledger.sources) out += source_section(result);
  return out + worst_section(ledger);
}

}  // namespace stepcast

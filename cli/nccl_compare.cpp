// stepcast nccl compare: a forecast beside a log, with the errors by size.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/error.hpp"
#include "cli/collective_json.hpp"
#include "cli/command.hpp"
#include "cli/json_text.hpp"
#include "cli/nccl.hpp"
#include "sim/forecast/resolve.hpp"
#include "validate/collectives/errors.hpp"

namespace stepcast::cli {

namespace {

using Json = nlohmann::ordered_json;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

struct Band {
  const char* name;
  Bytes from, below;  // below 0: no end
  bool holds(Bytes bytes) const { return bytes >= from && (below == 0 || bytes < below); }
};
constexpr Band bands[] = {{"< 64 KiB", 0, 64 * kib},
                          {"64 KiB - 1 MiB", 64 * kib, mib},
                          {"1 - 16 MiB", mib, 16 * mib},
                          {"16 - 256 MiB", 16 * mib, 256 * mib},
                          {">= 256 MiB", 256 * mib, 0}};

struct Row {
  Bytes bytes = 0;
  CollectiveCost cost;  // what is forecast
  double measured_us = 0;
  double forecast_us() const { return cost.seconds * 1e6; }
  double formula_us() const { return cost.predicted.latency_us + cost.predicted.wire_us; }
};

struct LogCompared {
  NcclTestsLog log;
  std::string machine;
  std::vector<Row> rows;
};

// The rows of one operation and band of sizes: medians over them.
struct Summary {
  CollectiveKind op = CollectiveKind::all_reduce;
  Band band;
  std::size_t rows = 0;
  double ratio = 0;                     // forecast over measured
  double error = 0, formula_error = 0;  // absolute, as fractions
};

LogCompared compared(const NcclTestsLog& log, const Scenario& scenario) {
  Scenario of_log = scenario;
  if (!of_log.nodes && !of_log.gpus) {
    of_log.nodes = log.nodes;
    of_log.gpus = log.ranks;
    if (!of_log.gpus_per_node && log.ranks % log.nodes == 0) {
      of_log.gpus_per_node = log.ranks / log.nodes;
    }
  }
  const Cluster cluster = resolve_cluster(of_log);
  if (cluster.world_size != log.ranks || cluster.nodes != log.nodes) {
    throw InputError({log.file, 0, ""},
                     fmt::format("has {} ranks on {} nodes, the cluster {} on {}; accepted: the "
                                 "same",
                                 log.ranks, log.nodes, cluster.world_size, cluster.nodes));
  }
  const Collectives collectives(cluster, {.replicate = cluster.world_size, .shard = 1},
                                resolve_collectives(of_log));
  LogCompared c{log, cluster.machine.name, {}};
  for (const NcclTestsRow& row : log.rows) {
    c.rows.push_back({row.bytes,
                      collectives.cost(Axis::world, log.op, row.bytes, nccl_type_of_log(log.dtype),
                                       log.reduction),
                      row.time_us()});
  }
  return c;
}

std::vector<Summary> summaries(const std::vector<LogCompared>& logs) {
  std::map<CollectiveKind, std::array<std::vector<const Row*>, std::size(bands)>> rows;
  for (const LogCompared& c : logs) {
    for (const Row& row : c.rows) {
      for (std::size_t b = 0; b < std::size(bands); ++b) {
        if (bands[b].holds(row.bytes)) rows[c.log.op][b].push_back(&row);
      }
    }
  }
  std::vector<Summary> all;
  for (const auto& [op, by_band] : rows) {
    for (std::size_t b = 0; b < std::size(bands); ++b) {
      if (by_band[b].empty()) continue;
      std::vector<double> ratio, error, formula_error;
      for (const Row* row : by_band[b]) {
        ratio.push_back(row->forecast_us() / row->measured_us);
        error.push_back(std::abs(ratio.back() - 1));
        formula_error.push_back(std::abs(row->formula_us() / row->measured_us - 1));
      }
      all.push_back(
          {op, bands[b], ratio.size(), median(ratio), median(error), median(formula_error)});
    }
  }
  return all;
}

std::string to_text(const std::vector<LogCompared>& logs) {
  std::string text;
  for (const LogCompared& c : logs) {
    text += fmt::format("# {}: {}, {} {}, {} ranks on {} x {}\n", c.log.file, to_string(c.log.op),
                        c.log.dtype, c.log.reduction == Reduction::none ? "none" : "reduced",
                        c.log.ranks, c.log.nodes, c.machine);
    text +=
        fmt::format("# {:>12} {:>8} {:>7} {:>4} {:>12} {:>12} {:>8} {:>12}  {}\n", "size", "algo",
                    "proto", "ch", "forecast us", "measured us", "error", "formula us", "from");
    for (const Row& row : c.rows) {
      const CollectiveChoice& choice = row.cost.choice;
      text +=
          fmt::format("{:>14} {:>8} {:>7} {:>4} {:>12} {:>12} {:>+7.1f}% {:>12}  {}\n", row.bytes,
                      to_string(choice.algorithm), to_string(choice.protocol), choice.channels,
                      nccl_time_text(row.forecast_us()), nccl_time_text(row.measured_us),
                      (row.forecast_us() / row.measured_us - 1) * 100,
                      nccl_time_text(row.formula_us()), nccl_provenance_text(row.cost));
    }
  }
  text += fmt::format("#\n# {:<14} {:<16} {:>4} {:>9} {:>8} {:>22}\n", "operation", "size", "rows",
                      "forecast", "|error|", "formula alone |error|");
  for (const Summary& s : summaries(logs)) {
    text += fmt::format("# {:<14} {:<16} {:>4} {:>9.2f} {:>7.1f}% {:>21.1f}%\n", to_string(s.op),
                        s.band.name, s.rows, s.ratio, s.error * 100, s.formula_error * 100);
  }
  return text +
         "# forecast: of what was measured, the median; |error|: the median; formula: what NCCL's\n"
         "# tuner predicts, without corrections and measured times\n";
}

std::string to_json(const std::vector<LogCompared>& compared_logs) {
  Json logs = Json::array(), summary = Json::array();
  for (const LogCompared& c : compared_logs) {
    Json rows = Json::array();
    for (const Row& row : c.rows) {
      Json one = {{"bytes", row.bytes}};
      one.update(collective_json(row.cost, "forecast_s"));
      one["measured_s"] = row.measured_us * 1e-6;
      one["error"] = row.forecast_us() / row.measured_us - 1;
      one["formula_s"] = row.formula_us() * 1e-6;
      rows.push_back(std::move(one));
    }
    const bool reduces = c.log.reduction != Reduction::none;
    logs.push_back(
        {{"file", c.log.file},
         {"op", to_string(c.log.op)},
         {"dtype", c.log.dtype},
         {"reduction", reduces ? Json(to_string(c.log.reduction)) : Json()},
         {"ranks", c.log.ranks},
         {"nodes", c.log.nodes},
         {"machine", c.machine},
         {"nccl_version", c.log.nccl_version.empty() ? Json() : Json(c.log.nccl_version)},
         {"rows", rows}});
  }
  for (const Summary& s : summaries(compared_logs)) {
    summary.push_back({{"op", to_string(s.op)},
                       {"from_bytes", s.band.from},
                       {"below_bytes", s.band.below == 0 ? Json() : Json(s.band.below)},
                       {"rows", s.rows},
                       {"median_forecast_over_measured", s.ratio},
                       {"median_error", s.error},
                       {"median_formula_error", s.formula_error}});
  }
  return json_text(
      {{"schema", "stepcast.nccl-comparison/1"}, {"logs", logs}, {"summary", summary}});
}

std::string to_json(const validate::PublishedErrors& published) {
  Json tables = Json::array();
  for (const validate::ErrorTable& table : published.tables) {
    Json rows = Json::array();
    for (const validate::ErrorRow& row : table.rows) {
      Json by_size = Json::array();
      for (std::size_t b = 0; b < std::size(validate::bands); ++b) {
        const validate::Errors& e = row.by_band[b];
        const bool any = e.rows > 0;
        const bool ends = b + 1 < std::size(validate::bands);
        by_size.push_back({{"from_bytes", validate::bands[b].from},
                           {"below_bytes", ends ? Json(validate::bands[b].below) : Json()},
                           {"rows", e.rows},
                           {"median_error", any ? Json(e.corrected_percent / 100) : Json()},
                           {"median_formula_error", any ? Json(e.tuner_percent / 100) : Json()}});
      }
      rows.push_back({{"name", row.name}, {"by_size", by_size}});
    }
    tables.push_back({{"table", table.title}, {"rows", rows}});
  }
  Json apart = Json::array(), left_out = Json::array();
  for (const validate::Apart& a : published.apart) {
    apart.push_back({{"machine", a.machine}, {"why", a.why}});
  }
  for (const validate::LeftOut& l : published.left_out) {
    left_out.push_back({{"source", l.source}, {"rows", l.rows}, {"why", l.why}});
  }
  return json_text({{"schema", "stepcast.nccl-published/1"},
                    {"calls", published.calls},
                    {"machines", published.machines},
                    {"tables", tables},
                    {"apart", apart},
                    {"left_out", left_out}});
}

int compare_published(const NcclOptions& o, const Scenario& scenario) {
  if (!o.logs.empty()) {
    throw InputError({"--published", 0, ""}, "brings its own measurements; accepted: no LOG");
  }
  if (scenario.cluster || scenario.nodes || scenario.gpus || scenario.gpus_per_node) {
    throw InputError({"--published", 0, ""},
                     "brings its own machines; accepted: without cluster, nodes and gpus");
  }
  const CollectiveOptions options = resolve_collectives(scenario);
  note_unheeded(options);
  const Corrections none;
  const validate::PublishedErrors errors = validate::published_errors(
      options.corrections ? *options.corrections : none, validate::published_calls());
  print(o.json ? to_json(errors) : validate::to_text(errors));
  return 0;
}

}  // namespace

int nccl_compare(const NcclOptions& o, const Scenario& scenario) {
  if (o.published) return compare_published(o, scenario);
  if (o.logs.empty()) {
    throw InputError({"nccl compare", 0, ""}, "no log given; accepted: LOG..., or --published");
  }
  note_unheeded(resolve_collectives(scenario));
  std::vector<LogCompared> logs;
  for (const NcclTestsLog& log : read_nccl_logs(o, scenario)) {
    logs.push_back(compared(log, scenario));
  }
  print(o.json ? to_json(logs) : to_text(logs));
  return 0;
}

}  // namespace stepcast::cli

// stepcast nccl compare: a forecast beside a log, with the errors by size.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/error.hpp"
#include "cli/command.hpp"
#include "cli/nccl.hpp"
#include "sim/forecast/resolve.hpp"
#include "validate/collectives/errors.hpp"

namespace stepcast::cli {

namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

struct Band {
  const char* name;
  double below;
};
constexpr Band bands[] = {{"< 64 KiB", 65536.0},
                          {"64 KiB - 1 MiB", 1048576.0},
                          {"1 - 16 MiB", 16777216.0},
                          {"16 - 256 MiB", 268435456.0},
                          {">= 256 MiB", 1e30}};

struct Ratio {
  double forecast, formula;  // over what was measured
};

std::string summary(CollectiveKind op, const Band& band, const std::vector<Ratio>& ratios) {
  std::vector<double> forecast, error, formula_error;
  for (const Ratio& r : ratios) {
    forecast.push_back(r.forecast);
    error.push_back(std::abs(r.forecast - 1) * 100);
    formula_error.push_back(std::abs(r.formula - 1) * 100);
  }
  return fmt::format("# {:<14} {:<16} {:>4} {:>9.2f} {:>7.1f}% {:>21.1f}%\n", to_string(op),
                     band.name, ratios.size(), median(forecast), median(error),
                     median(formula_error));
}

}  // namespace

int nccl_compare(const NcclOptions& o, const Scenario& scenario) {
  if (o.published) {
    if (!o.logs.empty()) {
      throw InputError({"--published", 0, ""}, "brings its own measurements; accepted: no LOG");
    }
    if (scenario.cluster || scenario.nodes || scenario.gpus || scenario.gpus_per_node) {
      throw InputError({"--published", 0, ""},
                       "brings its own machines; accepted: without cluster, nodes and gpus");
    }
    const CollectiveOptions options = resolve_collectives(scenario);
    const Corrections none;
    print(validate::tables(options.corrections ? *options.corrections : none,
                           validate::published_calls()));
    return 0;
  }
  if (o.logs.empty()) {
    throw InputError({"nccl compare", 0, ""}, "no log given; accepted: LOG..., or --published");
  }
  std::string text;
  std::map<CollectiveKind, std::array<std::vector<Ratio>, std::size(bands)>> ratios;
  for (const NcclTestsLog& log : read_nccl_logs(o, scenario)) {
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
    text += fmt::format("# {}: {}, {} {}, {} ranks on {} x {}\n", log.file, to_string(log.op),
                        log.dtype, log.reduction == Reduction::none ? "none" : "reduced", log.ranks,
                        log.nodes, cluster.machine.name);
    text +=
        fmt::format("# {:>12} {:>8} {:>7} {:>4} {:>12} {:>12} {:>8} {:>12}  {}\n", "size", "algo",
                    "proto", "ch", "forecast us", "measured us", "error", "formula us", "from");
    for (const NcclTestsRow& row : log.rows) {
      const CollectiveCost c = collectives.cost(Axis::world, log.op, row.bytes,
                                                nccl_type_of_log(log.dtype), log.reduction);
      const double forecast_us = c.seconds * 1e6;
      const double ratio = forecast_us / row.time_us();
      const double formula_us = c.predicted.latency_us + c.predicted.wire_us;
      text +=
          fmt::format("{:>14} {:>8} {:>7} {:>4} {:>12} {:>12} {:>+7.1f}% {:>12}  {}\n", row.bytes,
                      to_string(c.choice.algorithm), to_string(c.choice.protocol),
                      c.choice.channels, nccl_time_text(forecast_us), nccl_time_text(row.time_us()),
                      (ratio - 1) * 100, nccl_time_text(formula_us), nccl_provenance_text(c));
      for (std::size_t b = 0; b < std::size(bands); ++b) {
        if (static_cast<double>(row.bytes) >= bands[b].below) continue;
        ratios[log.op][b].push_back({ratio, formula_us / row.time_us()});
        break;
      }
    }
  }
  text += fmt::format("#\n# {:<14} {:<16} {:>4} {:>9} {:>8} {:>22}\n", "operation", "size", "rows",
                      "forecast", "|error|", "formula alone |error|");
  for (const auto& [op, by_band] : ratios) {
    for (std::size_t b = 0; b < std::size(bands); ++b) {
      if (!by_band[b].empty()) text += summary(op, bands[b], by_band[b]);
    }
  }
  text +=
      "# forecast: of what was measured, the median; |error|: the median; formula: what NCCL's\n"
      "# tuner predicts, without corrections and measured times\n";
  print(text);
  return 0;
}

}  // namespace stepcast::cli

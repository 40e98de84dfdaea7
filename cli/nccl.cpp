// stepcast nccl: what NCCL would choose and take, and what somebody measured.
//
//   import    logs of nccl-tests become a table of measured times
//   predict   a table as nccl-tests prints it, forecast
//   compare   a forecast beside a log, with the errors by size

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "cli/command.hpp"
#include "cli/scenario_flags.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "sim/collectives/nccl_tests_log.hpp"
#include "sim/forecast/placed.hpp"
#include "sim/forecast/resolve.hpp"
#include "validate/collectives/errors.hpp"

namespace stepcast::cli {

namespace {

std::vector<std::string> cluster_keys() {
  std::vector<std::string> keys = collective_keys();
  keys.insert(keys.end(), {"nodes", "gpus"});
  return keys;
}

struct Options {
  std::vector<std::string> logs;
  std::string output;
  std::string op = "all_reduce";
  std::string begin = "8", end = "1G", factor = "2";
  std::string dtype = "float", redop;  // redop "": not said
  std::string hint_op;
  int ranks = 0, nodes = 0;
  bool published = false;
};

// "8", "25M", "1G": as nccl-tests reads sizes, K, M and G being powers of 1024.
Bytes parse_size(const std::string& flag, const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const std::from_chars_result read = std::from_chars(text.data(), end, value);
  double unit = 1;
  const std::string suffix(read.ptr, end);
  if (suffix == "K" || suffix == "k" || suffix == "KiB") unit = 1024.0;
  if (suffix == "M" || suffix == "m" || suffix == "MiB") unit = 1024.0 * 1024;
  if (suffix == "G" || suffix == "g" || suffix == "GiB") unit = 1024.0 * 1024 * 1024;
  if (read.ec != std::errc{} || (unit == 1 && !suffix.empty()) || !(value * unit >= 1) ||
      !(value * unit <= 1e15)) {
    throw InputError({flag, 0, ""}, "'" + text.substr(0, 40) +
                                        "' is not accepted; accepted: bytes from 1, as 8, 25M, 1G");
  }
  return static_cast<Bytes>(value * unit);
}

Dtype parse_type(const std::string& name) {
  const std::vector<std::pair<std::string, Dtype>> known = {
      {"float", Dtype::fp32},  {"half", Dtype::fp16}, {"bfloat16", Dtype::bf16},
      {"double", Dtype::fp64}, {"int8", Dtype::int8}, {"int32", Dtype::int32},
      {"int64", Dtype::int64}, {"fp8", Dtype::fp8}};
  std::vector<std::string> names;
  for (const auto& [text, dtype] : known) {
    if (text == name) return dtype;
    names.push_back(text);
  }
  throw not_accepted({"--dtype", 0, ""}, name, names);
}

// For a log, whose spelling of 8-bit floats differs by version.
Dtype type_of_log(const std::string& name) {
  if (name.find("e4m3") != std::string::npos || name.find("e5m2") != std::string::npos) {
    return Dtype::fp8;
  }
  if (name == "uint8") return Dtype::int8;
  if (name == "uint32") return Dtype::int32;
  if (name == "uint64") return Dtype::int64;
  if (name == "float16") return Dtype::fp16;
  if (name == "float32") return Dtype::fp32;
  if (name == "float64") return Dtype::fp64;
  return parse_type(name);
}

Reduction parse_redop(const std::string& name, CollectiveKind op) {
  const bool reduces = op == CollectiveKind::all_reduce || op == CollectiveKind::reduce_scatter ||
                       op == CollectiveKind::reduce;
  if (!reduces) {
    if (name.empty()) return Reduction::none;
    throw InputError({"--redop", 0, ""},
                     fmt::format("{} reduces nothing; accepted: without --redop, or --op "
                                 "all_reduce, reduce_scatter, reduce",
                                 to_string(op)));
  }
  if (name.empty() || name == "sum") return Reduction::sum;
  if (name == "avg") return Reduction::avg;
  if (name == "max" || name == "min") return Reduction::max;
  throw not_accepted({"--redop", 0, ""}, name, {"sum", "avg", "max", "min"});
}

std::string provenance_text(const CollectiveCost& cost) {
  if (cost.measured) return std::string(to_string(cost.measured->how));
  if (cost.corrected) {
    return fmt::format("{}, corrected for {}", to_string(cost.provenance), cost.network_class);
  }
  return std::string(to_string(cost.provenance));
}

std::string time_text(double us) {
  return us < 10000 ? fmt::format("{:.2f}", us) : fmt::format("{:.0f}", us);
}

// All tests of all files. Of several files those of an operation that is not modelled are left out.
std::vector<NcclTestsLog> read_logs(const Options& o, const Scenario& scenario) {
  NcclTestsHints hints{.ranks = o.ranks, .nodes = o.nodes, .op = o.hint_op};
  if (scenario.cluster) {
    Scenario one = scenario;
    one.nodes.reset();
    one.gpus.reset();
    hints.gpus_per_node = resolve_cluster(one).gpus_per_node;
  }
  std::vector<NcclTestsLog> logs;
  std::optional<InputError> first;
  for (const std::string& path : o.logs) {
    const std::string text = read_file(path, 64ll << 20);
    try {
      for (NcclTestsLog& log : read_nccl_tests_log(text, path, hints)) {
        for (const std::string& said : log.notes) note(path + ": " + said);
        logs.push_back(std::move(log));
      }
    } catch (const InputError& error) {
      const std::string why = error.what();
      if (o.logs.size() == 1 || why.find("stepcast does not model") == std::string::npos) throw;
      note(why + ": left out");
      if (!first) first = error;
    }
  }
  if (logs.empty() && first) throw *first;
  return logs;
}

// "NVIDIA A100-SXM4-40GB" and "A100-SXM4-40GB" of an older driver are one GPU.
std::string gpu_of(const NcclTestsLog& log) {
  return log.gpu.starts_with("NVIDIA ") ? log.gpu.substr(7) : log.gpu;
}

// A table is of one machine's times: those of another GPU may not mix with them.
void refuse_other_gpus(const std::vector<NcclTestsLog>& logs) {
  const NcclTestsLog* first = nullptr;
  for (const NcclTestsLog& log : logs) {
    if (log.gpu.empty()) continue;
    if (first == nullptr) first = &log;
    if (gpu_of(log) == gpu_of(*first)) continue;
    throw InputError({log.file, 0, ""},
                     fmt::format("was measured on {}, {} on {}; accepted: logs of one GPU, a table "
                                 "for each",
                                 log.gpu, first->file, first->gpu));
  }
}

int import(const Options& o, const Scenario& scenario) {
  MeasuredTable table;
  std::string said;
  const std::vector<NcclTestsLog> logs = read_logs(o, scenario);
  refuse_other_gpus(logs);
  for (const NcclTestsLog& log : logs) {
    const auto again = std::count_if(log.rows.begin(), log.rows.end(), [&](const auto& row) {
      const auto known = table.find(log.op, log.ranks, log.nodes, row.bytes);
      return known && known->how == MeasuredHow::measured;
    });
    if (again > 0) {
      note(
          fmt::format("{}: {} of its {} sizes are in an earlier log of {}, {} ranks on {} node{}, "
                      "too: the smaller time of each counts",
                      log.file, again, log.rows.size(), to_string(log.op), log.ranks, log.nodes,
                      log.nodes == 1 ? "" : "s"));
    }
    table.add(log);
    said += fmt::format("{}: {}, {} ranks on {} node{}, {} sizes\n", log.file, to_string(log.op),
                        log.ranks, log.nodes, log.nodes == 1 ? "" : "s", log.rows.size());
  }
  const std::string toml = table.to_toml();
  MeasuredTable::from_text(toml, "measured.toml");  // what is written reads back
  if (o.output.empty()) {
    print(toml);
    return 0;
  }
  write_file(o.output, toml);
  print(said + fmt::format("{}: use it with `--measured-collectives {}`\n", o.output, o.output));
  return 0;
}

std::vector<Bytes> sizes_of(const Options& o) {
  const Bytes begin = parse_size("-b", o.begin);
  const Bytes end = parse_size("-e", o.end);
  double factor = 0;
  const std::from_chars_result read =
      std::from_chars(o.factor.data(), o.factor.data() + o.factor.size(), factor);
  if (read.ec != std::errc{} || read.ptr != o.factor.data() + o.factor.size() ||
      !(factor >= 1.01) || !(factor <= 1e6)) {
    throw InputError({"-f", 0, ""}, "'" + o.factor + "' is not accepted; accepted: 1.01 to 1e6");
  }
  if (end < begin) throw InputError({"-e", 0, ""}, "is less than -b");
  std::vector<Bytes> sizes;
  for (double size = static_cast<double>(begin); size <= static_cast<double>(end) * 1.0001;
       size *= factor) {
    sizes.push_back(static_cast<Bytes>(std::llround(size)));
  }
  return sizes;
}

int predict(const Options& o, const Scenario& scenario) {
  const CollectiveKind op = parse_collective(o.op, {"--op", 0, ""});
  const Dtype dtype = parse_type(o.dtype);
  const Reduction reduction = parse_redop(o.redop, op);
  const std::vector<Bytes> sizes = sizes_of(o);
  const Cluster cluster = resolve_cluster(scenario);
  const Collectives collectives(cluster, {.replicate = cluster.world_size, .shard = 1},
                                resolve_collectives(scenario));
  std::string text = fmt::format(
      "# {}, {}{}: {} ranks on {} x {}\n# {}", to_string(op), o.dtype,
      reduction == Reduction::none ? "" : " " + (o.redop.empty() ? "sum" : o.redop),
      cluster.world_size, cluster.nodes, cluster.machine.name, collectives.describe(Axis::world));
  text += fmt::format("# {:>12} {:>8} {:>7} {:>4} {:>10} {:>8} {:>8}  {}\n", "size", "algo",
                      "proto", "ch", "time", "algbw", "busbw", "from");
  text += fmt::format("# {:>12} {:>8} {:>7} {:>4} {:>10} {:>8} {:>8}\n", "(B)", "", "", "", "(us)",
                      "(GB/s)", "(GB/s)");
  for (const Bytes size : sizes) {
    const CollectiveCost c = collectives.cost(Axis::world, op, size, dtype, reduction);
    const double algbw = c.seconds > 0 ? static_cast<double>(size) / c.seconds * 1e-9 : 0;
    text +=
        fmt::format("{:>14} {:>8} {:>7} {:>4} {:>10} {:>8.2f} {:>8.2f}  {}\n", size,
                    to_string(c.choice.algorithm), to_string(c.choice.protocol), c.choice.channels,
                    time_text(c.seconds * 1e6), algbw, c.busbw_gbps, provenance_text(c));
  }
  print(text);
  return 0;
}

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

int compare(const Options& o, const Scenario& scenario) {
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
  for (const NcclTestsLog& log : read_logs(o, scenario)) {
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
      const CollectiveCost c =
          collectives.cost(Axis::world, log.op, row.bytes, type_of_log(log.dtype), log.reduction);
      const double forecast_us = c.seconds * 1e6;
      const double ratio = forecast_us / row.time_us();
      const double formula_us = c.predicted.latency_us + c.predicted.wire_us;
      text += fmt::format("{:>14} {:>8} {:>7} {:>4} {:>12} {:>12} {:>+7.1f}% {:>12}  {}\n",
                          row.bytes, to_string(c.choice.algorithm), to_string(c.choice.protocol),
                          c.choice.channels, time_text(forecast_us), time_text(row.time_us()),
                          (ratio - 1) * 100, time_text(formula_us), provenance_text(c));
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

// What a part below refuses is named with the flag or the line that said it.
int at_their_place(int (*verb)(const Options&, const Scenario&), const Options& o,
                   const ScenarioFlags& flags) {
  const Scenario scenario = flags.read();
  return placed(scenario, [&] { return verb(o, scenario); });
}

void add_log_options(CLI::App& verb, Options& o, bool required) {
  verb.add_option("log", o.logs, "nccl-tests output, text or JSON")
      ->required(required)
      ->option_text("LOG...");
  verb.add_option("--log-op", o.hint_op, "operation, where the log does not say it")
      ->option_text("NAME");
  verb.add_option("--log-ranks", o.ranks, "ranks, where the log does not say them")
      ->option_text("N")
      ->check(CLI::Range(2, 1 << 24));
  verb.add_option("--log-nodes", o.nodes, "nodes, where the log does not say them")
      ->option_text("N")
      ->check(CLI::Range(1, 1 << 20));
}

Run add(CLI::App& command) {
  auto o = std::make_shared<Options>();
  CLI::App* import_verb =
      command.add_subcommand("import", "logs of nccl-tests as a table of measured times");
  import_verb->allow_extras();
  add_log_options(*import_verb, *o, true);
  import_verb->add_option("-o,--output", o->output, "the TOML to write (default: stdout)")
      ->option_text("FILE");
  auto import_flags = std::make_shared<ScenarioFlags>(
      *import_verb, std::vector<std::string>{"cluster", "gpus_per_node"});

  CLI::App* predict_verb = command.add_subcommand("predict", "a table as nccl-tests prints it");
  predict_verb->allow_extras();
  auto predict_flags = std::make_shared<ScenarioFlags>(*predict_verb, cluster_keys());
  predict_verb
      ->add_option("--op", o->op, "all_reduce, all_gather, reduce_scatter, broadcast, reduce")
      ->option_text("NAME");
  predict_verb->add_option("-b", o->begin, "smallest size (default 8)")->option_text("SIZE");
  predict_verb->add_option("-e", o->end, "largest size (default 1G)")->option_text("SIZE");
  predict_verb->add_option("-f", o->factor, "from size to size (default 2)")->option_text("FACTOR");
  predict_verb->add_option("--dtype", o->dtype, "float, half, bfloat16, fp8, ... (default float)")
      ->option_text("NAME");
  predict_verb->add_option("--redop", o->redop, "sum, avg, max, min (default sum)")
      ->option_text("NAME");

  CLI::App* compare_verb =
      command.add_subcommand("compare", "a forecast beside logs of nccl-tests");
  compare_verb->allow_extras();
  add_log_options(*compare_verb, *o, false);
  compare_verb->add_flag("--published", o->published,
                         "published measurements of many machines, instead of LOG");
  auto compare_flags = std::make_shared<ScenarioFlags>(*compare_verb, cluster_keys());

  return [=] {
    if (import_verb->parsed()) return at_their_place(import, *o, *import_flags);
    if (predict_verb->parsed()) return at_their_place(predict, *o, *predict_flags);
    if (compare_verb->parsed()) return at_their_place(compare, *o, *compare_flags);
    throw InputError({"nccl", 0, ""}, "no verb given; accepted: import, predict, compare");
  };
}

}  // namespace

const Command nccl_command{
    "nccl", "measured and forecast collectives",
    "  stepcast nccl predict --cluster dgx-h100 --nodes 2 --op all_reduce -b 1M -e 1G\n"
    "  stepcast nccl predict --cluster dgx-h100 --nodes 16 --nccl NCCL_ALGO=Ring\n"
    "  stepcast nccl import all_reduce.log all_gather.log -o measured.toml\n"
    "  stepcast nccl compare all_reduce.log --cluster dgx-h100\n"
    "  stepcast nccl compare --published",
    add};

}  // namespace stepcast::cli

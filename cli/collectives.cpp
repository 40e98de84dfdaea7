// stepcast collectives: one collective done in different ways, side by side.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/byte_size.hpp"
#include "base/error.hpp"
#include "base/letters.hpp"
#include "cli/command.hpp"
#include "cli/scenario_flags.hpp"
#include "sim/collectives/algorithms.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "sim/forecast/collective_messages.hpp"
#include "sim/forecast/placed.hpp"
#include "sim/forecast/resolve.hpp"
#include "sim/report/format.hpp"

namespace stepcast::cli {

namespace {

struct Options {
  std::string op = "all_reduce";
  int ranks = 0;
  std::string bytes = "25M";
  std::string engine;
  std::string protocol = "Simple";
  bool go_on = false;
};

// By messages, unless told to go on: the platform of more ranks is slow, too.
constexpr int most_ranks = 256;
constexpr double most_seconds = 60;

std::string bytes_text(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.3f} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.3f} MB", bytes / 1e6);
  return fmt::format("{:.0f} B", bytes);
}

std::string time_text(Seconds seconds) {
  if (seconds >= 1) return fmt::format("{:.3f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3f} ms", seconds * 1e3);
  return fmt::format("{:.1f} us", seconds * 1e6);
}

// As NCCL reads names: in any case.
NcclProtocol parse_protocol(const std::string& name) {
  std::vector<std::string> names;
  for (const NcclProtocol p : {NcclProtocol::ll, NcclProtocol::ll128, NcclProtocol::simple}) {
    if (same_letters(name, to_string(p))) return p;
    names.emplace_back(to_string(p));
  }
  throw not_accepted({"--protocol", 0, ""}, name, names);
}

struct ByMessages {
  NcclAlgorithm algorithm;
  NcclProtocol protocol;
  CollectiveMessages made;
};

// What would take long is not begun: 4 GB by LL are millions of messages.
void refuse_many(const Options& o, double size, const std::vector<ByMessages>& runs) {
  double seconds = 0;
  for (const ByMessages& run : runs) seconds += messages_wall_seconds(run.made.input);
  if (o.go_on || (o.ranks <= most_ranks && seconds <= most_seconds)) return;
  std::string counts;
  for (const ByMessages& run : runs) {
    counts += fmt::format("{}{} messages by {}/{}", counts.empty() ? "" : ", ",
                          count_messages(run.made.input), to_string(run.algorithm),
                          to_string(run.protocol));
  }
  const bool ranks = o.ranks > most_ranks;
  throw InputError(
      {ranks ? "--ranks" : "--bytes", 0, ""},
      fmt::format("{} ranks send {} for {}, which takes about {:.0f} s here; accepted: up to {}, "
                  "or --go-on",
                  o.ranks, counts, bytes_text(size), std::ceil(seconds),
                  ranks ? fmt::format("{}", most_ranks)
                        : "about " + bytes_text(size * most_seconds / seconds)));
}

// The collective message by message, beside the closed form on the same rates.
std::string by_messages(const Options& o, const Cluster& cluster, CollectiveKind op, double size,
                        const CollectiveOptions& options) {
  std::string text = fmt::format("  {:<20} {:>8} {:>9} {:>11} {:>12} {:>11}\n", "by messages",
                                 "channels", "messages", "time", "closed form", "difference");
  const NcclProtocol asked = parse_protocol(o.protocol);
  const Mesh mesh{.replicate = cluster.world_size, .shard = 1};
  std::vector<ByMessages> runs;
  for (const NcclAlgorithm algorithm :
       algorithms_by_messages(cluster, mesh, Axis::world, op, options)) {
    const bool by_all = algorithm == NcclAlgorithm::ring || algorithm == NcclAlgorithm::tree;
    const NcclProtocol protocol = by_all ? asked : NcclProtocol::simple;
    runs.push_back({algorithm, protocol,
                    collective_messages(cluster, mesh, Axis::world, {op, algorithm, size, protocol},
                                        options)});
    if (o.ranks > most_ranks) refuse_many(o, size, runs);  // before more of them are made
  }
  refuse_many(o, size, runs);
  for (const auto& [algorithm, protocol, made] : runs) {
    const MessagesResult result = simulate_messages(made.input);
    const Seconds time = made.base + result.seconds;
    const double thousandths = std::round(1000 * (time / made.closed_form - 1)) + 0.0;  // no -0.0
    text += fmt::format("  {:<20} {:>8} {:>9} {:>11} {:>12} {:>+9.1f} %\n",
                        fmt::format("{}/{}", to_string(algorithm), to_string(protocol)),
                        made.channels, result.messages, time_text(time),
                        time_text(made.closed_form), thousandths / 10);
  }
  return text;
}

int answer(const Options& o, Scenario& scenario) {
  const CollectiveKind op = parse_collective(o.op, {"--op", 0, ""});
  const double size = static_cast<double>(parse_byte_size(o.bytes, {"--bytes", 0, ""}));
  if (!o.engine.empty() && o.engine != "messages") {
    throw not_accepted({"--engine", 0, ""}, o.engine, {"messages"});
  }
  if (!o.engine.empty() && !scenario.cluster) {
    throw InputError({"--engine", 0, ""}, "messages need links; --cluster NAME says which");
  }
  if (o.protocol != "Simple" && o.engine.empty()) {
    throw InputError({"--protocol", 0, ""},
                     "says something about --engine messages, which is not on");
  }
  if (o.go_on && o.engine.empty()) {
    throw InputError({"--go-on", 0, ""}, "says something about --engine messages, which is not on");
  }
  std::string text;
  std::string messages;
  StepRates rates;
  rates.gpu_gbps = rates.node_gbps = rates.nic_gbps = 1;
  std::optional<CollectiveCost> nccl;
  if (scenario.cluster) {
    scenario.nodes.reset();
    scenario.gpus = o.ranks;
    scenario.said["gpus"] = {.file = "--ranks", .line = 0, .key = ""};
    const Cluster cluster = resolve_cluster(scenario);
    if (cluster.nodes > 1 && cluster.world_size % cluster.nodes != 0) {
      throw InputError({"--ranks", 0, ""},
                       fmt::format("{} do not fill {} nodes evenly; accepted: a multiple of {}",
                                   o.ranks, cluster.nodes, cluster.gpus_per_node));
    }
    const Collectives collectives(cluster, {.replicate = cluster.world_size, .shard = 1},
                                  resolve_collectives(scenario));
    rates = collectives.rates(Axis::world);
    const bool reduces = op != CollectiveKind::all_gather;
    nccl = collectives.cost(Axis::world, op, static_cast<Bytes>(size), Dtype::fp32,
                            reduces ? Reduction::sum : Reduction::none);
    if (!o.engine.empty()) {
      messages = by_messages(o, cluster, op, size, resolve_collectives(scenario));
    }
    text +=
        fmt::format("{} of {} on {} GPUs, {} x {}: {:.4g} GB/s a GPU within a node", o.op,
                    bytes_text(size), o.ranks, cluster.nodes, cluster.machine.name, rates.gpu_gbps);
    if (cluster.nodes > 1)
      text += fmt::format(" alone, {:.4g} GB/s a node between", rates.node_gbps);
    text += '\n';
  } else {
    text += fmt::format("{} of {} on {} ranks\n", o.op, bytes_text(size), o.ranks);
  }
  text += fmt::format("  {:<20} {:>7} {:>14} {:>9}  {:<10}{}\n", "algorithm", "steps", "sent a GPU",
                      "of size", "grows with", scenario.cluster ? "      time" : "");
  for (const AlgorithmCost& cost : compare_algorithms(op, o.ranks, size, rates)) {
    text += fmt::format("  {:<20} {:>7} {:>14} {:>8.3f}x  ", to_string(cost.algorithm), cost.steps,
                        bytes_text(cost.bytes_sent), cost.bytes_sent / size);
    const std::string growth = cost.growth == "no" ? "nothing" : cost.growth;
    text += scenario.cluster ? fmt::format("{:<10}{:>10}\n", growth, time_text(cost.seconds))
                             : growth + "\n";
  }
  if (nccl) {
    text += fmt::format("  NCCL takes {}/{} on {} channels: {}\n",
                        to_string(nccl->choice.algorithm), to_string(nccl->choice.protocol),
                        nccl->choice.channels, time_text(nccl->seconds));
  } else {
    text += "  --cluster NAME adds the time on its links and NCCL's choice\n";
  }
  print(text + messages);
  return 0;
}

// Ranks that nobody said are the machine's GPUs on the nodes.
int ranks_of(const Scenario& scenario) {
  if (!scenario.cluster) {
    throw InputError({"--ranks", 0, ""},
                     "is missing; accepted: how many GPUs take part, or --cluster and --nodes");
  }
  const int ranks = resolve_cluster(scenario).world_size;
  if (ranks >= 2) return ranks;
  throw InputError({"--ranks", 0, ""}, "is missing, and the machine has one GPU; accepted: from 2");
}

int run(Options& o, const ScenarioFlags& flags) {
  Scenario scenario = flags.read();
  return placed(scenario, [&] {
    if (o.ranks == 0) {
      o.ranks = ranks_of(scenario);
    } else if (scenario.nodes && !scenario.cluster) {
      throw InputError({"--nodes", 0, ""}, "needs --cluster: it counts machines");
    } else if (scenario.nodes && resolve_cluster(scenario).world_size != o.ranks) {
      throw InputError({"--ranks", 0, ""},
                       fmt::format("{} are not the {} GPUs of --nodes; accepted: one of the two",
                                   o.ranks, resolve_cluster(scenario).world_size));
    }
    return answer(o, scenario);
  });
}

Run add(CLI::App& command) {
  auto o = std::make_shared<Options>();
  command.add_option("--op", o->op, "all_reduce, all_gather or reduce_scatter")
      ->option_text("NAME");
  command
      .add_option("--ranks", o->ranks,
                  "GPUs that take part (default: those of --cluster and --nodes)")
      ->check(CLI::Range(2, 1 << 20))
      ->option_text("N");
  command.add_option("--bytes", o->bytes, "size: the tensor; gathered; unreduced (default 25M)")
      ->option_text("SIZE");
  command.add_option("--engine", o->engine, "messages: also message by message (docs/engines.md)")
      ->option_text("NAME");
  command
      .add_option("--protocol", o->protocol,
                  "of rings and trees by messages: Simple (default), LL, LL128")
      ->option_text("NAME");
  command.add_flag("--go-on", o->go_on,
                   "messages of more than 256 ranks or a minute, however long it takes");
  std::vector<std::string> keys = collective_keys();
  keys.emplace_back("nodes");
  auto flags = std::make_shared<ScenarioFlags>(command, keys);
  return [o, flags] { return run(*o, *flags); };
}

}  // namespace

const Command collectives_command{
    "collectives", "one collective by different algorithms, side by side",
    "  stepcast collectives --op all_reduce --ranks 64 --bytes 1G --cluster dgx-h100\n"
    "  stepcast collectives --op all_gather --ranks 16 --bytes 25M\n"
    "  stepcast collectives --ranks 16 --bytes 64M --cluster dgx-h100 --engine messages",
    add};

}  // namespace stepcast::cli

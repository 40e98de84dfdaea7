// stepcast collectives: one collective done in different ways, side by side.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>

#include "base/byte_size.hpp"
#include "base/error.hpp"
#include "base/letters.hpp"
#include "cli/collectives_output.hpp"
#include "cli/command.hpp"
#include "cli/nccl.hpp"
#include "cli/scenario_flags.hpp"
#include "sim/collectives/algorithms.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "sim/forecast/collective_messages.hpp"
#include "sim/forecast/placed.hpp"
#include "sim/forecast/resolve.hpp"

namespace stepcast::cli {

namespace {

struct Options {
  std::string op = "all_reduce";
  int ranks = 0;
  std::string bytes = "25M";
  std::string engine;
  std::string protocol = "Simple";
  bool go_on = false;
  bool json = false;
};

// By messages, unless told to go on: the platform of more ranks is slow, too.
constexpr int most_ranks = 256;
constexpr double most_seconds = 60;

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
                  o.ranks, counts, collective_size_text(size), std::ceil(seconds),
                  ranks ? fmt::format("{}", most_ranks)
                        : "about " + collective_size_text(size * most_seconds / seconds)));
}

// The collective message by message, beside the closed form on the same rates.
std::vector<PlayedOut> by_messages(const Options& o, const Cluster& cluster, CollectiveKind op,
                                   double size, const CollectiveOptions& options) {
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
  std::vector<PlayedOut> played;
  for (const auto& [algorithm, protocol, made] : runs) {
    const MessagesResult result = simulate_messages(made.input);
    played.push_back({algorithm, protocol, made.channels, result.messages,
                      made.base + result.seconds, made.closed_form});
  }
  return played;
}

// What needs --cluster or --engine and has it not.
void refuse_without(const Options& o, const Scenario& scenario) {
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
}

// The links of the cluster, NCCL's choice on them, and the messages where they are asked for.
void add_cluster(const Options& o, Scenario& scenario, CollectiveKind op, SideBySide& answer) {
  scenario.nodes.reset();
  scenario.gpus = o.ranks;
  scenario.said["gpus"] = {.file = "--ranks", .line = 0, .key = ""};
  const Cluster cluster = resolve_cluster(scenario);
  if (cluster.nodes > 1 && cluster.world_size % cluster.nodes != 0) {
    throw InputError({"--ranks", 0, ""},
                     fmt::format("{} do not fill {} nodes evenly; accepted: a multiple of {}",
                                 o.ranks, cluster.nodes, cluster.gpus_per_node));
  }
  const CollectiveOptions options = resolve_collectives(scenario);
  note_unheeded(options);
  const Collectives collectives(cluster, {.replicate = cluster.world_size, .shard = 1}, options);
  answer.machine = cluster.machine.name;
  answer.nodes = cluster.nodes;
  answer.rates = collectives.rates(Axis::world);
  const bool reduces = op != CollectiveKind::all_gather;
  answer.nccl = collectives.cost(Axis::world, op, answer.bytes, Dtype::fp32,
                                 reduces ? Reduction::sum : Reduction::none);
  if (o.engine.empty()) return;
  answer.by_messages = by_messages(o, cluster, op, static_cast<double>(answer.bytes), options);
}

int answer(const Options& o, Scenario& scenario) {
  const CollectiveKind op = parse_collective(o.op, {"--op", 0, ""});
  SideBySide found;
  found.op = o.op;
  found.bytes = parse_byte_size(o.bytes, {"--bytes", 0, ""});
  found.ranks = o.ranks;
  found.rates.gpu_gbps = found.rates.node_gbps = found.rates.nic_gbps = 1;
  refuse_without(o, scenario);
  if (scenario.cluster) add_cluster(o, scenario, op, found);
  found.algorithms = compare_algorithms(op, o.ranks, static_cast<double>(found.bytes), found.rates);
  print(o.json ? to_json(found) : to_text(found));
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
  command.add_flag("--json", o->json, "print JSON, schema stepcast.collectives/1");
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
    "  stepcast collectives --ranks 16 --bytes 64M --cluster dgx-h100 --engine messages\n"
    "  stepcast collectives --ranks 16 --bytes 64MiB --cluster dgx-h100 --json",
    add};

}  // namespace stepcast::cli

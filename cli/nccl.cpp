// stepcast nccl: what NCCL would choose and take, and what somebody measured.
//
//   import    logs of nccl-tests become a table of measured times
//   predict   a table as nccl-tests prints it, forecast
//   compare   a forecast beside a log, with the errors by size

#include "cli/nccl.hpp"

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.hpp"
#include "cli/command.hpp"
#include "cli/scenario_flags.hpp"
#include "sim/forecast/placed.hpp"

namespace stepcast::cli {

void note_unheeded(const CollectiveOptions& options) {
  const std::string said_in_vain = options.environment.note();
  if (!said_in_vain.empty()) note(said_in_vain);
}

namespace {

std::vector<std::string> cluster_keys() {
  std::vector<std::string> keys = collective_keys();
  keys.insert(keys.end(), {"nodes", "gpus"});
  return keys;
}

// What a part below refuses is named with the flag or the line that said it.
int at_their_place(int (*verb)(const NcclOptions&, const Scenario&), const NcclOptions& o,
                   const ScenarioFlags& flags) {
  const Scenario scenario = flags.read();
  return placed(scenario, [&] { return verb(o, scenario); });
}

void add_log_options(CLI::App& verb, NcclOptions& o, bool required) {
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
  auto o = std::make_shared<NcclOptions>();
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

  predict_verb->add_flag("--json", o->json, "print JSON, schema stepcast.nccl-prediction/1");

  CLI::App* compare_verb =
      command.add_subcommand("compare", "a forecast beside logs of nccl-tests");
  compare_verb->allow_extras();
  add_log_options(*compare_verb, *o, false);
  compare_verb->add_flag("--published", o->published,
                         "published measurements of many machines, instead of LOG");
  compare_verb->add_flag("--json", o->json,
                         "print JSON, schema stepcast.nccl-comparison/1; with --published "
                         "stepcast.nccl-published/1");
  auto compare_flags = std::make_shared<ScenarioFlags>(*compare_verb, cluster_keys());

  return [=] {
    if (import_verb->parsed()) return at_their_place(nccl_import, *o, *import_flags);
    if (predict_verb->parsed()) return at_their_place(nccl_predict, *o, *predict_flags);
    if (compare_verb->parsed()) return at_their_place(nccl_compare, *o, *compare_flags);
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

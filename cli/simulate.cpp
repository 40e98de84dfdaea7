// stepcast simulate: forecasts one training step.

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "cli/command.hpp"
#include "cli/scenario_flags.hpp"
#include "cli/step_page.hpp"
#include "cli/step_trace.hpp"
#include "sim/forecast/fit.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/forecast/params_tables.hpp"
#include "sim/report/format.hpp"
#include "sim/report/gantt_text.hpp"
#include "sim/report/html_page.hpp"
#include "sim/report/memory_snapshot.hpp"
#include "sim/report/picture.hpp"
#include "sim/schedule/text.hpp"

namespace stepcast::cli {

namespace {

struct Options {
  std::string file;
  StepTrace trace;
  std::string picture;
  std::string memory_snapshot;
  std::string report;
  bool gantt = false;
  bool json = false;
  bool schedule = false;
  bool go_on = false;
};

bool on_terminal() { return isatty(STDOUT_FILENO) == 1; }

// https://no-color.org
bool in_colour() {
  const char* refused = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return on_terminal() && (refused == nullptr || *refused == 0) &&
         (terminal == nullptr || std::string_view(terminal) != "dumb");
}

InputError refused(const char* flag, std::string_view why) {
  return {{.file = flag, .line = 0, .key = ""}, why};
}

int tables(const Scenario& scenario, const Options& options) {
  const auto needs_a_model = [](const char* flag) {
    throw InputError({.file = flag, .line = 0, .key = ""},
                     "needs a model: a parameter count alone has no schedule");
  };
  if (options.schedule) needs_a_model("--schedule");
  if (!options.trace.file.empty()) needs_a_model("--trace");
  if (!options.trace.chakra.empty()) needs_a_model("--chakra");
  if (!options.picture.empty()) needs_a_model("--picture");
  if (!options.memory_snapshot.empty()) needs_a_model("--memory-snapshot");
  if (!options.report.empty()) needs_a_model("--report");
  if (options.gantt) needs_a_model("--gantt");
  const ParamsTables tables = params_tables(scenario);
  print(options.json ? to_json(tables) : to_text(tables));
  if (!tables.infeasible.empty()) throw InfeasibleError(tables.infeasible);
  return 0;
}

// Two outputs into one file: the first would be lost.
void refuse_one_file_twice(const Options& options) {
  const std::pair<const char*, const std::string*> files[] = {
      {"--trace", &options.trace.file},
      {"--picture", &options.picture},
      {"--memory-snapshot", &options.memory_snapshot},
      {"--report", &options.report}};
  for (std::size_t a = 0; a < std::size(files); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      if (files[a].second->empty() || files[b].second->empty()) continue;
      const auto place = [](const std::string& file) {
        std::error_code none;
        return std::filesystem::weakly_canonical(file, none);
      };
      if (place(*files[a].second) != place(*files[b].second)) continue;
      throw InputError({.file = files[a].first, .line = 0, .key = ""},
                       fmt::format("'{}' is where {} writes; accepted: another file",
                                   *files[a].second, files[b].first));
    }
  }
}

void write_snapshot(const Forecast& f, const std::string& file) {
  ReplayOptions options = replay_options(f.resolved, f.report.memory);
  options.record = true;
  write_file(file,
             memory_snapshot(f.schedule, f.timeline, replay_memory(f.schedule, f.timeline, options),
                             options.allocator));
  note(fmt::format("memory snapshot written to {}", file));
}

int simulate(const Options& options, const ScenarioFlags& flags) {
  std::vector<std::string> notes;
  const Scenario scenario = flags.read(options.file, &notes);
  if (scenario.params && scenario.model) {
    throw InputError(scenario.where("params"), "give a model or a parameter count, not both");
  }
  if (scenario.params) return tables(scenario, options);

  if (scenario.gpu) {
    throw InputError(scenario.where("gpu"),
                     "applies to --params only: with a model the machine (--cluster) has the GPU");
  }
  refuse_one_file_twice(options);
  check(options.trace);
  if (options.schedule && options.json) {
    throw InputError({.file = "--schedule", .line = 0, .key = ""},
                     "prints a schedule, and --json a forecast; accepted: one of them");
  }

  if (options.go_on && scenario.engine.value_or("fluid") != "messages") {
    throw InputError({.file = "--go-on", .line = 0, .key = ""},
                     "says something about --engine messages, which is not on");
  }

  if (options.gantt && (options.schedule || options.json)) {
    throw refused("--gantt", options.json ? "is text, and --json is not; accepted: one of them"
                                          : "draws a forecast, and --schedule prints a schedule; "
                                            "accepted: one of them");
  }
  if (!options.report.empty()) check_report("--report", options.report);

  const bool all_drawn = options.schedule || options.gantt || !options.trace.file.empty() ||
                         !options.trace.chakra.empty() || !options.picture.empty() ||
                         !options.memory_snapshot.empty() || !options.report.empty();
  Forecast f = forecast(scenario, {.go_on = options.go_on, .whole = all_drawn});
  f.report.notes.insert(f.report.notes.begin(), notes.begin(), notes.end());
  spdlog::info("{}: {} ops a step, {} spans, {} distinct costs", f.schedule.name,
               f.report.ops_per_step, f.timeline.spans.size(), f.costs.costs.size());
  const bool traces = !options.trace.file.empty() || !options.trace.chakra.empty();
  if (f.perturbed && !f.perturbed->timeline &&
      (traces || !options.picture.empty() || options.gantt)) {
    throw refused(!options.trace.file.empty()     ? "--trace"
                  : !options.trace.chakra.empty() ? "--chakra"
                  : !options.picture.empty()      ? "--picture"
                                                  : "--gantt",
                  "a step that never ends has no timeline; accepted: without 'missing'");
  }
  write(options.trace, f);
  if (!options.picture.empty()) {
    PictureOptions picture;
    picture.title =
        fmt::format("{} on {} GPUs, {}", f.schedule.name, f.report.gpus, f.report.machine_name);
    picture.capacity = f.report.capacity;
    const Schedule& drawn = f.perturbed ? f.perturbed->schedule : f.schedule;
    const Timeline& timeline = f.perturbed ? *f.perturbed->timeline : f.timeline;
    if (!f.perturbed) picture.replay = &f.memory.front();
    write_file(options.picture, to_picture(drawn, timeline, picture));
    note(fmt::format("picture written to {}", options.picture));
  }
  if (!options.memory_snapshot.empty()) write_snapshot(f, options.memory_snapshot);
  if (!options.report.empty()) {
    write_report(options.report, "simulate",
                 step_document(f, scenario, scaling_document(scenario, f.report)));
    note(fmt::format("report written to {}", options.report));
  }
  if (options.json) {
    print(to_json(f.report));
  } else if (options.schedule) {
    print(to_text(f.schedule));
  } else {
    print(to_text(f.report, {.unicode = on_terminal()}));
    if (options.gantt) {
      const Schedule& drawn = f.perturbed ? f.perturbed->schedule : f.schedule;
      const Timeline& timeline = f.perturbed ? *f.perturbed->timeline : f.timeline;
      print("\n" + gantt_text(drawn, timeline, {.colour = in_colour()}));
    }
  }
  if (!f.report.fits) {
    throw InfeasibleError(shortage(f.report) + "; " +
                          (f.report.smallest_change.empty()
                               ? "no single change or pair that was tried fits"
                               : "what fits: " + f.report.smallest_change));
  }
  return 0;
}

Run add(CLI::App& command) {
  auto options = std::make_shared<Options>();
  auto flags = std::make_shared<ScenarioFlags>(command);
  command.add_option("scenario", options->file, "scenario file in TOML; flags override it")
      ->option_text("FILE");
  command.add_flag("--go-on", options->go_on,
                   "by messages of more than 64 ranks or 10 minutes, however long it takes");
  command.add_flag("--json", options->json, "print JSON, schema stepcast.forecast/1")
      ->group("Output");
  add_to(command, options->trace);
  command.add_option("--picture", options->picture, "draw the step's timeline as SVG")
      ->option_text("FILE")
      ->group("Output");
  command
      .add_option("--memory-snapshot", options->memory_snapshot,
                  "write a PyTorch memory snapshot for pytorch.org/memory_viz")
      ->option_text("FILE")
      ->group("Output");
  command.add_option("--report", options->report, "write the forecast as a page of HTML")
      ->option_text("FILE")
      ->group("Output");
  command.add_flag("--gantt", options->gantt, "draw the step's streams below the forecast")
      ->group("Output");
  command.add_flag("--schedule", options->schedule, "print the schedule instead of the forecast")
      ->group("Output");
  return [options, flags] { return simulate(*options, *flags); };
}

}  // namespace

const Command simulate_command{
    "simulate", "forecast a training step",
    "  stepcast simulate --model llama-3-8b --cluster dgx-h100 --nodes 16 --strategy fsdp2 \\\n"
    "    --seq-len 8192 --micro-batch 1 --checkpointing full\n"
    "  stepcast simulate examples/llama-3-8b-fsdp2-16-nodes.toml --nodes 32 --trace step.json\n"
    "  stepcast simulate --params 7e9 --gpus 8 --gpu h100-sxm",
    add};

}  // namespace stepcast::cli

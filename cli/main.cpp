// stepcast: the command line. Exit codes by base/error.hpp: 0 done, 2 bad input, 3 does not fit,
// 1 our own mistake. Every error is one line on stderr.

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "base/error.hpp"
#include "base/unfinished.hpp"
#include "base/version.hpp"
#include "cli/command.hpp"
#include "cli/help.hpp"
#include "cli/refusals.hpp"

namespace stepcast::cli {

namespace {

// A line a command, in the order of the help.
// clang-format off: a line a command, in the order of the help
const Command* const commands[] = {
    &simulate_command, &advise_command,    &explain_command,  &compare_command,
    &plan_command,     &tune_command,      &sweep_command,    &results_command,
    &memory_command,   &volume_command,    &run_command,      &gpu_check_command,
    &launch_command,   &calibrate_command, &validate_command, &fit_command,
    &import_command,   &emit_command,      &trace_command,    &list_command,
    &show_command,     &topo_command,      &nccl_command,     &collectives_command,
    &serve_command,    &help_command,      &doctor_command,   &completion_command,
    &man_command,      &schema_command,
};
// clang-format on

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

int fail(const std::string& message, int code) {
  std::fprintf(stderr, "stepcast: %s\n", one_line(message).c_str());
  return code;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// An option or word that nobody takes, with the nearest that somebody does.
void refuse_extras(const CLI::App& app, const std::string& command) {
  const std::vector<std::string> extras = app.remaining();
  if (extras.empty()) return;
  const std::string word = extras.front().substr(0, extras.front().find('='));
  const bool is_option = word.starts_with("-");
  std::string message = is_option ? "unknown option" : "unexpected argument";
  const std::string near = nearest(word, option_names(app));
  if (is_option && !near.empty()) message += " (did you mean '" + near + "'?)";
  throw InputError({.file = word, .line = 0, .key = ""},
                   message + "; `stepcast " + command + "--help` lists what is accepted");
}

// What is missing on the command line, and what it may be.
std::string what_is_required(const CLI::App& app, const std::string& message) {
  const CLI::App* command = &app;
  std::string name;
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    name += command->get_name() + " ";
  }
  std::string accepted;
  for (const CLI::Option* option : command->get_options()) {
    if (option->get_required() && option->count() == 0 && accepted.empty()) {
      accepted = option->get_description();
    }
  }
  for (const CLI::App* verb : command->get_subcommands(nullptr)) {
    if (command->get_require_subcommand_min() == 0) break;
    accepted += (accepted.empty() ? "" : ", ") + verb->get_name();
  }
  return fmt::format("{}: {}; accepted: {}; `stepcast {}--help` says more",
                     name.substr(0, name.size() - 1), message, accepted, name);
}

int run(int argc, char** argv) {
  CLI::App app{"Forecasts a data-parallel training step before the hardware is bought.",
               "stepcast"};
  app.formatter(std::make_shared<HelpFormatter>());  // commands and their verbs inherit it
  app.set_version_flag("--version", "stepcast " + std::string(version()));
  app.footer(
      "Example:\n  stepcast simulate --model llama-3-8b --cluster dgx-h100 --nodes 16 \\\n"
      "    --strategy fsdp2 --seq-len 8192 --checkpointing full");
  app.allow_extras();
  app.require_subcommand(0, 1);
  int verbosity = 0;
  app.add_flag("-v,--verbose", verbosity, "say what is being done, on stderr");
  struct Sub {
    CLI::App* app;
    Run run;
    bool passes_on;
  };
  std::vector<Sub> subs;
  for (const Command* command : commands) {
    CLI::App* sub = app.add_subcommand(command->name, command->summary);
    sub->footer(std::string("Example:\n") + command->example);
    sub->allow_extras();
    sub->add_flag("-v,--verbose", verbosity, "say what is being done, on stderr");
    if (command->passes_on) sub->prefix_command();
    subs.push_back({sub, command->add(*sub), command->passes_on});
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {  // --help, --version
    std::ostringstream text;
    const int code = app.exit(done, text, text);
    print(text.str());
    return code;
  } catch (const CLI::RequiredError& error) {
    return fail(what_is_required(app, error.what()), 2);
  } catch (const CLI::ParseError& error) {
    return fail(in_our_words(error), 2);
  }
  spdlog::set_level(verbosity == 0   ? spdlog::level::off
                    : verbosity == 1 ? spdlog::level::info
                                     : spdlog::level::debug);
  for (const Sub& sub : subs) {
    if (!sub.app->parsed()) continue;
    const std::string name = sub.app->get_name() + " ";
    if (!sub.passes_on) refuse_extras(*sub.app, name);
    refuse_empty_values(*sub.app);
    if (!sub.passes_on) refuse_outputs(*sub.app);
    for (const CLI::App* verb : sub.app->get_subcommands()) {
      refuse_extras(*verb, name + verb->get_name() + " ");
      refuse_empty_values(*verb);
      refuse_outputs(*verb);
    }
    return sub.run();
  }
  if (!app.remaining().empty() && !app.remaining().front().starts_with("-")) {
    std::vector<std::string> names;
    for (const Command* command : commands) names.push_back(command->name);
    throw not_accepted({.file = "command", .line = 0, .key = ""}, app.remaining().front(), names);
  }
  refuse_extras(app, "");
  print(app.help());
  return 0;
}

}  // namespace

void note(const std::string& text) {
  std::fprintf(stderr, "stepcast: note: %s\n", one_line(text).c_str());
}

void print(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0) {
    throw std::runtime_error(std::string("standard output cannot be written: ") +
                             std::strerror(errno));
  }
}

}  // namespace stepcast::cli

int main(int argc, char** argv) {
  using namespace stepcast;
  std::signal(SIGPIPE, SIG_DFL);  // `stepcast ... | head` ends quietly
  remove_unfinished_on_signals();
  spdlog::set_default_logger(spdlog::stderr_logger_st("stepcast"));
  spdlog::set_pattern("stepcast: %T.%e %v");
  spdlog::set_level(spdlog::level::off);
  try {
    return cli::run(argc, argv);
  } catch (const InputError& error) {
    return cli::fail(error.what(), 2);
  } catch (const InfeasibleError& error) {
    return cli::fail(error.what(), 3);
  } catch (const std::exception& error) {
    return cli::fail(error.what(), 1);
  }
}

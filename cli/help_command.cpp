// stepcast help COMMAND: the same page as `stepcast COMMAND --help`, for those who type it so.

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "cli/command.hpp"

namespace stepcast::cli {

namespace {

int go(const CLI::App& program, const std::vector<std::string>& words) {
  const CLI::App* at = &program;
  std::string name = program.get_name();
  for (const std::string& word : words) {
    const CLI::App* next = nullptr;
    std::vector<std::string> names;
    for (const CLI::App* verb : at->get_subcommands([](const CLI::App*) { return true; })) {
      names.push_back(verb->get_name());
      if (verb->get_name() == word) next = verb;
    }
    if (next == nullptr && names.empty()) {
      throw InputError({.file = "command", .line = 0, .key = ""},
                       "'" + word.substr(0, 80) + "' is too much: " + name + " has no commands");
    }
    if (next == nullptr) throw not_accepted({.file = "command", .line = 0, .key = ""}, word, names);
    at = next;
    name += " " + word;
  }
  // Not App::help(), which goes on to the command that was given, and that is this one.
  print(program.get_formatter()->make_help(at, name, CLI::AppFormatMode::Normal));
  return 0;
}

Run add(CLI::App& command) {
  auto words = std::make_shared<std::vector<std::string>>();
  command
      .add_option("command", *words, "the command (default: all of them in short), and its verb")
      ->option_text("COMMAND...");
  const CLI::App* program = command.get_parent();
  return [words, program] { return go(*program, *words); };
}

}  // namespace

const Command help_command{"help", "what a command does and takes, as its --help",
                           "  stepcast help\n"
                           "  stepcast help simulate\n"
                           "  stepcast help topo import",
                           add};

}  // namespace stepcast::cli

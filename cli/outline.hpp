#pragma once
// The command line as data: what completion scripts and manual pages are written from, so that they
// know every option that --help knows and no other.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace stepcast::cli {

struct OptionOutline {
  std::string long_name;             // "strategy"; "" where it has none
  std::string short_name;            // "v"
  std::string help;                  // one line
  std::string value;                 // "FILE", "N"; "" of a switch
  std::string group;                 // "Options", "Model", ...
  std::vector<std::string> choices;  // the words that are accepted, where the set is fixed
  bool optional_value = false;       // "--flag" alone is taken as well
};

struct CommandOutline {
  std::vector<std::string> path;  // {}: the program itself; {"topo", "import"}
  std::string summary;
  std::string footer;                    // examples
  std::vector<std::string> positionals;  // "scenario FILE": name and value
  std::vector<std::string> positional_help;
  std::vector<OptionOutline> options;
  std::vector<std::string> verbs;  // names of its subcommands

  std::string name() const;  // "topo import", "" of the program
};

// The program first, then each command and its verbs in the order of --help.
std::vector<CommandOutline> outline(const CLI::App& program);

}  // namespace stepcast::cli

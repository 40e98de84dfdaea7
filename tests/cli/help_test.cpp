// What --help looks like on a terminal of 100 columns.
#include <doctest/doctest.h>

#include <sstream>
#include <vector>

#include "tests/cli/run.hpp"

using namespace stepcast::test;

TEST_CASE("no line of any command's help but a usage or an example is wider than 100 columns") {
  std::vector<std::string> commands{""};
  std::stringstream lines(run("--help").out);
  bool within = false;
  for (std::string line; std::getline(lines, line);) {
    if (line == "Subcommands:") within = true;
    if (line.empty()) within = false;
    if (within && line.starts_with("  ") && line[2] != ' ') {
      commands.push_back(line.substr(2, line.find(' ', 2) - 2));
    }
  }
  REQUIRE(commands.size() > 20);
  for (const char* verb : {"nccl predict", "nccl compare", "topo import", "trace summary"}) {
    commands.push_back(verb);
  }
  for (const std::string& command : commands) {
    CAPTURE(command);
    const std::string help = run(command + " --help").out;
    CHECK(help.find("Usage: ") != std::string::npos);
    std::stringstream of_help(help.substr(0, help.find("\nExample:\n")));
    for (std::string line; std::getline(of_help, line);) {
      CAPTURE(line);
      CHECK(line.size() <= 100);
    }
  }
  // What does not fit on the first line stands below it.
  CHECK(run("collectives --help")
            .out.find("rail_optimised,\n                              rail_only") !=
        std::string::npos);
}

TEST_CASE("help COMMAND is the command's --help") {
  CHECK(run("help").out == run("--help").out);
  for (const char* command : {"simulate", "emit", "topo", "topo import", "help"}) {
    CAPTURE(command);
    const Output o = run(std::string("help ") + command);
    CHECK(o.code == 0);
    CHECK(o.out == run(std::string(command) + " --help").out);
    CHECK(o.out.find(std::string("Usage: stepcast ") + command) != std::string::npos);
  }
}

#pragma once
// --help: what an option means is broken at 100 columns, its later lines below its first.
//
//   --accumulation N            micro-batches before the optimizer steps; gradients are reduced
//   once
//                               a step
//
// Manual pages (man.cpp) take the same words from cli/outline.hpp, unbroken. Tested by tests/cli.

#include <CLI/CLI.hpp>
#include <string>

namespace stepcast::cli {

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;
};

}  // namespace stepcast::cli

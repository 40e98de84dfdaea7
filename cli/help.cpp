#include "cli/help.hpp"

#include <CLI/CLI.hpp>

#include "sim/report/format.hpp"

namespace stepcast::cli {
namespace {

constexpr std::size_t widest = 100;

// A name that leaves no room keeps its line, and the words begin on the next.
std::string entry(const std::string& name, const std::string& words, std::size_t column) {
  const std::string head = "  " + name;
  if (words.empty()) return head + "\n";
  if (head.size() < column) return folded(padded(head, column), words, widest);
  return head + "\n" + folded(std::string(column, ' '), words, widest);
}

}  // namespace

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  return entry(make_option_name(option, is_positional) + make_option_opts(option),
               make_option_desc(option), column_width_);
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return entry(command->get_display_name(true), command->get_description(), column_width_);
}

}  // namespace stepcast::cli

#pragma once
// What every command refuses in the same way, so that no command has to think of it: values that
// are empty, files that would be written over what is read or over each other, or cannot be made.

#include <CLI/CLI.hpp>
#include <string>

namespace stepcast::cli {

// Of one command, after it was parsed and before it runs. Each throws InputError.
void refuse_empty_values(const CLI::App& command);
void refuse_outputs(const CLI::App& command);

// CLI11's complaint in the words of this program: "--jobs: 'x' is not accepted; accepted: a
// number".
std::string in_our_words(const CLI::ParseError& error);

}  // namespace stepcast::cli

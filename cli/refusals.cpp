// Refusals that hold for every command.
//
// A file that is written is known by its option's name. `simulate step.toml --report step.toml`
// would end with a page where the scenario was, and `results sweep.db --report sweep.db` with a
// page where hours of work were: the file of an output may be none that another option names. What
// can be known of an output before the work, its folder and that it is no folder itself, is said
// before.
//
// Tested by tests/cli/bad_input_test.cpp and output_test.cpp.

#include "cli/refusals.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <regex>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/number_text.hpp"
#include "sim/forecast/scenario.hpp"
#include "sim/forecast/scenario_keys.hpp"

namespace stepcast::cli {

namespace {

namespace fs = std::filesystem;

const char* const output_names[] = {
    "output", "trace", "picture", "memory-snapshot", "report", "export", "record", "page", "out"};

bool is_output(const CLI::Option& option) {
  if (option.get_option_text() == "FOLDER") return false;
  const std::vector<std::string>& names = option.get_lnames();
  return std::any_of(std::begin(output_names), std::end(output_names), [&](const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  });
}

// What an option takes, in words: by the word that stands for its value in --help, or the fixed
// words of a scenario's key.
std::string accepted_by(const CLI::Option& option) {
  for (const ScenarioKey& key : scenario_keys()) {
    if (flag_of(key.name()) != option.get_name() || key.info().accepted.empty()) continue;
    return fmt::format("{}", fmt::join(key.info().accepted, ", "));
  }
  constexpr std::pair<std::string_view, std::string_view> words[] = {
      {"", "a value"},
      {"BOOL", "true, false"},
      {"BOOL|N", "true, false, or a whole number"},
      {"FILE", "a file"},
      {"FILE...", "a file"},
      {"FOLDER", "a folder"},
      {"LOG...", "a file"},
      {"N", "a number"},
      {"N,...", "numbers with commas between them"},
      {"NAME", "a name"},
      {"NAME,...", "names with commas between them"},
      {"SIZE", "bytes, as 4096, 25M, 1GiB"},
      {"TIME", "a time with its unit, as 120ms, 0.12s"}};
  const std::string& text = option.get_option_text();
  for (const auto& [name, meaning] : words) {
    if (text == name) return std::string(meaning);
  }
  return text;
}

InputError refused(const CLI::Option& option, const std::string& file, const std::string& why) {
  return InputError({.file = option.get_name(), .line = 0, .key = ""},
                    fmt::format("'{}' {}", file.substr(0, 200), why));
}

// An existing file under two names, or the same name of one that is not there yet.
bool same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::is_regular_file(a, error)) return fs::equivalent(a, b, error) && !error;
  if (fs::exists(a, error)) return false;  // a terminal, a pipe
  const fs::path one = fs::weakly_canonical(fs::absolute(a), error);
  return !error && one == fs::weakly_canonical(fs::absolute(b), error) && !error;
}

void refuse_output(const CLI::Option& option, const std::string& file) {
  std::error_code error;
  if (fs::is_directory(file, error)) {
    throw refused(option, file, "is a directory; accepted: a file to write");
  }
  const fs::path folder = fs::path(file).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, error)) {
    throw refused(option, file, "lies in a folder that is not there; accepted: a file to write");
  }
}

void refuse_the_same(const CLI::Option& output, const std::string& file, const CLI::Option& other) {
  for (const std::string& named : other.results()) {
    std::error_code error;
    const bool writes = is_output(other);
    if (!writes && !fs::is_regular_file(named, error)) continue;
    if (!same_file(file, named)) continue;
    throw refused(
        output, file,
        fmt::format("is {} {}; accepted: another file to write",
                    writes ? "where to write, too, by" : "what is read as", other.get_name()));
  }
}

}  // namespace

void refuse_empty_values(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0 || option->get_items_expected_max() == 0) continue;
    const std::vector<std::string>& values = option->results();
    if (std::find(values.begin(), values.end(), "") == values.end()) continue;
    throw refused(*option, "", "is not accepted; accepted: " + accepted_by(*option));
  }
}

void refuse_outputs(const CLI::App& command) {
  const std::vector<const CLI::Option*> options = command.get_options();
  for (const CLI::Option* output : options) {
    if (output->count() == 0 || !is_output(*output)) continue;
    const std::string file = output->results().front();
    refuse_output(*output, file);
    for (const CLI::Option* other : options) {
      if (other != output && other->count() > 0) refuse_the_same(*output, file, *other);
    }
  }
}

std::string in_our_words(const CLI::ParseError& error) {
  const std::string text = error.what();
  std::smatch m;
  if (std::regex_match(text, m, std::regex("Could not convert: (\\S+) = ([^]*)"))) {
    return fmt::format("{}: '{}' is not accepted; accepted: a number", m[1].str(),
                       m[2].str().substr(0, 80));
  }
  if (std::regex_match(text, m, std::regex("(\\S+): Value ([^]*) not in range (\\S+) to (\\S+)"))) {
    return fmt::format("{}: '{}' is not accepted; accepted: {} to {}", m[1].str(),
                       m[2].str().substr(0, 80), number_text(std::stod(m[3].str())),
                       number_text(std::stod(m[4].str())));
  }
  if (std::regex_match(text, m, std::regex("(\\S+): At Most 1 required but received \\d+"))) {
    return m[1].str() + ": is given more than once; accepted: once";
  }
  return text;
}

}  // namespace stepcast::cli

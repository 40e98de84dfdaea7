#include "sim/forecast/command_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "sim/forecast/resolve.hpp"

namespace stepcast {
namespace {

template <typename Value>
std::string written(const Value& value) {
  return fmt::format("{}", value);
}
std::string written(const YesNoOrCount& value) {
  return value.count > 0 ? fmt::format("{}", value.count) : value.yes ? "true" : "false";
}
template <typename Value>
std::string written(const std::vector<Value>& values) {
  return fmt::format("{}", fmt::join(values, ","));
}

// Paths of a scenario file are from its folder, those of a command from where one stands.
template <typename Value>
std::string as_said(const Scenario&, const KeyInfo&, const Value& value) {
  return written(value);
}
std::string as_said(const Scenario& scenario, const KeyInfo& key, const std::string& value) {
  return scenario_path(scenario, key.name, value);
}

bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("_-./,=:+@%").find(c) != std::string_view::npos;
}

std::string quoted(const std::string& word) {
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

std::string command_of(const Scenario& scenario, const std::string& command) {
  std::string text = "stepcast " + command;
  visit_scenario(scenario, [&](const KeyInfo& key, const auto& field) {
    if (!field) return;
    text += fmt::format(" {} {}", flag_of(key.name), quoted(as_said(scenario, key, *field)));
  });
  return text;
}

}  // namespace stepcast

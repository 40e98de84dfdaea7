#include "cli/outline.hpp"

#include <CLI/CLI.hpp>
#include <map>

#include "models/model.hpp"
#include "sim/forecast/scenario.hpp"
#include "topologies/topology.hpp"

namespace stepcast::cli {

namespace {

// Of the options that are keys of a scenario, and of those that take a name of the catalog.
std::map<std::string, std::vector<std::string>> fixed_choices() {
  std::map<std::string, std::vector<std::string>> choices;
  Scenario shape;
  visit_scenario(shape, [&](const KeyInfo& key, auto& /*field*/) {
    std::string name = key.name;
    for (char& c : name) c = c == '_' ? '-' : c;
    if (!key.accepted.empty()) choices[name] = key.accepted;
  });
  choices["model"] = catalog_models();
  choices["cluster"] = catalog_machines();
  choices["gpu"] = catalog_gpus();
  return choices;
}

std::string one_line(std::string text) {
  for (char& c : text) c = c == '\n' ? ' ' : c;
  return text;
}

void add(const CLI::App& app, const std::vector<std::string>& path,
         const std::map<std::string, std::vector<std::string>>& choices,
         std::vector<CommandOutline>& all) {
  CommandOutline out;
  out.path = path;
  out.summary = one_line(app.get_description());
  out.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    OptionOutline each;
    if (!option->get_lnames().empty()) each.long_name = option->get_lnames().front();
    if (!option->get_snames().empty()) each.short_name = option->get_snames().front();
    each.help = one_line(option->get_description());
    each.group = option->get_group();
    const bool takes = option->get_items_expected_max() > 0;
    if (takes) {
      each.value = option->get_option_text().empty() ? "VALUE" : option->get_option_text();
    }
    each.optional_value = takes && option->get_items_expected_min() == 0;
    if (each.long_name.empty() && each.short_name.empty()) {
      out.positionals.push_back(option->get_name(true) + " " + each.value);
      out.positional_help.push_back(each.help);
      continue;
    }
    const auto known = choices.find(each.long_name);
    if (takes && known != choices.end()) each.choices = known->second;
    out.options.push_back(std::move(each));
  }
  const std::vector<const CLI::App*> verbs =
      app.get_subcommands([](const CLI::App* /*verb*/) { return true; });
  for (const CLI::App* verb : verbs) out.verbs.push_back(verb->get_name());
  all.push_back(std::move(out));
  for (const CLI::App* verb : verbs) {
    std::vector<std::string> below = path;
    below.push_back(verb->get_name());
    add(*verb, below, choices, all);
  }
}

}  // namespace

std::string CommandOutline::name() const {
  std::string text;
  for (const std::string& word : path) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::vector<CommandOutline> outline(const CLI::App& program) {
  std::vector<CommandOutline> all;
  add(program, {}, fixed_choices(), all);
  return all;
}

}  // namespace stepcast::cli

#include "validate/published/source.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/embedded.hpp"
#include "base/error.hpp"
#include "base/toml.hpp"

namespace stepcast {

namespace {

// A [table] of scenario keys.
struct TableReader {
  TomlTable& table;
  std::string text;

  void operator()(const KeyInfo& key, std::optional<std::string>&) {
    if (const auto value = table.optional_string(key.name)) {
      text += std::string(key.name) + " = \"" + *value + "\"\n";
    }
  }
  void operator()(const KeyInfo& key, std::optional<bool>&) {
    if (const auto value = table.optional_boolean(key.name)) {
      text += std::string(key.name) + (*value ? " = true\n" : " = false\n");
    }
  }
  void operator()(const KeyInfo& key, std::optional<double>& field) { number(key, field); }
  void operator()(const KeyInfo& key, std::optional<std::int64_t>& field) { number(key, field); }
  template <typename Field>
  void number(const KeyInfo& key, Field&) {
    if (const auto value = table.optional_number(key.name, {.min = key.min, .max = key.max})) {
      text += std::string(key.name) + " = " + std::to_string(*value) + "\n";
    }
  }
  template <typename Field>
  void operator()(const KeyInfo&, Field&) {}  // lists are said a row
};

Scenario scenario_of(TomlTable table, const std::string& file) {
  Scenario keys;
  TableReader reader{table, ""};
  visit_scenario(keys, reader);
  table.finish();
  return parse_scenario(reader.text, file);
}

}  // namespace

PublishedSource parse_source(const std::string& name, std::string_view toml, std::string_view csv) {
  const std::string file = name + ".toml";
  TomlTable table = TomlTable::from_text(toml, file);
  PublishedSource source;
  source.name = name;
  source.title = table.string("title");
  source.source = table.string("source");
  source.reading = table.string("reading");
  const std::string memory = table.string_or("memory", "allocated");
  if (memory != "allocated" && memory != "reserved") {
    throw not_accepted(table.where("memory"), memory, {"allocated", "reserved"});
  }
  source.reserved_memory = memory == "reserved";
  Scenario common;
  if (auto scenario = table.table("scenario")) common = scenario_of(*scenario, file);
  if (auto changed = table.table("changed")) source.changed = scenario_of(*changed, file);
  double shares = 0;
  std::vector<TomlTable> lengths = table.tables("length");
  for (TomlTable& entry : lengths) {
    Length& length = source.lengths.emplace_back();
    length.tokens = entry.integer("tokens", {.min = 1, .max = 1e9});
    length.share = entry.number("share", {.min = 0, .max = 1});
    shares += length.share;
    entry.finish();
    if (&entry == &lengths.back() && std::abs(shares - 1) > 0.001) {
      throw InputError(entry.where("share"), fmt::format("shares add up to {:.4f}, not 1", shares));
    }
  }
  for (TomlTable& entry : table.tables("bar")) {
    Bar& bar = source.bars.emplace_back();
    bar.figure = entry.string("figure");
    bar.at_most = entry.optional_number("at_most", {});
    bar.at_least = entry.optional_number("at_least", {});
    if (bar.at_most.has_value() == bar.at_least.has_value()) {
      throw InputError(entry.where("figure"), "a bar has at_most or at_least");
    }
    bar.beats_baselines = entry.boolean_or("beats_baselines", false);
    entry.finish();
  }
  table.finish();
  source.rows = parse_rows(csv, name + ".csv", common);
  return source;
}

std::string_view published_text(const std::string& file) {
  for (const embedded::File& f : embedded::published()) {
    if (f.name == file) return f.text;
  }
  STEPCAST_ASSERT(false, "no embedded file " + file);
}

std::vector<PublishedSource> published_sources() {
  std::vector<PublishedSource> sources;
  for (const char* name : {"llmf", "llmf-transfer", "llmf-fp8", "ultrascale", "titan", "vtrain",
                           "dle-bert", "dle-bert-512", "ptddp", "ptddpbucket", "hfdp", "context"}) {
    sources.push_back(parse_source(name, published_text(std::string(name) + ".toml"),
                                   published_text(std::string(name) + ".csv")));
  }
  return sources;
}

}  // namespace stepcast

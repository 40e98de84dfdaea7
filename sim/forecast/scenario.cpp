#include "sim/forecast/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/number_text.hpp"
#include "base/toml.hpp"
#include "sim/forecast/scenario_schema.hpp"

namespace stepcast {

namespace {

struct Reader {
  TomlTable& table;
  Scenario& scenario;

  template <typename Field>
  void operator()(const KeyInfo& key, Field& field) {
    read(key, field);
    if (field) scenario.said[key.name] = table.where(key.name);
  }

  void read(const KeyInfo& key, std::optional<std::string>& field) {
    field = table.optional_string(key.name);
    if (field && !key.accepted.empty() &&
        std::find(key.accepted.begin(), key.accepted.end(), *field) == key.accepted.end()) {
      throw not_accepted(table.where(key.name), *field, key.accepted);
    }
  }
  void read(const KeyInfo& key, std::optional<double>& field) {
    field = table.optional_number(key.name, {.min = key.min, .max = key.max});
  }
  void read(const KeyInfo& key, std::optional<std::int64_t>& field) {
    field = table.optional_integer(key.name, {.min = key.min, .max = key.max});
  }
  void read(const KeyInfo& key, std::optional<bool>& field) {
    field = table.optional_boolean(key.name);
  }
  void read(const KeyInfo& key, std::optional<std::vector<std::string>>& field) {
    if (table.has(key.name)) field = table.strings(key.name);
  }
  void read(const KeyInfo& key, std::optional<std::vector<double>>& field) {
    if (table.has(key.name)) field = table.numbers(key.name);
  }
  void read(const KeyInfo& key, std::optional<YesNoOrCount>& field) {
    if (!table.is_integer(key.name)) {
      if (const auto yes = table.optional_boolean(key.name)) field = YesNoOrCount{*yes, 0};
      return;
    }
    field = YesNoOrCount{true, *table.optional_integer(key.name, {.min = 1, .max = 1e7})};
  }
};

struct RangeCheck {
  const Scenario& scenario;

  void operator()(const KeyInfo& key, const std::optional<std::string>& field) {
    if (field && !key.accepted.empty() &&
        std::find(key.accepted.begin(), key.accepted.end(), *field) == key.accepted.end()) {
      throw not_accepted(scenario.where(key.name), *field, key.accepted);
    }
  }
  void operator()(const KeyInfo&, const std::optional<bool>&) {}
  void operator()(const KeyInfo& key, const std::optional<std::vector<std::string>>& field) {
    if (field && field->empty()) empty_list(key);
  }
  void operator()(const KeyInfo& key, const std::optional<std::vector<double>>& field) {
    if (field && field->empty()) empty_list(key);
    for (const double value : field.value_or(std::vector<double>{})) {
      (*this)(key, std::optional<double>(value));
    }
  }
  void empty_list(const KeyInfo& key) {
    throw InputError(scenario.where(key.name), "an empty list; accepted: one value or more");
  }
  void operator()(const KeyInfo&, const std::optional<YesNoOrCount>&) {}
  template <typename Number>
  void operator()(const KeyInfo& key, const std::optional<Number>& field) {
    if (!field) return;
    const auto value = static_cast<double>(*field);
    if (value >= key.min && value <= key.max) return;
    throw InputError(scenario.where(key.name),
                     fmt::format("{} is not accepted; accepted: {} to {}", number_text(value),
                                 number_text(key.min), number_text(key.max)));
  }
};

}  // namespace

Where Scenario::where(const std::string& key) const {
  const auto found = said.find(key);
  if (found != said.end()) return found->second;
  return {.file = flag_of(key), .line = 0, .key = ""};
}

std::string flag_of(const std::string& key) {
  std::string flag = "--" + key;
  std::replace(flag.begin() + 2, flag.end(), '_', '-');
  return flag;
}

Scenario parse_scenario(const std::string& text, const std::string& file) {
  TomlTable table = TomlTable::from_text(text, file);
  Scenario scenario;
  if (const std::optional<std::string> said = table.optional_string("schema")) {
    if (*said != scenario_schema_name) {
      throw not_accepted(table.where("schema"), *said, {scenario_schema_name});
    }
  }
  visit_scenario(scenario, Reader{table, scenario});
  table.finish();
  return scenario;
}

Scenario read_scenario(const std::string& path) {
  return parse_scenario(read_file(path, 1 << 20), path);
}

void check_ranges(const Scenario& scenario) { visit_scenario(scenario, RangeCheck{scenario}); }

Scenario merged(Scenario base, const Scenario& over) {
  // Two ways to say one thing: the one that is said later wins over the other, too.
  if (over.nodes || over.gpus) {
    base.nodes.reset();
    base.gpus.reset();
  }
  if (over.model || over.params) {
    base.model.reset();
    base.params.reset();
  }
  if (over.strategy || over.sharding_strategy) {
    base.strategy.reset();
    base.sharding_strategy.reset();
  }
  // Both visits list the same fields in the same order; the second walks a copy of `over`'s.
  std::vector<const void*> overriding;
  visit_scenario(over, [&](const KeyInfo&, const auto& field) { overriding.push_back(&field); });
  std::size_t i = 0;
  visit_scenario(base, [&](const KeyInfo& key, auto& field) {
    using Field = std::remove_reference_t<decltype(field)>;
    const Field& other = *static_cast<const Field*>(overriding[i++]);
    if (!other) return;
    field = other;
    base.said[key.name] = over.where(key.name);
  });
  return base;
}

Scenario without_strategy(Scenario scenario) {
  visit_scenario(scenario, [](const KeyInfo& key, auto& field) {
    if (std::string_view(key.group) == "Strategy") field.reset();
  });
  return scenario;
}

}  // namespace stepcast

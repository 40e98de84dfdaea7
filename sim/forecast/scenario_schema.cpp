#include "sim/forecast/scenario_schema.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/forecast/scenario.hpp"

namespace stepcast {

namespace {

using Json = nlohmann::ordered_json;

// 8192, not 8192.0.
Json number(double value) {
  return std::trunc(value) == value && std::abs(value) <= 1e15
             ? Json(static_cast<std::int64_t>(value))
             : Json(value);
}

void add_bounds(Json& property, const KeyInfo& key) {
  if (key.min == 0 && key.max == 0) return;
  property["minimum"] = number(key.min);
  property["maximum"] = number(key.max);
}

void describe(Json& property, const KeyInfo& key, const std::optional<std::string>& /*field*/) {
  property["type"] = "string";
  if (!key.accepted.empty()) property["enum"] = key.accepted;
}
void describe(Json& property, const KeyInfo& key, const std::optional<double>& /*field*/) {
  property["type"] = "number";
  add_bounds(property, key);
}
// Also 5e8, which JSON Schema counts as an integer.
void describe(Json& property, const KeyInfo& key, const std::optional<std::int64_t>& /*field*/) {
  property["type"] = "integer";
  add_bounds(property, key);
}
void describe(Json& property, const KeyInfo& /*key*/, const std::optional<bool>& /*field*/) {
  property["type"] = "boolean";
}
void describe(Json& property, const KeyInfo& /*key*/,
              const std::optional<YesNoOrCount>& /*field*/) {
  property["type"] = {"boolean", "integer"};
}
void describe(Json& property, const KeyInfo& /*key*/,
              const std::optional<std::vector<std::string>>& /*field*/) {
  property["type"] = "array";
  property["items"] = {{"type", "string"}};
}
void describe(Json& property, const KeyInfo& key,
              const std::optional<std::vector<double>>& /*field*/) {
  property["type"] = "array";
  property["items"] = {{"type", "number"}};
  add_bounds(property["items"], key);
}

}  // namespace

std::string scenario_schema() {
  Json properties = Json::object();
  properties["schema"] = {{"description", "optional: the version that the file is written for"},
                          {"const", scenario_schema_name}};
  const Scenario shape;
  visit_scenario(shape, [&](const KeyInfo& key, const auto& field) {
    Json property = {{"description", key.help}};
    describe(property, key, field);
    properties[key.name] = property;
  });
  const Json document = {
      {"$schema", "https://json-schema.org/draft/2020-12/schema"},
      {"title", scenario_schema_name},
      {"description", "A scenario file of `stepcast simulate`, TOML read as JSON."},
      {"type", "object"},
      {"properties", properties},
      {"additionalProperties", false}};
  return document.dump(2) + "\n";
}

}  // namespace stepcast

#include "tests/cli/json_schema.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace stepcast::test {

namespace {

using Json = nlohmann::json;

bool has_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  if (type == "integer") {
    return value.is_number_integer() ||
           (value.is_number() && std::trunc(value.get<double>()) == value.get<double>());
  }
  return false;
}

class Checker {
 public:
  std::vector<std::string> found;

  void check(const Json& value, const Json& schema, const std::string& at) {
    if (schema == true) return;
    static const std::set<std::string> known = {
        "$schema",         "title",      "description",          "type",  "const",   "enum",
        "required",        "properties", "additionalProperties", "items", "minimum", "maximum",
        "exclusiveMinimum"};
    for (const auto& [word, meaning] : schema.items()) {
      if (known.count(word) == 0) found.push_back(at + ": the schema says '" + word + "'");
    }
    if (schema.contains("type")) type(value, schema.at("type"), at);
    if (schema.contains("const") && value != schema.at("const")) {
      found.push_back(at + ": is " + value.dump() + ", not " + schema.at("const").dump());
    }
    if (schema.contains("enum")) {
      const Json& words = schema.at("enum");
      if (std::find(words.begin(), words.end(), value) == words.end()) {
        found.push_back(at + ": " + value.dump() + " is none of the words");
      }
    }
    if (value.is_number()) bounds(value.get<double>(), schema, at);
    if (value.is_object()) object(value, schema, at);
    if (value.is_array() && schema.contains("items")) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        check(value[i], schema.at("items"), at + "[" + std::to_string(i) + "]");
      }
    }
  }

 private:
  void type(const Json& value, const Json& types, const std::string& at) {
    const Json list = types.is_array() ? types : Json::array({types});
    const bool any = std::any_of(list.begin(), list.end(), [&](const Json& each) {
      return has_type(value, each.get<std::string>());
    });
    if (!any) found.push_back(at + ": " + value.dump().substr(0, 60) + " is no " + types.dump());
  }

  void bounds(double value, const Json& schema, const std::string& at) {
    const bool low = schema.contains("minimum") && value < schema.at("minimum").get<double>();
    const bool high = schema.contains("maximum") && value > schema.at("maximum").get<double>();
    const bool zero =
        schema.contains("exclusiveMinimum") && value <= schema.at("exclusiveMinimum").get<double>();
    if (low || high || zero) found.push_back(at + ": " + std::to_string(value) + " out of range");
  }

  void object(const Json& value, const Json& schema, const std::string& at) {
    if (schema.contains("required")) {
      for (const Json& key : schema.at("required")) {
        if (!value.contains(key.get<std::string>())) {
          found.push_back(at + ": lacks " + key.get<std::string>());
        }
      }
    }
    const Json none = Json::object();
    const Json& properties = schema.contains("properties") ? schema.at("properties") : none;
    for (const auto& [key, inside] : value.items()) {
      if (properties.contains(key)) {
        check(inside, properties.at(key), at + "." + key);
      } else if (schema.contains("additionalProperties")) {
        const Json& rest = schema.at("additionalProperties");
        if (rest == false) {
          found.push_back(at + ": has '" + key + "', which the schema does not know");
        } else {
          check(inside, rest, at + "." + key);
        }
      }
    }
  }
};

}  // namespace

std::vector<std::string> violations(const Json& value, const Json& schema) {
  Checker checker;
  checker.check(value, schema, "$");
  return checker.found;
}

}  // namespace stepcast::test

#pragma once
// The part of JSON Schema that docs/schemas uses: type, const, enum, required, properties,
// additionalProperties, items, minimum, maximum, exclusiveMinimum. A schema that says more fails,
// so that nothing goes unchecked.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace stepcast::test {

// What of `value` the schema does not allow, as "$.steps[0].name: ..."; empty: all is well.
std::vector<std::string> violations(const nlohmann::json& value, const nlohmann::json& schema);

}  // namespace stepcast::test

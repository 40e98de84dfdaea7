#pragma once
// The keys of a scenario as a JSON Schema, written from visit_scenario(): editors complete and
// check scenario files by it (a TOML document is checked as the JSON object that it stands for).
// docs/schemas/scenario-1.schema.json is this text. Tested by tests/cli/schema_test.cpp.

#include <string>

namespace stepcast {

// What `schema` may say in a scenario; another version is refused, since its keys may mean
// something else. A change that gives a key another meaning gets the number 2 and a reader for
// both.
inline constexpr const char* scenario_schema_name = "stepcast.scenario/1";

std::string scenario_schema();

}  // namespace stepcast

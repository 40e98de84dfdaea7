#pragma once
// Short forms for tests of job files.
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "sim/jobs/combine.hpp"
#include "sim/jobs/detect.hpp"

namespace stepcast::test {

using Word = std::optional<std::string>;

// The scenario of one text, with flags over it.
inline jobs::Combined combined(const std::string& text, const Scenario& flags = {},
                               bool ignore = false) {
  return jobs::combine({jobs::parse_job(text, "job")}, flags,
                       {.ignore_unsupported = ignore, .ask = true});
}

inline Scenario scenario_of(const std::string& text, const Scenario& flags = {}) {
  return combined(text, flags).scenario;
}

// Flags as the command line says them.
inline Scenario flags_of(const std::string& toml) {
  Scenario scenario = parse_scenario(toml, "--flags");
  return scenario;
}

// The message that refuses a text.
inline std::string refusal(const std::string& text, const Scenario& flags = {}) {
  try {
    jobs::combine({jobs::parse_job(text, "job")}, flags, {.ask = true});
  } catch (const InputError& error) {
    return error.what();
  }
  return "not refused";
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace stepcast::test

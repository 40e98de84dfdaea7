#pragma once
// A config.json given as text, and what is said of a bad one.

#include <doctest/doctest.h>

#include <string>

#include "base/error.hpp"
#include "models/hf_config.hpp"
#include "models/model.hpp"

namespace stepcast::test {

inline Model read(const std::string& text) {
  return model_from_hf_text(text, "config.json", "model");
}

inline std::string error_of(const std::string& text) {
  try {
    read(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace stepcast::test

#pragma once
// The keys of a scenario by name: set from a text, read as a text, copied from one scenario to
// another. What flags, sweeps and files of a scenario's own share, so that a value means the same
// wherever it is written.
//
//   Scenario s;
//   scenario_key("nodes").set(s, "16", {.file = "--nodes"});
//   scenario_key("nodes").text(s);  // "16"
//   to_toml(s);                     // "nodes = 16\n"
//
// The list is visit_scenario()'s, walked once a process. Setting a key takes a few nanoseconds and
// what its text takes to parse. Tested by tests/unit/forecast/scenario_keys_test.cpp.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/forecast/scenario.hpp"

namespace stepcast {

enum class KeyType : std::uint8_t { word, number, whole, yes_no, words, numbers, yes_no_or_count };

class ScenarioKey {
 public:
  template <typename Field>
  ScenarioKey(KeyInfo info, std::ptrdiff_t offset, const Field&);

  const KeyInfo& info() const { return info_; }
  std::string name() const { return info_.name; }
  KeyType type() const { return type_; }
  bool is_number() const { return type_ == KeyType::number || type_ == KeyType::whole; }
  bool is_list() const { return type_ == KeyType::words || type_ == KeyType::numbers; }

  // A list is written with commas, or with line ends. Throws InputError at `where`, which is
  // remembered as where the key was said. Ranges are check()'s.
  void set(Scenario& scenario, const std::string& text, const Where& where) const;
  // Throws InputError where the value is not among the accepted or in its range.
  void check(const Scenario& scenario) const;

  bool is_set(const Scenario& scenario) const;
  void reset(Scenario& scenario) const;  // as if it had never been said
  void copy(const Scenario& from, Scenario& to) const;

  // As set() takes it, the shortest that means the same number; "" where it is not set.
  std::string text(const Scenario& scenario) const;
  std::string toml(const Scenario& scenario) const;  // its value in a file; it must be set
  // Of a number that is set.
  std::optional<double> number(const Scenario& scenario) const;

 private:
  struct Actions;
  template <typename Field>
  static const Actions& actions_of();

  KeyInfo info_;
  std::ptrdiff_t offset_;  // of the field in a Scenario
  KeyType type_;
  const Actions* actions_;
};

const std::vector<ScenarioKey>& scenario_keys();  // in visit_scenario's order
// Throws InputError at `where` for an unknown one, with the nearest known.
const ScenarioKey& scenario_key(const std::string& name, const Where& where = {});

// A file that parse_scenario() reads as this scenario. Relative paths stay as they were written:
// they are taken from the folder that the file lies in.
std::string to_toml(const Scenario& scenario);

}  // namespace stepcast

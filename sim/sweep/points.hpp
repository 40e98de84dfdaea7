#pragma once
// The points of a sweep: every combination of the axes' values, or samples of them, that the
// conditions let through, each once.
//
//   Points points(base, {parse_axis("strategy=ddp,fsdp2"), parse_axis("bucket_cap_mb=1,25")}, {});
//   points.size();       // 3: (ddp, 1), (ddp, 25), fsdp2
//   points.scenario(2);  // without bucket_cap_mb
//
// A knob that a strategy has not (bucket_cap_mb under fsdp2) is left out of that strategy's points,
// which then are one instead of one a value. The same holds for what the scenario itself says,
// where the strategy varies. Everything else that contradicts itself stays a point, to be refused
// with its sentence when it is worked out.
//
// A point is known by its key: a hash of all that its scenario says, as text, and of the contents
// of the files that it names. So points of different sweeps are the same point when they say the
// same.
//
// Work is given out in an order in which what no schedule depends on (changes_schedule()) varies
// fastest, so that neighbours share their schedules. Tested by tests/unit/sweep/points_test.cpp.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "sim/forecast/sources.hpp"
#include "sim/sweep/axis.hpp"
#include "sim/sweep/expression.hpp"
#include "sim/sweep/sample.hpp"

namespace stepcast {

class Points {
 public:
  // Throws InputError: no strategy, an axis of a key that no strategy of the points has, an axis
  // without values, more points than a million. Conditions are of keys alone.
  Points(Scenario base, std::vector<SweepAxis> axes, std::vector<Expression> conditions,
         std::optional<Sampling> sampling = {});

  std::size_t size() const { return choices_.size(); }
  // Of the values that their strategies know, before conditions.
  std::size_t combinations() const { return combinations_; }
  std::size_t excluded() const { return excluded_; }  // by the conditions

  // `engine`: instead of the one that the scenario says; empty: as it says.
  Scenario scenario(std::size_t point, const std::string& engine = "") const;
  std::string key(std::size_t point, const std::string& engine = "") const;  // 32 hex digits
  const std::vector<SweepAxis>& axes() const { return axes_; }
  // Keys that some point says, in the scenario's order, and engine.
  const std::vector<const ScenarioKey*>& keys() const { return keys_; }

  // All points in the order in which they are best worked out.
  std::vector<std::size_t> work_order() const;

  // Of all points together: two processes that agree on it agree on every index.
  std::string fingerprint() const;

 private:
  using Choice = std::vector<std::int32_t>;  // by axis: which value; -1: left out

  void enumerate(const std::vector<Expression>& conditions);
  template <typename Action>
  void for_each_choice(Choice choice, const std::vector<std::size_t>& axes, Action&& action) const;
  bool takes(const Scenario& scenario, const std::string& key) const;
  void enumerate_samples(const Sampling& sampling, const std::vector<Expression>& conditions);
  void add(Choice choice, const std::vector<Expression>& conditions);
  void leave_out(Scenario& scenario, Choice* choice) const;
  Scenario scenario_of(const Choice& choice) const;
  Cell cell(const Scenario& scenario, const std::string& name);
  std::string text_of(const Scenario& scenario) const;
  void find_keys();

  Scenario base_;
  std::vector<SweepAxis> axes_;
  std::vector<std::vector<Scenario>> said_;  // by axis and value: a scenario that says it alone
  bool strategies_vary_ = false;
  std::vector<Choice> choices_;
  std::vector<const ScenarioKey*> keys_;
  std::unordered_set<std::string> seen_;  // keys, while points are enumerated
  std::size_t combinations_ = 0, excluded_ = 0;
  Sources sources_;
  mutable std::map<std::string, std::string> contents_;  // by path: a hash of the file
};

// The names that conditions on points may use: keys, and gpus and nodes where only one was said.
std::vector<std::string> condition_names();

// What a key that nobody said means to a condition; nothing: unknown.
Cell default_of(const std::string& key);

}  // namespace stepcast

#pragma once
// What the three writers share: which keys of the scenario they have said. Internal to emit*.cpp.

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "sim/jobs/emit.hpp"

namespace stepcast::jobs {

class Pen {
 public:
  explicit Pen(const Scenario& scenario) : s(scenario) {}

  // The value of a key, which counts as said from now on where the format says it.
  template <typename T>
  const std::optional<T>& take(const char* key, const std::optional<T>& field) {
    said_.insert(key);
    return field;
  }
  void say(const char* key) { said_.insert(key); }
  void leave(const char* key) { said_.erase(key); }
  std::vector<std::string> left_out() const;

  std::string strategy() const;
  std::optional<std::int64_t> world() const;  // where the scenario tells it
  std::optional<std::int64_t> nodes() const;

  const Scenario& s;

 private:
  std::set<std::string> said_;
};

std::string deepspeed_text(Pen& pen);
std::string accelerate_text(Pen& pen);
std::string torchtitan_text(Pen& pen);

}  // namespace stepcast::jobs

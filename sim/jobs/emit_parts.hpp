#pragma once
// What the three writers share: which keys of the scenario they have said. Internal to emit*.cpp.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "sim/jobs/emit.hpp"

namespace stepcast::jobs {

// DistributedDataParallel's own: what a bucket_cap_mb of 25 that is said does not mean.
inline constexpr const char* ddp_bucket_cap_mb = "25, 1 for the first bucket";

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
  // A default that the file changes, of a key that the scenario does not say.
  void leave(const char* key, const std::string& fallback) {
    leave(key);
    defaults_[key] = fallback;
  }
  std::vector<std::string> left_out() const;

  std::string strategy() const;
  std::optional<std::int64_t> world() const;  // where the scenario tells it
  std::optional<std::int64_t> nodes() const;
  std::string precision();                      // the scenario's or the strategy's own
  std::optional<std::int64_t> seq_len() const;  // the scenario's or the model's own, of text

  const Scenario& s;

 private:
  std::set<std::string> said_;
  std::map<std::string, std::string> defaults_;
};

std::string deepspeed_text(Pen& pen);
std::string accelerate_text(Pen& pen);
std::string torchtitan_text(Pen& pen);

}  // namespace stepcast::jobs

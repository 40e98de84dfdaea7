#pragma once
// The parts of settle(). Internal to settle*.cpp.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "sim/jobs/settle.hpp"

namespace stepcast::jobs {

template <typename T, typename V>
void set(Combined& all, const char* key, std::optional<T> Scenario::*field, V value,
         Source source) {
  all.scenario.*field = static_cast<T>(std::move(value));
  all.scenario.said[key] = source.where;
  all.sources[key] = std::move(source);
}

void settle_model(const Facts& facts, Combined& all);

// GPUs of a replica; 1 where no degree was said.
std::int64_t settle_replica(const Facts& facts, const Scenario& flags, Combined& all);
// How many replicas there are: what has a batch of its own.
std::optional<std::int64_t> settle_world(const Facts& facts, const Scenario& flags,
                                         std::int64_t replica, Combined& all);
void settle_batch(const Facts& facts, const Scenario& flags, std::optional<std::int64_t> world,
                  Combined& all);

}  // namespace stepcast::jobs

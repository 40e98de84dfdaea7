#pragma once
// What Lightning's trainer and litgpt say alike. Internal to lightning.cpp and litgpt.cpp.

#include "sim/jobs/readers.hpp"

namespace stepcast::jobs {

// Devices a machine (nothing: all of them) and machines.
void set_world(Job& job, const std::optional<Fact<std::int64_t>>& devices,
               const std::optional<Fact<std::int64_t>>& nodes);
std::optional<Fact<std::int64_t>> read_devices(Section& trainer);
// "bf16-mixed", "32-true", ...; after the strategy, which decides what they mean.
void set_precision(Job& job, const std::optional<Fact<std::string>>& said);

}  // namespace stepcast::jobs

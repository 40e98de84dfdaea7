#pragma once
// What one collective costs as the JSON of `collectives`, `nccl predict` and `nccl compare` says
// it: NCCL's choice, the time, and what the time rests on.

#include <nlohmann/json.hpp>

#include "sim/collectives/collective_cost.hpp"

namespace stepcast::cli {

// Keys algorithm, protocol, channels, NAME (the time, seconds), busbw_gbps and provenance;
// measured_how and measured_source are null where a model answered, corrected_for where it is
// NCCL's own prediction.
nlohmann::ordered_json collective_json(const CollectiveCost& cost, const char* time_key = "time_s");

}  // namespace stepcast::cli

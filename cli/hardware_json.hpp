#pragma once
// GPUs and machines as `stepcast show --json` prints them.

#include <nlohmann/json.hpp>

#include "topologies/topology.hpp"

namespace stepcast::cli {

nlohmann::ordered_json gpu_json(const Gpu& gpu);              // schema "stepcast.gpu/1"
nlohmann::ordered_json machine_json(const Machine& machine);  // schema "stepcast.machine/1"

}  // namespace stepcast::cli

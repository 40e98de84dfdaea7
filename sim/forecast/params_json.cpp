#include <nlohmann/json.hpp>

#include "sim/forecast/params_tables.hpp"

namespace stepcast {

namespace {

using Json = nlohmann::ordered_json;

Json states(const StateBytes& bytes) {
  return {{"parameters", bytes.parameters},
          {"gradients", bytes.gradients},
          {"optimizer", bytes.optimizer},
          {"total", bytes.total()}};
}

}  // namespace

std::string to_json(const ParamsTables& t) {
  Json memory = Json::array();
  for (const StateRow& row : t.memory) {
    Json extras = Json::array();
    for (const StateExtra& extra : row.extras) {
      extras.push_back({{"name", extra.name}, {"bytes", extra.bytes}, {"always", extra.always}});
    }
    memory.push_back({{"strategy", row.strategy},
                      {"recipe", row.recipe},
                      {"textbook_bytes", states(row.textbook)},
                      {"framework_bytes", states(row.framework)},
                      {"extras", extras}});
  }
  Json volumes = Json::array();
  for (const VolumeRow& row : t.volumes) {
    volumes.push_back({{"strategy", row.strategy},
                       {"collectives", row.collectives},
                       {"sent_bytes_16bit", row.bytes_16bit},
                       {"sent_bytes_fp32_reduce", row.bytes_fp32_reduce},
                       {"between_groups_bytes_16bit", row.inter_node}});
  }
  const Json document = {{"schema", "stepcast.tables/1"},
                         {"parameters", t.parameters},
                         {"gpus", t.gpus},
                         {"shard_group", t.shard_group},
                         {"accumulation", t.accumulation},
                         {"memory", memory},
                         {"sent_per_gpu", volumes},
                         {"gpu", t.gpu.empty() ? Json() : Json(t.gpu)},
                         {"memory_capacity_bytes", t.capacity == 0 ? Json() : Json(t.capacity)},
                         {"fits", t.capacity == 0 ? Json() : Json(t.infeasible.empty())}};
  return document.dump(2) + "\n";
}

}  // namespace stepcast

#include "cli/collective_json.hpp"

namespace stepcast::cli {

using Json = nlohmann::ordered_json;

Json collective_json(const CollectiveCost& cost, const char* time_key) {
  return {{"algorithm", to_string(cost.choice.algorithm)},
          {"protocol", to_string(cost.choice.protocol)},
          {"channels", cost.choice.channels},
          {time_key, cost.seconds},
          {"busbw_gbps", cost.busbw_gbps},
          {"provenance", to_string(cost.provenance)},
          {"measured_how", cost.measured ? Json(to_string(cost.measured->how)) : Json()},
          {"measured_source", cost.measured ? Json(cost.measured->source) : Json()},
          {"corrected_for", cost.corrected && !cost.measured ? Json(cost.network_class) : Json()}};
}

}  // namespace stepcast::cli

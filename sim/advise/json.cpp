#include <nlohmann/json.hpp>

#include "sim/advise/advise.hpp"

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;

Json candidate_json(const Candidate& c) {
  Json json = {{"strategy", c.name},
               {"also", c.also},
               {"fits", c.fits()},
               {"peak_bytes", c.peak},
               {"state_bytes", c.state},
               {"activation_bytes", c.activations},
               {"communication_bytes", c.communication},
               {"overhead_bytes", c.overhead}};
  if (c.fits()) {
    json["step_s"] = c.step_time;
    json["exposed_s"] = c.exposed;
    json["exposed_all_gather_s"] = c.exposed_all_gather;
  }
  return json;
}

Json point_json(const ScalingPoint& p) {
  return {{"nodes", p.nodes},
          {"gpus", p.gpus},
          {"step_s", p.step_time},
          {"samples_per_second", p.throughput},
          {"gain_of_a_node", p.gain}};
}

Json scaling_json(const ScalingLimit& s) {
  Json json = {{"found", s.found}};
  if (s.found) json["limit"] = point_json(s.limit);
  json["cause"] = s.cause;
  json["grew_s"] = s.grew;
  json["reason"] = reason(s);
  json["latency_grew_s"] = s.latency_grew;
  json["bytes_grew_s"] = s.bytes_grew;
  for (const ScalingPoint& p : s.points) json["points"].push_back(point_json(p));
  return json;
}

}  // namespace

std::string to_json(const Advice& a) {
  Json json = {{"schema", "stepcast.advice/1"},
               {"model", a.model},
               {"parameters", a.parameters},
               {"machine", a.machine},
               {"gpu", a.gpu},
               {"nodes", a.nodes},
               {"gpus", a.gpus},
               {"capacity_bytes", a.capacity},
               {"micro_batch", a.micro_batch},
               {"advice", to_string(a.leaf)},
               {"feasible", a.feasible},
               {"checkpointing", a.with_checkpointing},
               {"answer", a.answer},
               {"reasons", a.reasons},
               {"remark", a.remark},
               {"command", a.command}};
  for (const Candidate& c : a.candidates) json["candidates"].push_back(candidate_json(c));
  json["rule_of_thumb"] = {
      {"low_bytes", a.rule_low}, {"high_bytes", a.rule_high}, {"real_factor", a.real_factor}};
  json["largest_models"] = Json::array();
  for (const LargestModel& m : a.largest) {
    json["largest_models"].push_back({{"strategy", m.strategy},
                                      {"parameters", m.parameters},
                                      {"layers", m.layers},
                                      {"at_least", m.beyond},
                                      {"by_states_alone", m.by_states_alone}});
  }
  json["scaling"] = a.scaling ? scaling_json(*a.scaling) : Json();
  return json.dump(2) + "\n";
}

}  // namespace stepcast

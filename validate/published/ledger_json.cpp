#include <nlohmann/json.hpp>

#include "validate/published/ledger.hpp"

namespace stepcast {

namespace {

using Json = nlohmann::ordered_json;

Json row_json(const Outcome& o, const Baseline* baseline) {
  Json json = {
      {"id", o.row->id}, {"split", to_string(o.row->split)}, {"gpus", o.gpus}, {"nodes", o.nodes}};
  if (o.measured > 0) {
    json["measured_s"] = o.measured;
    json["forecast_s"] = o.forecast;
    json["error"] = o.error();
  } else {
    json["measured_change_percent"] = o.measured_change;
    json["forecast_change_percent"] = o.forecast_change;
  }
  if (baseline != nullptr) {
    if (baseline->partner != nullptr) {
      json["partner"] = baseline->partner->row->id;
      json["no_network_s"] = baseline->no_network;
    }
    if (baseline->flops_only > 0) json["flops_only_s"] = baseline->flops_only;
  }
  if (o.memory) {
    json["measured_bytes"] = *o.row->memory;
    json["forecast_bytes"] = *o.memory;
  }
  return json;
}

Json bar_json(const BarResult& r) {
  Json json = {{"figure", r.bar.figure}};
  if (r.bar.at_most) json["at_most"] = *r.bar.at_most;
  if (r.bar.at_least) json["at_least"] = *r.bar.at_least;
  json["value"] = r.figure ? Json(*r.figure) : Json();
  if (r.bar.beats_baselines) json["baseline"] = r.baseline ? Json(*r.baseline) : Json();
  json["met"] = r.met;
  return json;
}

Json source_json(const SourceResult& result) {
  Json json = {{"name", result.source.name},     {"title", result.source.title},
               {"source", result.source.source}, {"reading", result.source.reading},
               {"figures", result.figures},      {"bars", Json::array()},
               {"rows", Json::array()},          {"left_out", Json::array()}};
  for (const BarResult& bar : result.bars) json["bars"].push_back(bar_json(bar));
  for (const Outcome& o : result.outcomes) {
    const Baseline* baseline = nullptr;
    for (const Baseline& b : result.baselines) {
      if (b.outcome == &o) baseline = &b;
    }
    json["rows"].push_back(row_json(o, baseline));
  }
  for (const MeasuredRow& row : result.source.rows) {
    if (!row.left_out.empty()) json["left_out"].push_back({{"id", row.id}, {"why", row.left_out}});
  }
  return json;
}

}  // namespace

std::string to_json(const Ledger& ledger) {
  Json json = {{"schema", "stepcast.accuracy/1"}, {"sources", Json::array()}};
  for (const SourceResult& result : ledger.sources) json["sources"].push_back(source_json(result));
  return json.dump(2) + "\n";
}

}  // namespace stepcast

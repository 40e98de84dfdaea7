#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/version.hpp"
#include "sim/forecast/scenario_keys.hpp"
#include "sim/sweep/sweep_text.hpp"

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;

Json json(double number) {
  if (std::isnan(number)) return nullptr;
  if (number == std::floor(number) && std::abs(number) < 9e15) {
    return static_cast<std::int64_t>(number);
  }
  return number;
}

Json json(const Cell& cell) {
  if (const double* number = std::get_if<double>(&cell)) return json(*number);
  if (const auto* word = std::get_if<std::string>(&cell)) return *word;
  return nullptr;
}

bool is_set(const Cell& cell) { return !std::holds_alternative<std::monostate>(cell); }

Json varied_json(const PointTable& table, const RowList& rows, const std::string& input) {
  Json values = Json::array();
  std::map<Cell, bool> seen;  // sorted: numbers, then words
  for (const std::size_t row : rows) {
    const Cell cell = cell_of(table, row, input);
    if (is_set(cell)) seen.emplace(cell, true);
  }
  for (const auto& [cell, there] : seen) values.push_back(json(cell));
  return {{"key", input},
          {"type", scenario_key(input).is_number() ? "number" : "word"},
          {"values", values}};
}

Json point_json(const PointTable& table, std::size_t row, const std::vector<std::string>& inputs) {
  const Result& result = table.rows[row].result;
  Json point = {{"inputs", Json::object()}};
  for (const std::string& input : inputs) {
    if (input != "engine") point["inputs"][input] = json(cell_of(table, row, input));
  }
  const bool ok = result.state == "ok";
  point["engine"] = json(cell_of(table, row, "engine"));
  if (point["engine"].is_null()) point["engine"] = "fluid";
  point["state"] = result.state;
  point["fits"] = ok ? Json(true) : result.state == "does_not_fit" ? Json(false) : Json(nullptr);
  point["error"] = ok ? Json(nullptr) : Json(result.why);
  for (const Output& output : outputs) {
    point[std::string(output.name)] = json(cell_of(table, row, std::string(output.name)));
  }
  point["binding"] = result.binding.empty() ? Json(nullptr) : Json(result.binding);
  point["version"] = table.rows[row].version;
  return point;
}

const char* better(const std::string& column) { return direction(column) < 0 ? "lower" : "higher"; }

}  // namespace

std::string to_json(const PointTable& table, const SweepJson& what) {
  std::vector<std::string> inputs = varied(table, what.rows);
  std::map<std::size_t, std::size_t> place;  // of a row in "points"
  for (std::size_t i = 0; i < what.rows.size(); ++i) place[what.rows[i]] = i;
  const auto places = [&](const RowList& rows) {
    Json list = Json::array();
    for (const std::size_t row : rows) list.push_back(place.at(row));
    return list;
  };

  Json document = {{"schema", "stepcast.sweep/1"}, {"version", std::string(version())}};
  document["scenario"] = Json::object();
  for (const std::string& input : table.inputs) {
    if (what.rows.empty() || std::find(inputs.begin(), inputs.end(), input) != inputs.end()) {
      continue;
    }
    const Cell cell = cell_of(table, what.rows.front(), input);
    if (is_set(cell)) document["scenario"][input] = json(cell);
  }
  document["varied"] = Json::array();
  for (const std::string& input : inputs) {
    if (input != "engine") document["varied"].push_back(varied_json(table, what.rows, input));
  }
  document["outputs"] = Json::array();
  for (const Output& output : outputs) {
    document["outputs"].push_back({{"key", output.name},
                                   {"label", output.label},
                                   {"unit", output.unit},
                                   {"better", output.better == 0  ? Json(nullptr)
                                              : output.better > 0 ? Json("higher")
                                                                  : Json("lower")}});
  }
  std::map<std::string, std::size_t> states;
  document["counts"] = Json::object();
  for (const std::size_t row : what.rows) ++states[table.rows[row].result.state];
  document["counts"] = {{"points", what.rows.size()},
                        {"fit", states["ok"]},
                        {"does_not_fit", states["does_not_fit"]},
                        {"error", states["infeasible"] + states["refused"] + states["failed"]}};
  document["points"] = Json::array();
  for (const std::size_t row : what.rows) {
    document["points"].push_back(point_json(table, row, inputs));
  }
  document["best"] = {{"by", what.by}, {"points", places(what.best)}};
  document["pareto"] = {{"x", what.pareto_x},
                        {"x_better", better(what.pareto_x)},
                        {"y", what.pareto_y},
                        {"y_better", better(what.pareto_y)},
                        {"points", places(what.pareto)}};
  // Texts of files may hold bytes that are no UTF-8.
  return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace stepcast

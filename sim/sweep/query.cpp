#include "sim/sweep/query.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>

#include "base/error.hpp"
#include "sim/forecast/scenario_keys.hpp"
#include "sim/sweep/points.hpp"

namespace stepcast {
namespace {

constexpr const char* word_columns[] = {"state", "why", "binding", "version"};

int input_index(const PointTable& table, const std::string& column) {
  const auto found = std::find(table.inputs.begin(), table.inputs.end(), column);
  return found == table.inputs.end() ? -1 : static_cast<int>(found - table.inputs.begin());
}

// Larger is better.
std::optional<double> merit(const PointTable& table, std::size_t row, const std::string& column) {
  const Cell cell = cell_of(table, row, column);
  const double* number = std::get_if<double>(&cell);
  if (number == nullptr) return std::nullopt;
  return direction(column) < 0 ? -*number : *number;
}

std::string text_of(const Cell& cell) {
  if (const double* number = std::get_if<double>(&cell)) return fmt::format("{}", *number);
  if (const auto* word = std::get_if<std::string>(&cell)) return *word;
  return "";
}

}  // namespace

Cell cell_of(const PointTable& table, std::size_t row, const std::string& column) {
  const PointTable::Row& r = table.rows[row];
  const int output = output_index(column);
  if (output >= 0) {
    const double number = r.result.numbers[static_cast<std::size_t>(output)];
    return std::isnan(number) ? Cell() : Cell(number);
  }
  const int input = input_index(table, column);
  const Cell said = input < 0 ? Cell() : r.inputs[static_cast<std::size_t>(input)];
  // Who says nodes has a number of GPUs all the same.
  if (column == "gpus" && said == Cell()) return cell_of(table, row, "world_size");
  // A default that is said and one that is not are one point (points.cpp).
  if (input >= 0) return said == Cell() ? default_of(column) : said;
  const auto word = [](const std::string& text) { return text.empty() ? Cell() : Cell(text); };
  if (column == "state") return word(r.result.state);
  if (column == "why") return word(r.result.why);
  if (column == "binding") return word(r.result.binding);
  if (column == "version") return word(r.version);
  return {};
}

std::vector<std::string> column_names(const PointTable& table) {
  std::vector<std::string> names = table.inputs;
  for (const Output& output : outputs) names.emplace_back(output.name);
  names.insert(names.end(), std::begin(word_columns), std::end(word_columns));
  // Any key may be asked for; what no point says is unknown.
  for (const ScenarioKey& key : scenario_keys()) {
    if (std::find(names.begin(), names.end(), key.name()) == names.end()) {
      names.push_back(key.name());
    }
  }
  return names;
}

RowList fitting(const PointTable& table, const RowList& rows) {
  RowList list;
  for (const std::size_t row : rows) {
    if (table.rows[row].result.state == "ok") list.push_back(row);
  }
  return list;
}

RowList matching(const PointTable& table, const RowList& rows,
                 const std::vector<Expression>& conditions) {
  RowList list;
  for (const std::size_t row : rows) {
    const Expression::Lookup lookup = [&](const std::string& name) {
      const Cell cell = cell_of(table, row, name);
      return cell == Cell() ? default_of(name) : cell;
    };
    const bool all = std::all_of(conditions.begin(), conditions.end(),
                                 [&](const Expression& e) { return e.holds(lookup, false); });
    if (all) list.push_back(row);
  }
  return list;
}

RowList confirmed(const PointTable& table, const RowList& rows) {
  RowList formula, others;
  for (const std::size_t row : rows) {
    (text_of(cell_of(table, row, "engine")) == "formula" ? formula : others).push_back(row);
  }
  return formula.empty() || others.empty() ? rows : others;
}

RowList each_once(const PointTable& table, const RowList& rows) {
  const int engine = input_index(table, "engine");
  if (engine < 0) return rows;
  std::map<std::vector<std::string>, std::size_t> place;  // by the other inputs, in the list
  RowList list;
  for (const std::size_t row : rows) {
    std::vector<std::string> others;
    for (std::size_t i = 0; i < table.inputs.size(); ++i) {
      if (static_cast<int>(i) != engine) others.push_back(text_of(table.rows[row].inputs[i]));
    }
    const auto [known, is_new] = place.emplace(std::move(others), list.size());
    if (is_new) {
      list.push_back(row);
    } else if (text_of(cell_of(table, row, "engine")) != "formula") {
      list[known->second] = row;
    }
  }
  return list;
}

std::vector<std::string> varied(const PointTable& table, const RowList& rows) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < table.inputs.size(); ++i) {
    const bool several = std::any_of(rows.begin(), rows.end(), [&](std::size_t row) {
      return table.rows[row].inputs[i] != table.rows[rows.front()].inputs[i];
    });
    if (several) names.push_back(table.inputs[i]);
  }
  return names;
}

int direction(const std::string& column) {
  const int output = output_index(column);
  if (output < 0 || column == "world_size") return -1;
  return outputs[static_cast<std::size_t>(output)].better < 0 ? -1 : 1;
}

RowList best(const PointTable& table, const RowList& rows, const std::string& by,
             std::size_t most) {
  std::vector<std::pair<double, std::size_t>> list;
  for (const std::size_t row : rows) {
    if (const std::optional<double> value = merit(table, row, by)) list.push_back({-*value, row});
  }
  std::stable_sort(list.begin(), list.end());
  RowList result;
  for (std::size_t i = 0; i < std::min(most, list.size()); ++i) result.push_back(list[i].second);
  return result;
}

RowList pareto(const PointTable& table, const RowList& rows, const std::string& x,
               const std::string& y) {
  struct Candidate {
    double x, y;
    std::size_t row;
  };
  std::vector<Candidate> list;
  for (const std::size_t row : rows) {
    const std::optional<double> a = merit(table, row, x), b = merit(table, row, y);
    if (a && b) list.push_back({*a, *b, row});
  }
  // From the best x on, whoever improves on the best y so far.
  std::stable_sort(list.begin(), list.end(), [](const Candidate& a, const Candidate& b) {
    return a.x != b.x ? a.x > b.x : a.y > b.y;
  });
  RowList front;
  double highest = -std::numeric_limits<double>::infinity();
  for (const Candidate& candidate : list) {
    if (candidate.y <= highest) continue;
    highest = candidate.y;
    front.push_back(candidate.row);
  }
  if (direction(x) > 0) std::reverse(front.begin(), front.end());
  return front;
}

std::vector<Group> grouped_by(const PointTable& table, const RowList& rows,
                              const std::vector<std::string>& columns, const std::string& by) {
  std::vector<Group> groups;
  std::vector<RowList> members;
  std::map<std::vector<std::string>, std::size_t> known;
  for (const std::size_t row : rows) {
    std::vector<std::string> id;
    std::vector<Cell> values;
    for (const std::string& column : columns) {
      values.push_back(cell_of(table, row, column));
      id.push_back(fmt::format("{}{}", values.back().index(), text_of(values.back())));
    }
    const auto [place, is_new] = known.emplace(std::move(id), groups.size());
    if (is_new) {
      groups.emplace_back().values = std::move(values);
      members.emplace_back();
    }
    members[place->second].push_back(row);
  }
  const RowList trusted = confirmed(table, rows);  // ascending, as `rows` are
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const RowList once = each_once(table, members[g]);
    groups[g].points = once.size();
    groups[g].fit = fitting(table, once).size();
    RowList choice;
    std::set_intersection(members[g].begin(), members[g].end(), trusted.begin(), trusted.end(),
                          std::back_inserter(choice));
    groups[g].best = best(table, fitting(table, choice), by, 1);
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group& a, const Group& b) { return a.values < b.values; });
  return groups;
}

std::string default_by(const PointTable& table, const RowList& rows) {
  const auto tokens = static_cast<std::size_t>(output_index("tokens_per_s"));
  const bool some = std::any_of(rows.begin(), rows.end(), [&](std::size_t row) {
    return !std::isnan(table.rows[row].result.numbers[tokens]);
  });
  return some ? "tokens_per_s" : "samples_per_s";
}

void check_column(const PointTable& table, const std::string& column, const std::string& flag) {
  const std::vector<std::string> names = column_names(table);
  if (std::find(names.begin(), names.end(), column) != names.end()) return;
  const std::string near = nearest(column, names);
  std::string accepted;
  for (const Output& output : outputs) {
    accepted += (accepted.empty() ? "" : ", ") + std::string(output.name);
  }
  throw InputError({.file = flag, .line = 0, .key = ""},
                   fmt::format("'{}' is no column{}; accepted: keys of the scenario, state, "
                               "binding, {}",
                               column.substr(0, 80),
                               near.empty() ? "" : " (did you mean '" + near + "'?)", accepted));
}

void check_numbers(const PointTable& table, const std::string& column, const std::string& flag) {
  check_column(table, column, flag);
  if (output_index(column) >= 0) return;
  const bool word = column == "state" || column == "why" || column == "binding" ||
                    column == "version" || !scenario_key(column).is_number();
  if (!word) return;
  throw InputError({.file = flag, .line = 0, .key = ""},
                   fmt::format("'{}' has no numbers to compare; accepted: an output as "
                               "tokens_per_s, or a key with numbers",
                               column.substr(0, 80)));
}

}  // namespace stepcast

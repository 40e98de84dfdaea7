#include "sim/sweep/sweep_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/report/format.hpp"

namespace stepcast {
namespace {

// For people, by its unit.
std::string shown(const Cell& cell, const std::string& column) {
  if (const auto* word = std::get_if<std::string>(&cell)) return *word;
  const double* number = std::get_if<double>(&cell);
  if (number == nullptr) return "-";
  const int index = output_index(column);
  if (index < 0) return fmt::format("{}", *number);
  const std::string_view unit = outputs[static_cast<std::size_t>(index)].unit;
  if (unit == "s") return human_seconds(*number);
  if (unit == "B") return human_gib(static_cast<Bytes>(*number));
  if (unit == "fraction") return percent(*number);
  return grouped(*number, std::abs(*number) < 100 && *number != std::floor(*number) ? 2 : 0);
}

std::string heading(const std::string& column) {
  const int index = output_index(column);
  return index < 0 ? column : std::string(outputs[static_cast<std::size_t>(index)].label);
}

bool is_number(const std::vector<std::vector<std::string>>& lines, std::size_t column) {
  return std::all_of(lines.begin() + 1, lines.end(), [&](const std::vector<std::string>& line) {
    const std::string& text = line[column];
    return text == "-" || (!text.empty() && text.front() >= '0' && text.front() <= '9');
  });
}

// Columns as wide as they need, numbers to the right.
std::string aligned(const std::vector<std::vector<std::string>>& lines) {
  std::string text;
  std::vector<std::size_t> widths(lines.front().size(), 0);
  for (const auto& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], line[c].size());
  }
  for (const auto& line : lines) {
    std::string row;
    for (std::size_t c = 0; c < line.size(); ++c) {
      row += c == 0 ? "" : "  ";
      row += is_number(lines, c) ? fmt::format("{:>{}}", line[c], widths[c])
                                 : fmt::format("{:<{}}", line[c], widths[c]);
    }
    text += row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::vector<std::string> shown_outputs(const PointTable& table, const RowList& rows,
                                       const std::vector<std::string>& inputs,
                                       const std::vector<std::string>& also) {
  const bool tokens = default_by(table, rows) == "tokens_per_s";
  std::vector<std::string> columns{"world_size",
                                   "step_time_s",
                                   tokens ? "tokens_per_s" : "samples_per_s",
                                   tokens ? "tokens_per_s_per_gpu" : "samples_per_s_per_gpu",
                                   "mfu",
                                   "exposed_s",
                                   "memory_peak_bytes",
                                   "binding"};
  for (const std::string& column : also) columns.push_back(column);
  std::vector<std::string> list;
  for (const std::string& column : columns) {
    if (column == "world_size" && std::find(inputs.begin(), inputs.end(), "gpus") != inputs.end()) {
      continue;
    }
    if (std::find(inputs.begin(), inputs.end(), column) != inputs.end()) continue;
    if (std::find(list.begin(), list.end(), column) == list.end()) list.push_back(column);
  }
  return list;
}

std::string csv_field(const Cell& cell) {
  if (const double* number = std::get_if<double>(&cell)) return fmt::format("{}", *number);
  const auto* word = std::get_if<std::string>(&cell);
  if (word == nullptr) return "";
  if (word->find_first_of(",\"\r\n") == std::string::npos && !word->empty()) return *word;
  std::string text = "\"";
  for (const char c : *word) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

}  // namespace

std::string to_text(const PointTable& table, const RowList& rows,
                    const std::vector<std::string>& inputs, const std::vector<std::string>& also) {
  if (rows.empty()) return "no points\n";
  std::vector<std::string> columns = inputs;
  for (const std::string& column : shown_outputs(table, rows, inputs, also)) {
    columns.push_back(column);
  }
  std::vector<std::vector<std::string>> lines(1);
  for (const std::string& column : columns) lines[0].push_back(heading(column));
  for (const std::size_t row : rows) {
    std::vector<std::string>& line = lines.emplace_back();
    for (const std::string& column : columns) {
      line.push_back(shown(cell_of(table, row, column), column));
    }
  }
  return aligned(lines);
}

std::string to_text(const PointTable& table, const std::vector<Group>& groups,
                    const std::vector<std::string>& columns,
                    const std::vector<std::string>& inputs) {
  if (groups.empty()) return "no points\n";
  RowList all;
  for (const Group& group : groups) all.insert(all.end(), group.best.begin(), group.best.end());
  std::vector<std::string> others;  // inputs of the best
  for (const std::string& input : inputs) {
    if (std::find(columns.begin(), columns.end(), input) == columns.end()) others.push_back(input);
  }
  for (const std::string& column : shown_outputs(table, all, columns, {})) others.push_back(column);
  std::vector<std::vector<std::string>> lines(1);
  for (const std::string& column : columns) lines[0].push_back(heading(column));
  lines[0].emplace_back("points");
  lines[0].emplace_back("fit");
  for (const std::string& column : others) lines[0].push_back(heading(column));
  for (const Group& group : groups) {
    std::vector<std::string>& line = lines.emplace_back();
    for (std::size_t i = 0; i < columns.size(); ++i) {
      line.push_back(shown(group.values[i], columns[i]));
    }
    line.push_back(grouped(static_cast<double>(group.points)));
    line.push_back(grouped(static_cast<double>(group.fit)));
    for (const std::string& column : others) {
      line.push_back(
          group.best.empty() ? "-" : shown(cell_of(table, group.best.front(), column), column));
    }
  }
  return aligned(lines);
}

std::string counted(const PointTable& table, const RowList& rows) {
  const std::pair<const char*, const char*> states[] = {{"ok", "fit"},
                                                        {"does_not_fit", "do not fit in memory"},
                                                        {"infeasible", "have no step time"},
                                                        {"refused", "are refused"},
                                                        {"failed", "failed"}};
  std::string text =
      grouped(static_cast<double>(rows.size())) + (rows.size() == 1 ? " point" : " points");
  std::string parts;
  for (const auto& [state, words] : states) {
    std::size_t count = 0;
    for (const std::size_t row : rows) count += table.rows[row].result.state == state ? 1 : 0;
    if (count == 0) continue;
    parts += (parts.empty() ? ": " : ", ") + grouped(static_cast<double>(count)) + " " + words;
  }
  return text + parts;
}

std::string to_csv(const PointTable& table, const RowList& rows) {
  std::vector<std::string> columns = table.inputs;
  for (const char* column : {"state", "why", "binding"}) columns.emplace_back(column);
  for (const Output& output : outputs) columns.emplace_back(output.name);
  columns.emplace_back("version");
  std::string text;
  for (std::size_t c = 0; c < columns.size(); ++c) text += (c == 0 ? "" : ",") + columns[c];
  text += "\n";
  for (const std::size_t row : rows) {
    for (std::size_t c = 0; c < columns.size(); ++c) {
      text += (c == 0 ? "" : ",") + csv_field(cell_of(table, row, columns[c]));
    }
    text += "\n";
  }
  return text;
}

}  // namespace stepcast

#include "validate/published/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "base/error.hpp"

namespace stepcast {

namespace {

constexpr Split splits[] = {Split::fit, Split::check, Split::none};
constexpr Measure measures[] = {Measure::step_ms,
                                Measure::tokens_per_second,
                                Measure::tokens_per_second_per_gpu,
                                Measure::samples_per_second,
                                Measure::samples_per_second_per_gpu,
                                Measure::change_percent};

// How a cell of each scenario key is written in TOML: text needs quotes.
struct KeyTypes {
  std::map<std::string, bool> is_text;

  void operator()(const KeyInfo& key, std::optional<std::string>&) { is_text[key.name] = true; }
  template <typename Field>
  void operator()(const KeyInfo& key, Field&) {
    is_text[key.name] = false;
  }
};

std::map<std::string, bool> key_types() {
  Scenario none;
  KeyTypes types;
  visit_scenario(none, types);
  return types.is_text;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

// Whether a cell could be a TOML number, boolean or list; else it is text, and refused as such.
bool is_literal(const std::string& cell) {
  return cell == "true" || cell == "false" || cell.starts_with("[") ||
         cell.find_first_not_of("0123456789+-._eE") == std::string::npos;
}

double number(const std::string& cell, const Where& where, double least) {
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size() || !std::isfinite(value) ||
      value < least) {
    throw InputError(
        where, fmt::format("'{}' is not accepted; accepted: a number of {} or more", cell, least));
  }
  return value;
}

// Reads the lines below one header.
class RowReader {
 public:
  RowReader(std::vector<std::string> columns, std::string file, const Scenario& common)
      : columns_(std::move(columns)), file_(std::move(file)), common_(common), types_(key_types()) {
    std::vector<std::string> known = {"id", "split", "left_out", "memory_gb", "memory_gib"};
    for (const Measure m : measures) known.emplace_back(to_string(m));
    for (const auto& [key, text] : types_) known.push_back(key);
    std::set<std::string> seen;
    for (const std::string& column : columns_) {
      if (std::find(known.begin(), known.end(), column) == known.end()) {
        throw not_accepted({file_, 1, ""}, column, known);
      }
      if (!seen.insert(column).second) {
        throw InputError({file_, 1, column}, "stands twice; accepted: each column once");
      }
    }
    const auto measured = [](const std::string& column) {
      return std::any_of(std::begin(measures), std::end(measures),
                         [&](Measure m) { return column == to_string(m); });
    };
    if (std::count_if(columns_.begin(), columns_.end(), measured) != 1) {
      throw InputError({file_, 1, ""},
                       "one column says what was measured; accepted: step_ms, tokens_per_second, "
                       "tokens_per_second_per_gpu, samples_per_second, samples_per_second_per_gpu");
    }
  }

  MeasuredRow read(const std::vector<std::string>& cells, int line) const {
    if (cells.size() != columns_.size()) {
      throw InputError({file_, line, ""}, fmt::format("has {} cells; accepted: {}, as the first "
                                                      "line",
                                                      cells.size(), columns_.size()));
    }
    MeasuredRow row;
    row.where = {file_, line, ""};
    row.id = fmt::format("line {}", line);
    std::string toml;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string& column = columns_[i];
      const auto type = types_.find(column);
      if (type != types_.end()) {
        if (!cells[i].empty()) toml += assignment(i, cells);
      } else if (!cells[i].empty() || column == "split") {
        read_own(column, cells[i], row);
      }
    }
    row.measure = measure();
    if (row.value == 0 && row.measure != Measure::change_percent) {
      throw InputError({file_, line, std::string(to_string(row.measure))},
                       "is empty; accepted: a number above 0");
    }
    row.scenario = merged(common_, scenario(toml, cells, line));
    return row;
  }

 private:
  Measure measure() const {
    for (const Measure m : measures) {
      if (std::find(columns_.begin(), columns_.end(), to_string(m)) != columns_.end()) return m;
    }
    return Measure::step_ms;
  }

  std::string assignment(std::size_t i, const std::vector<std::string>& cells) const {
    const bool text = types_.at(columns_[i]) || !is_literal(cells[i]);
    return columns_[i] + " = " + (text ? quoted(cells[i]) : cells[i]) + "\n";
  }

  void read_own(const std::string& column, const std::string& cell, MeasuredRow& row) const {
    const Where where{file_, row.where.line, column};
    if (column == "id") {
      row.id = cell;
    } else if (column == "left_out") {
      row.left_out = cell;
    } else if (column == "split") {
      std::vector<std::string> names;
      for (const Split s : splits) {
        names.emplace_back(to_string(s));
        if (cell == to_string(s)) row.split = s;
      }
      if (std::find(names.begin(), names.end(), cell) == names.end()) {
        throw not_accepted(where, cell, names);
      }
    } else if (column == "memory_gb") {
      row.memory = static_cast<Bytes>(number(cell, where, 0) * 1e9);
    } else if (column == "memory_gib") {
      row.memory = static_cast<Bytes>(number(cell, where, 0) * static_cast<double>(gib));
    } else {
      row.value = number(cell, where, column == to_string(Measure::change_percent) ? -1e6 : 0);
    }
  }

  // The cells' keys; an error names the line and column of the table, not of the TOML between.
  Scenario scenario(const std::string& toml, const std::vector<std::string>& cells,
                    int line) const {
    Scenario s;
    try {
      s = parse_scenario(toml, file_);
    } catch (const InputError&) {
      for (std::size_t i = 0; i < cells.size(); ++i) {
        if (types_.find(columns_[i]) == types_.end() || cells[i].empty()) continue;
        parse_scenario(std::string(static_cast<std::size_t>(line) - 1, '\n') + assignment(i, cells),
                       file_);
      }
      throw;
    }
    for (auto& [key, where] : s.said) where.line = line;
    return s;
  }

  std::vector<std::string> columns_;
  std::string file_;
  Scenario common_;
  std::map<std::string, bool> types_;
};

}  // namespace

std::string_view to_string(Split split) {
  switch (split) {
    case Split::fit: return "fit";
    case Split::check: return "check";
    case Split::none: return "none";
  }
  return "";
}

std::string_view to_string(Measure measure) {
  switch (measure) {
    case Measure::step_ms: return "step_ms";
    case Measure::tokens_per_second: return "tokens_per_second";
    case Measure::tokens_per_second_per_gpu: return "tokens_per_second_per_gpu";
    case Measure::samples_per_second: return "samples_per_second";
    case Measure::samples_per_second_per_gpu: return "samples_per_second_per_gpu";
    case Measure::change_percent: return "change_percent";
  }
  return "";
}

std::vector<MeasuredRow> parse_rows(std::string_view csv, const std::string& file,
                                    const Scenario& common) {
  const std::vector<std::vector<std::string>> lines = parse_csv(csv, file);
  if (lines.size() < 2) {
    throw InputError({file, 1, ""}, "has no rows; accepted: a line of column names, then rows");
  }
  const RowReader reader(lines[0], file, common);
  std::vector<MeasuredRow> rows;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].size() == 1 && lines[i][0].empty()) continue;
    rows.push_back(reader.read(lines[i], static_cast<int>(i) + 1));
  }
  return rows;
}

Seconds measured_seconds(const MeasuredRow& row, const Report& forecast) {
  const double gpus = forecast.gpus;
  switch (row.measure) {
    case Measure::step_ms: return row.value * 1e-3;
    case Measure::tokens_per_second: return forecast.tokens_per_step / row.value;
    case Measure::tokens_per_second_per_gpu: return forecast.tokens_per_step / gpus / row.value;
    case Measure::samples_per_second: return forecast.samples_per_step / row.value;
    case Measure::samples_per_second_per_gpu: return forecast.samples_per_step / gpus / row.value;
    case Measure::change_percent: break;
  }
  STEPCAST_ASSERT(false, "a change is no step: " + row.id);
}

}  // namespace stepcast

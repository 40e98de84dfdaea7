#include "cli/sweep_output.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "sim/report/format.hpp"
#include "sim/report/html_page.hpp"

namespace stepcast::cli {
namespace {

Where flag(const char* name) { return {.file = name, .line = 0, .key = ""}; }

std::vector<std::string> split(const std::string& text, const char* name) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  for (const std::string& part : parts) {
    if (part.empty()) {
      throw InputError(flag(name), fmt::format("'{}' is not accepted; accepted: names of columns "
                                               "with commas between them",
                                               text.substr(0, 80)));
    }
  }
  return parts;
}

std::pair<std::string, std::string> axes_of(const std::string& pareto) {
  const std::vector<std::string> parts = split(pareto, "--pareto");
  if (parts.size() != 2) {
    throw InputError(flag("--pareto"), fmt::format("'{}' is not accepted; accepted: two columns, "
                                                   "as world_size,tokens_per_s",
                                                   pareto.substr(0, 80)));
  }
  return {parts[0], parts[1]};
}

bool is_csv(const std::string& exported) { return exported == "csv" || exported.ends_with(".csv"); }

std::string refusals(const PointTable& table, const RowList& rows) {
  std::map<std::string, std::size_t> sentences;
  std::vector<std::string> order;
  for (const std::size_t row : rows) {
    const Result& result = table.rows[row].result;
    if (result.state == "ok" || result.state == "does_not_fit") continue;
    if (sentences[result.why]++ == 0) order.push_back(result.why);
  }
  std::stable_sort(order.begin(), order.end(), [&](const std::string& a, const std::string& b) {
    return sentences[a] > sentences[b];
  });
  std::string text;
  for (const std::string& why : order) text += fmt::format("{:>6}  {}\n", sentences[why], why);
  return text;
}

std::string document(const SweepOutput& output, const PointTable& table, const RowList& rows) {
  SweepJson json;
  json.rows = rows;
  json.by = output.by.empty() ? default_by(table, rows) : output.by;
  const RowList choice = fitting(table, confirmed(table, rows));
  json.best = best(table, choice, json.by, static_cast<std::size_t>(output.top));
  const auto [x, y] = axes_of(output.pareto.empty() ? "world_size," + json.by : output.pareto);
  json.pareto_x = x;
  json.pareto_y = y;
  json.pareto = pareto(table, choice, x, y);
  return to_json(table, json);
}

}  // namespace

void SweepOutput::add_to(CLI::App& command) {
  const char* group = "Output";
  command.add_option("--by", by, "the output whose best points are shown (default tokens_per_s)")
      ->option_text("OUTPUT")
      ->group(group);
  command.add_option("--top", top, "how many of them (default 10)")
      ->option_text("N")
      ->check(CLI::Range(1, 1'000'000))
      ->group(group);
  command.add_option("--pareto", pareto, "the points that none beats in both columns")
      ->option_text("X,Y")
      ->group(group);
  command.add_option("--group-by", group_by, "the best point of each value of these columns")
      ->option_text("KEY,...")
      ->group(group);
  command.add_flag("--all", all, "all points")->group(group);
  command.add_flag("--refused", refused, "why points have no step time, most frequent first")
      ->group(group);
  command
      .add_option(
          "--export", exported,
          "all points as csv or json, or into a file that ends so; CSV is read by DuckDB and "
          "pandas as it is")
      ->option_text("csv|json|FILE")
      ->group(group);
  command.add_flag("--json", json, "print JSON, schema stepcast.sweep/1")->group(group);
  command.add_option("--report", report, "also write the points as a page of HTML")
      ->option_text("FILE")
      ->group(group);
}

void SweepOutput::check() const {
  if (!report.empty()) check_report("--report", report);
  const std::pair<const char*, bool> forms[] = {
      {"--pareto", !pareto.empty()},  {"--group-by", !group_by.empty()},  {"--all", all},
      {"--refused", refused},         {"--json", json && pareto.empty()},  // may say which front
      {"--export", !exported.empty()}};
  const char* first = nullptr;
  for (const auto& [name, said] : forms) {
    if (!said) continue;
    if (first != nullptr) {
      throw InputError(flag(name), fmt::format("prints something else than {}; accepted: one of "
                                               "them",
                                               first));
    }
    first = name;
  }
  if (!pareto.empty()) axes_of(pareto);
  if (!group_by.empty()) split(group_by, "--group-by");
  if (exported.empty() || exported == "csv" || exported == "json") return;
  if (!exported.ends_with(".csv") && !exported.ends_with(".json")) {
    throw InputError(flag("--export"), fmt::format("'{}' is not accepted; accepted: csv, json, or "
                                                   "a file that ends in .csv or .json",
                                                   exported.substr(0, 80)));
  }
  check_writable(exported, "--export");
}

void check_writable(const std::string& file, const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code none;
  const fs::path folder = fs::absolute(file, none).parent_path();
  if (fs::is_directory(file, none)) {
    throw InputError(flag(name.c_str()),
                     fmt::format("'{}' is a directory; accepted: a file", file));
  }
  if (!fs::is_directory(folder, none)) {
    throw InputError(flag(name.c_str()),
                     fmt::format("'{}': there is no folder {}", file, folder.string()));
  }
  const bool there = fs::exists(file, none);
  if (::access(there ? file.c_str() : folder.c_str(), W_OK) != 0) {
    throw InputError(flag(name.c_str()), fmt::format("'{}' may not be written", file));
  }
}

void SweepOutput::check_columns(const PointTable& table) const {
  if (!by.empty()) check_numbers(table, by, "--by");
  if (!pareto.empty()) {
    for (const std::string& column : split(pareto, "--pareto")) {
      check_numbers(table, column, "--pareto");
    }
  }
  if (!group_by.empty()) {
    for (const std::string& column : split(group_by, "--group-by")) {
      check_column(table, column, "--group-by");
    }
  }
}

void show(const SweepOutput& o, const PointTable& table, const RowList& rows) {
  o.check_columns(table);
  const std::string by = o.by.empty() ? default_by(table, rows) : o.by;
  const RowList choice = fitting(table, confirmed(table, rows));
  const std::vector<std::string> inputs = varied(table, rows);
  if (!o.report.empty()) write_report(o.report, "sweep", document(o, table, rows));
  if (o.json) {
    print(document(o, table, rows));
  } else if (!o.exported.empty()) {
    const std::string text = is_csv(o.exported) ? to_csv(table, rows) : document(o, table, rows);
    if (o.exported == "csv" || o.exported == "json") {
      print(text);
    } else {
      write_file(o.exported, text);
      note(fmt::format("{} written to {}", counted(table, rows), o.exported));
    }
  } else if (!o.pareto.empty()) {
    const auto [x, y] = axes_of(o.pareto);
    print(to_text(table, pareto(table, choice, x, y), inputs, {x, y}));
  } else if (!o.group_by.empty()) {
    const std::vector<std::string> columns = split(o.group_by, "--group-by");
    print(to_text(table, grouped_by(table, rows, columns, by), columns, inputs));
  } else if (o.all) {
    std::vector<std::string> also{"state"};
    print(to_text(table, rows, inputs, also));
  } else if (o.refused) {
    const std::string why = refusals(table, rows);
    const auto too_large = std::count_if(rows.begin(), rows.end(), [&](std::size_t row) {
      return table.rows[row].result.state == "does_not_fit";
    });
    print(!why.empty()    ? why
          : too_large > 0 ? fmt::format("none was refused; {} of {} do not fit in memory\n",
                                        grouped(static_cast<double>(too_large)),
                                        grouped(static_cast<double>(rows.size())))
                          : "none was refused\n");
  } else {
    print(overview(o, table, rows));
  }
}

std::string overview(const SweepOutput& o, const PointTable& table, const RowList& rows) {
  const std::string by = o.by.empty() ? default_by(table, rows) : o.by;
  const RowList choice = fitting(table, confirmed(table, rows));
  const std::vector<std::string> inputs = varied(table, rows);
  const RowList once = each_once(table, rows);
  std::string text = counted(table, once) + "\n";
  const std::size_t trusted = confirmed(table, rows).size();
  if (trusted < once.size()) {
    text += fmt::format("{} of them confirmed by the fluid engine: the best are among these\n",
                        grouped(static_cast<double>(trusted)));
  }
  if (!choice.empty()) {
    const int index = output_index(by);
    const std::string label =
        index < 0 ? by : std::string(outputs[static_cast<std::size_t>(index)].label);
    const RowList top = best(table, choice, by, static_cast<std::size_t>(o.top));
    text += fmt::format("\nbest by {}\n", label) + to_text(table, top, inputs, {by});
    RowList sizes;
    for (const Group& group : grouped_by(table, choice, {"world_size"}, by)) {
      sizes.insert(sizes.end(), group.best.begin(), group.best.end());
    }
    if (sizes.size() > 1) {
      text += fmt::format("\nbest by {} at each number of GPUs\n", label) +
              to_text(table, sizes, inputs, {by});
    }
  }
  const std::string why = refusals(table, rows);
  if (!why.empty()) text += "\npoints without a step time\n" + why;
  return text;
}

}  // namespace stepcast::cli

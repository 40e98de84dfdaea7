#include "sim/collectives/measured.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/toml.hpp"

namespace stepcast {
namespace {

constexpr CollectiveKind kinds[] = {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                    CollectiveKind::reduce_scatter, CollectiveKind::broadcast,
                                    CollectiveKind::reduce};

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f ? ' ' : c;
  }
  return out + "\"";
}

MeasuredTable::Series read_series(TomlTable& table) {
  MeasuredTable::Series series;
  series.op = parse_collective(table.string("op"), table.where("op"));
  series.ranks = static_cast<int>(table.integer("ranks", {2, 1 << 24}));
  series.nodes = static_cast<int>(table.integer("nodes", {1, static_cast<double>(series.ranks)}));
  series.source = table.string("source");
  const std::vector<double> bytes = table.numbers("bytes");
  series.time_us = table.numbers("time_us");
  table.finish();
  if (bytes.empty() || bytes.size() != series.time_us.size()) {
    throw InputError(table.where("time_us"),
                     fmt::format("has {} times for {} sizes; accepted: one each, at least one",
                                 series.time_us.size(), bytes.size()));
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (!(bytes[i] >= 1 && bytes[i] < 1e18) || (i > 0 && bytes[i] <= bytes[i - 1])) {
      throw InputError(
          table.where("bytes"),
          fmt::format("{} is out of order; accepted: rising sizes of 1 or more", bytes[i]));
    }
    if (!(series.time_us[i] > 0 && series.time_us[i] < 1e12)) {
      throw InputError(
          table.where("time_us"),
          fmt::format("{} is out of range; accepted: more than 0 us", series.time_us[i]));
    }
    series.bytes.push_back(static_cast<Bytes>(bytes[i]));
  }
  return series;
}

}  // namespace

std::string_view to_string(MeasuredHow how) {
  switch (how) {
    case MeasuredHow::measured: return "measured";
    case MeasuredHow::interpolated: return "interpolated";
    case MeasuredHow::extrapolated: return "extrapolated";
  }
  return "";
}

CollectiveKind parse_collective(const std::string& name, const Where& asked) {
  std::vector<std::string> names;
  for (const CollectiveKind kind : kinds) {
    if (name == to_string(kind)) return kind;
    names.emplace_back(to_string(kind));
  }
  throw not_accepted(asked, name, names);
}

MeasuredTable MeasuredTable::from_text(std::string_view text, const std::string& file) {
  TomlTable root = TomlTable::from_text(text, file);
  MeasuredTable table;
  for (TomlTable& entry : root.tables("measured")) {
    Series series = read_series(entry);
    if (table.known(series.op, series.ranks, series.nodes) != nullptr) {
      throw InputError(entry.where("op"), fmt::format("is there twice for {} ranks on {} nodes",
                                                      series.ranks, series.nodes));
    }
    table.series_.push_back(std::move(series));
  }
  root.finish();
  if (table.series_.empty()) {
    throw InputError({file, 0, "measured"}, "is missing; accepted: tables [[measured]]");
  }
  return table;
}

MeasuredTable MeasuredTable::from_file(const std::string& path) {
  return from_text(read_file(path, 16ll << 20), path);
}

MeasuredTable::Series* MeasuredTable::known(CollectiveKind op, int ranks, int nodes) {
  for (Series& s : series_) {
    if (s.op == op && s.ranks == ranks && s.nodes == nodes) return &s;
  }
  return nullptr;
}

void MeasuredTable::add(const NcclTestsLog& log) {
  Series* series = known(log.op, log.ranks, log.nodes);
  const std::string source = log.file.substr(log.file.rfind('/') + 1) +
                             (log.nccl_version.empty() ? "" : ", NCCL " + log.nccl_version) +
                             (log.gpu.empty() ? "" : ", " + log.gpu);
  if (series == nullptr) {
    series_.push_back({log.op, log.ranks, log.nodes, source, {}, {}});
    series = &series_.back();
  } else {
    series->source += "; " + source;
  }
  for (const NcclTestsRow& row : log.rows) {
    const auto at = std::lower_bound(series->bytes.begin(), series->bytes.end(), row.bytes);
    const auto i = at - series->bytes.begin();
    if (at != series->bytes.end() && *at == row.bytes) {
      series->time_us[i] = std::min(series->time_us[i], row.time_us());
      continue;
    }
    series->bytes.insert(at, row.bytes);
    series->time_us.insert(series->time_us.begin() + i, row.time_us());
  }
}

std::optional<MeasuredTime> MeasuredTable::find(CollectiveKind op, int ranks, int nodes,
                                                Bytes bytes) const {
  for (const Series& s : series_) {
    if (s.op != op || s.ranks != ranks || s.nodes != nodes || bytes <= 0) continue;
    const auto at = std::lower_bound(s.bytes.begin(), s.bytes.end(), bytes);
    const auto i = static_cast<std::size_t>(at - s.bytes.begin());
    if (at != s.bytes.end() && *at == bytes) {
      return MeasuredTime{s.time_us[i] * 1e-6, MeasuredHow::measured, s.source};
    }
    if (i == 0) return MeasuredTime{s.time_us[0] * 1e-6, MeasuredHow::extrapolated, s.source};
    if (at == s.bytes.end()) {
      const double growth = static_cast<double>(bytes) / static_cast<double>(s.bytes.back());
      return MeasuredTime{s.time_us.back() * growth * 1e-6, MeasuredHow::extrapolated, s.source};
    }
    const double x0 = std::log(static_cast<double>(s.bytes[i - 1]));
    const double x1 = std::log(static_cast<double>(s.bytes[i]));
    const double part = (std::log(static_cast<double>(bytes)) - x0) / (x1 - x0);
    const double y = std::log(s.time_us[i - 1]) * (1 - part) + std::log(s.time_us[i]) * part;
    return MeasuredTime{std::exp(y) * 1e-6, MeasuredHow::interpolated, s.source};
  }
  return std::nullopt;
}

std::string MeasuredTable::to_toml() const {
  std::string out = "# Measured collectives; a scenario names this file as measured_collectives.\n";
  for (const Series& s : series_) {
    out += fmt::format(
        "\n[[measured]]\nop = \"{}\"\nranks = {}\nnodes = {}\nsource = {}\nbytes = [{}]\n"
        "time_us = [{}]\n",
        to_string(s.op), s.ranks, s.nodes, quoted(s.source), fmt::join(s.bytes, ", "),
        fmt::join(s.time_us, ", "));
  }
  return out;
}

}  // namespace stepcast

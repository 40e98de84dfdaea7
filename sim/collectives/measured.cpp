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

}  // namespace

CollectiveKind parse_collective(const std::string& name, const Where& asked) {
  std::vector<std::string> names;
  for (const CollectiveKind kind : kinds) {
    if (name == to_string(kind)) return kind;
    names.emplace_back(to_string(kind));
  }
  throw not_accepted(asked, name, names);
}

MeasuredTable::Series MeasuredTable::read_series(TomlTable& table) {
  Series series;
  series.op = parse_collective(table.string("op"), table.where("op"));
  series.ranks = static_cast<int>(table.integer("ranks", {2, 1 << 24}));
  series.nodes = static_cast<int>(table.integer("nodes", {1, static_cast<double>(series.ranks)}));
  series.siblings = static_cast<int>(table.integer_or("siblings", 1, {1, 1 << 20}));
  if (const std::optional<std::string> dtype = table.optional_string("dtype")) {
    series.dtype = parse_dtype(*dtype);
    if (!series.dtype) {
      throw not_accepted(table.where("dtype"), *dtype, {"fp32", "fp16", "bf16", "fp64", "int64"});
    }
  }
  series.source = table.string("source");
  const std::vector<double> bytes = table.numbers("bytes");
  series.time_us = table.numbers("time_us");
  series.spread = table.numbers("spread");
  table.finish();
  if (bytes.empty() || bytes.size() != series.time_us.size()) {
    throw InputError(table.where("time_us"),
                     fmt::format("has {} times for {} sizes; accepted: one each, at least one",
                                 series.time_us.size(), bytes.size()));
  }
  if (!series.spread.empty() && series.spread.size() != bytes.size()) {
    throw InputError(table.where("spread"),
                     fmt::format("has {} values for {} sizes; accepted: one each, or none",
                                 series.spread.size(), bytes.size()));
  }
  for (const double spread : series.spread) {
    if (spread >= 0 && spread <= 1e6) continue;
    throw InputError(table.where("spread"),
                     fmt::format("{} is out of range; accepted: 0 to 1e6", spread));
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

MeasuredTable MeasuredTable::from_text(std::string_view text, const std::string& file) {
  TomlTable root = TomlTable::from_text(text, file);
  MeasuredTable table;
  for (TomlTable& entry : root.tables("measured")) {
    Series series = read_series(entry);
    const int ranks = series.ranks;
    const int nodes = series.nodes;
    if (!table.add(std::move(series))) {
      throw InputError(entry.where("op"),
                       fmt::format("is there twice for {} ranks on {} nodes", ranks, nodes));
    }
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

MeasuredTable::Series* MeasuredTable::known(CollectiveKind op, int ranks, int nodes, int siblings,
                                            std::optional<Dtype> dtype) {
  for (Series& s : series_) {
    if (s.op == op && s.ranks == ranks && s.nodes == nodes && s.siblings == siblings &&
        s.dtype == dtype) {
      return &s;
    }
  }
  return nullptr;
}

bool MeasuredTable::add(Series series) {
  if (known(series.op, series.ranks, series.nodes, series.siblings, series.dtype) != nullptr) {
    return false;
  }
  series_.push_back(std::move(series));
  return true;
}

void MeasuredTable::add(const NcclTestsLog& log) {
  Series* series = known(log.op, log.ranks, log.nodes);
  const std::string source = log.file.substr(log.file.rfind('/') + 1) +
                             (log.nccl_version.empty() ? "" : ", NCCL " + log.nccl_version) +
                             (log.gpu.empty() ? "" : ", " + log.gpu);
  if (series == nullptr) {
    series_.push_back({log.op, log.ranks, log.nodes, source, {}, {}, 1, std::nullopt, {}});
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

namespace {

MeasuredTime time_of(const MeasuredTable::Series& s, Bytes bytes) {
  const auto found = [&](double us, MeasuredHow how) {
    return MeasuredTime{us * 1e-6, how, s.source, s.siblings};
  };
  const auto at = std::lower_bound(s.bytes.begin(), s.bytes.end(), bytes);
  const auto i = static_cast<std::size_t>(at - s.bytes.begin());
  if (at != s.bytes.end() && *at == bytes) return found(s.time_us[i], MeasuredHow::measured);
  if (i == 0) return found(s.time_us[0], MeasuredHow::extrapolated);
  if (at == s.bytes.end()) {
    const double growth = static_cast<double>(bytes) / static_cast<double>(s.bytes.back());
    return found(s.time_us.back() * growth, MeasuredHow::extrapolated);
  }
  const double x0 = std::log(static_cast<double>(s.bytes[i - 1]));
  const double x1 = std::log(static_cast<double>(s.bytes[i]));
  const double part = (std::log(static_cast<double>(bytes)) - x0) / (x1 - x0);
  const double y = std::log(s.time_us[i - 1]) * (1 - part) + std::log(s.time_us[i]) * part;
  return found(std::exp(y), MeasuredHow::interpolated);
}

}  // namespace

std::optional<MeasuredTime> MeasuredTable::find(CollectiveKind op, int ranks, int nodes,
                                                Bytes bytes, int siblings,
                                                std::optional<Dtype> dtype) const {
  if (bytes <= 0) return std::nullopt;
  const Series* best = nullptr;
  int best_fit = -1;
  for (const Series& s : series_) {
    if (s.op != op || s.ranks != ranks || s.nodes != nodes) continue;
    if (s.siblings != siblings && s.siblings != 1) continue;
    if (s.dtype && dtype && *s.dtype != *dtype) continue;
    const int fit = (s.siblings == siblings ? 2 : 0) + (s.dtype && dtype ? 1 : 0);
    if (fit <= best_fit) continue;
    best = &s;
    best_fit = fit;
  }
  if (best == nullptr) return std::nullopt;
  return time_of(*best, bytes);
}

std::string MeasuredTable::lines_of(const Series& s) {
  std::string out =
      fmt::format("op = \"{}\"\nranks = {}\nnodes = {}\n", to_string(s.op), s.ranks, s.nodes);
  if (s.siblings > 1) out += fmt::format("siblings = {}\n", s.siblings);
  if (s.dtype) out += fmt::format("dtype = \"{}\"\n", to_string(*s.dtype));
  out += fmt::format("source = {}\nbytes = [{}]\ntime_us = [{}]\n", quoted(s.source),
                     fmt::join(s.bytes, ", "), fmt::join(s.time_us, ", "));
  if (!s.spread.empty()) out += fmt::format("spread = [{}]\n", fmt::join(s.spread, ", "));
  return out;
}

std::string MeasuredTable::to_toml() const {
  std::string out = "# Measured collectives; a scenario names this file as measured_collectives.\n";
  for (const Series& s : series_) out += "\n[[measured]]\n" + lines_of(s);
  return out;
}

}  // namespace stepcast

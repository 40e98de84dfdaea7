#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/forecast/memory_comparison.hpp"
#include "sim/report/format.hpp"

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;

std::string gigabytes(double bytes) { return fmt::format("{:.4g}", bytes / 1e9); }
std::string gigabytes(Bytes bytes) { return gigabytes(static_cast<double>(bytes)); }

const char* words(LoadMode mode) {
  switch (mode) {
    case LoadMode::every: return "every rank reads all of it";
    case LoadMode::rank0: return "rank 0 reads and broadcasts";
    case LoadMode::meta: return "every rank reads the shard it keeps";
  }
  return "";
}

std::string fit_of(const MemoryComparison& c, const MemoryComparisonRow& row) {
  if (c.question.capacity == 0) return "";
  const Bytes needed = row.peak.value_or(row.framework);
  if (needed > c.question.capacity) return "no";
  return row.peak ? "yes" : "states do";
}

}  // namespace

std::string to_text(const MemoryComparison& c) {
  const bool peaks = c.question.loaded && c.question.cluster;
  const bool limit = c.question.capacity > 0;
  std::string text = head_of(c.question);
  text +=
      fmt::format("\n{}{}{:>10}{:>12}{:>11}{}{}\n", padded("GB a GPU", 21), padded("textbook", 14),
                  "", "as it runs", "in a step", peaks ? fmt::format("{:>9}", "peak") : "",
                  limit ? fmt::format("   fits in {} GB", gigabytes(c.question.capacity)) : "");
  for (const MemoryComparisonRow& row : c.rows) {
    std::string line = padded(row.strategy, 21) + padded(row.formula, 14) +
                       fmt::format("{:>10}{:>12}{:>11}", gigabytes(row.textbook),
                                   gigabytes(row.framework), gigabytes(row.in_step));
    if (peaks) line += fmt::format("{:>9}", row.peak ? gigabytes(*row.peak) : "-");
    if (limit) line += "   " + fit_of(c, row);
    text += line + "\n";
  }
  text +=
      "\nstates: parameters, gradients, optimizer; in a step: with the tensors that come and go,\n"
      "activations apart.";
  text += peaks ? " peak: the schedule's, with activations, CUDA context and NCCL.\n"
                : " With a model and a cluster: the peak, with activations.\n";
  // Textbooks count in GB, so 16Ψ of 7e9 are 112; forecasts of a step count memory in GiB.
  text += limit ? fmt::format("GB: 1e9 bytes; {} GB are the {} of other reports.\n",
                              gigabytes(c.question.capacity), human_gib(c.question.capacity))
                : "GB: 1e9 bytes.\n";
  if (const std::string absent = left_out_of(c.question); !absent.empty()) {
    text += folded("", absent);
  }
  text += "\nwhy they differ\n";
  for (const MemoryComparisonRow& row : c.rows) {
    text += folded("  " + padded(row.strategy, 21), row.reason);
    if (!row.not_built.empty()) text += folded("  " + padded("", 21), "no peak: " + row.not_built);
  }
  text += fmt::format("\n{}{:>12}{:>16}{:>14}\n", padded("GB of host memory at load, fp32", 48),
                      "a rank", "rank 0's node", "other nodes");
  for (const HostLoad& host : c.host) {
    text += padded(fmt::format("  {}: {}", to_string(host.mode), words(host.mode)), 48) +
            fmt::format("{:>12}{:>16}{:>14}\n", gigabytes(host.reading_rank),
                        gigabytes(host.first_node),
                        c.question.nodes() > 1 ? gigabytes(host.other_node) : "-");
    if (c.host_capacity > 0 && static_cast<double>(host.first_node) > c.host_capacity) {
      text +=
          fmt::format("    more than the {} GB that the machine has\n", gigabytes(c.host_capacity));
    }
  }
  return text;
}

std::string to_json(const MemoryComparison& c) {
  Json rows = Json::array();
  for (const MemoryComparisonRow& row : c.rows) {
    rows.push_back({{"strategy", row.strategy},
                    {"formula", row.formula},
                    {"bytes_per_parameter", row.precision},
                    {"textbook_bytes", row.textbook},
                    {"framework_bytes", row.framework},
                    {"in_step_bytes", row.in_step},
                    {"peak_bytes", row.peak ? Json(*row.peak) : Json()},
                    {"peak_role", row.peak ? Json(row.peak_role) : Json()},
                    {"no_peak_because", row.not_built.empty() ? Json() : Json(row.not_built)},
                    {"reason", row.reason}});
  }
  Json host = Json::array();
  for (const HostLoad& load : c.host) {
    host.push_back({{"load", to_string(load.mode)},
                    {"reading_rank_bytes", load.reading_rank},
                    {"first_node_bytes", load.first_node},
                    {"other_node_bytes", load.other_node}});
  }
  const Compared& q = c.question;
  const Json document = {
      {"schema", "stepcast.memory/1"},
      {"model", q.model.empty() ? Json() : Json(q.model)},
      {"parameters", q.parameters},
      {"gpus", q.gpus},
      {"gpus_per_node", q.gpus_per_node},
      {"shard_group", q.shard_group},
      {"unit_parameters", c.unit_parameters == 0 ? Json() : Json(c.unit_parameters)},
      {"root_parameters", q.loaded ? Json(c.root_parameters) : Json()},
      {"gpu", q.gpu.empty() ? Json() : Json(q.gpu)},
      {"memory_capacity_bytes", q.capacity == 0 ? Json() : Json(q.capacity)},
      {"strategies", rows},
      {"host_at_load", host},
      {"host_capacity_bytes", c.host_capacity == 0 ? Json() : Json(c.host_capacity)}};
  return document.dump(2) + "\n";
}

}  // namespace stepcast

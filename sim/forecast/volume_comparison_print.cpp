#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/forecast/volume_comparison.hpp"
#include "sim/report/format.hpp"

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;

std::string gigabytes(double bytes) { return fmt::format("{:.4g}", bytes / 1e9); }

std::string columns(const SentBytes& sent, bool several_nodes) {
  if (!several_nodes) return fmt::format("{:>12}", gigabytes(sent.total()));
  return fmt::format("{:>10}{:>10}", gigabytes(sent.intra), gigabytes(sent.inter));
}

Json json_of(const SentBytes& sent) {
  return {{"intra_node", sent.intra}, {"inter_node", sent.inter}, {"total", sent.total()}};
}

}  // namespace

std::string to_text(const VolumeComparison& c) {
  const bool several = c.question.nodes() > 1;
  const bool scheduled = c.question.loaded && c.question.cluster;
  std::string text = head_of(c.question);
  const auto title = [&](const char* name) {
    return several ? fmt::format("{:>20}", name) : fmt::format("{:>12}", name);
  };
  text += "\n" + padded("GB sent a GPU and step", 33) + title("textbook") + title("as it runs") +
          (scheduled ? title("scheduled") : "") + "\n";
  if (several) {
    text += std::string(33, ' ');
    for (int i = 0; i < (scheduled ? 3 : 2); ++i) {
      text += fmt::format("{:>10}{:>10}", "in node", "between");
    }
    text += "\n";
  }
  for (const VolumeComparisonRow& row : c.rows) {
    text += padded(row.strategy, 21) + padded(row.formula, 12) + columns(row.textbook, several) +
            columns(row.framework, several);
    if (row.scheduled) text += columns(*row.scheduled, several);
    text += "\n";
  }
  text += "\n" + folded("",
                        "textbook: 16 bit, one micro-batch, rings: an all-gather or reduce-scatter "
                        "of S bytes over N ranks sends (N-1)/N S, an all-reduce twice that.");
  if (scheduled) {
    text += folded("",
                   "scheduled: this model's step, padding and roots included, as NCCL routes "
                   "it (in-switch reduction sends less).");
  }
  if (const std::string absent = left_out_of(c.question); !absent.empty()) {
    text += folded("", absent);
  }
  text += "\nwhy they differ\n";
  for (const VolumeComparisonRow& row : c.rows) {
    text += folded("  " + padded(row.strategy, 21), row.collectives + ": " + row.reason);
    if (!row.not_built.empty()) {
      text += folded("  " + padded("", 21), "not scheduled: " + row.not_built);
    }
  }
  return text;
}

std::string to_json(const VolumeComparison& c) {
  Json rows = Json::array();
  for (const VolumeComparisonRow& row : c.rows) {
    rows.push_back({{"strategy", row.strategy},
                    {"formula", row.formula},
                    {"collectives", row.collectives},
                    {"textbook_bytes", json_of(row.textbook)},
                    {"framework_bytes", json_of(row.framework)},
                    {"scheduled_bytes", row.scheduled ? json_of(*row.scheduled) : Json()},
                    {"not_scheduled_because", row.not_built.empty() ? Json() : Json(row.not_built)},
                    {"reason", row.reason}});
  }
  const Compared& q = c.question;
  const Json document = {
      {"schema", "stepcast.volume/1"},    {"model", q.model.empty() ? Json() : Json(q.model)},
      {"parameters", q.parameters},       {"gpus", q.gpus},
      {"gpus_per_node", q.gpus_per_node}, {"shard_group", q.shard_group},
      {"accumulation", q.accumulation},   {"sent_per_gpu", rows}};
  return document.dump(2) + "\n";
}

}  // namespace stepcast

#pragma once
// The accuracy ledger: every published row beside its forecast, every figure beside its bar and its
// baselines. `stepcast validate --published` prints it; docs/accuracy.md is made from it.
//
// Nothing here is a forecast's business: rows marked `check` never enter a fit, and no factor
// belongs to a row, a model or a scale (docs/accuracy.md says what was fitted on what).

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "validate/published/figures.hpp"

namespace stepcast {

struct SourceResult {
  PublishedSource source;
  std::vector<Outcome> outcomes;    // point into source.rows
  std::vector<Baseline> baselines;  // point into outcomes
  Figures figures;
  std::vector<BarResult> bars;
  int left_out = 0;
};

struct Ledger {
  std::vector<SourceResult> sources;
};

// `progress`: rows that are forecast, of all; from 0 on, after each.
Ledger run_ledger(const std::function<void(std::size_t done, std::size_t all)>& progress = {});

std::string to_text(const Ledger& ledger, bool rows = false);  // rows: each of them, too
std::string to_json(const Ledger& ledger);                     // schema stepcast.accuracy/1
// docs/accuracy.md: every figure, what was fitted on what, the worst rows and why (reasons.toml).
std::string to_page(const Ledger& ledger);
// Forecast against measured step time, log-log, and the error by GPUs: a self-contained SVG.
std::string to_picture(const Ledger& ledger);

}  // namespace stepcast

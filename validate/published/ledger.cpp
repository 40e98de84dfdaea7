#include "validate/published/ledger.hpp"

#include <algorithm>

namespace stepcast {

Ledger run_ledger() {
  Ledger ledger;
  std::vector<PublishedSource> sources = published_sources();
  ledger.sources.reserve(sources.size());
  for (PublishedSource& source : sources) {
    SourceResult& result = ledger.sources.emplace_back();
    result.source = std::move(source);
    result.outcomes = forecast_rows(result.source);
    result.baselines = baselines(result.outcomes);
    result.figures = figures_of(result.outcomes, result.baselines);
    result.bars = judge(result.source.bars, result.figures);
    result.left_out = static_cast<int>(result.source.rows.size() - result.outcomes.size());
  }
  return ledger;
}

}  // namespace stepcast

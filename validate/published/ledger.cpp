#include "validate/published/ledger.hpp"

#include <algorithm>

namespace stepcast {

Ledger run_ledger(const std::function<void(std::size_t, std::size_t)>& progress) {
  Ledger ledger;
  std::vector<PublishedSource> sources = published_sources();
  std::size_t all = 0, done = 0;
  for (const PublishedSource& source : sources) {
    all += static_cast<std::size_t>(
        std::count_if(source.rows.begin(), source.rows.end(),
                      [](const MeasuredRow& row) { return row.left_out.empty(); }));
  }
  if (progress) progress(0, all);
  ledger.sources.reserve(sources.size());
  for (PublishedSource& source : sources) {
    SourceResult& result = ledger.sources.emplace_back();
    result.source = std::move(source);
    result.outcomes = forecast_rows(result.source, [&] {
      if (progress) progress(++done, all);
    });
    result.baselines = baselines(result.outcomes);
    result.figures = figures_of(result.outcomes, result.baselines);
    result.bars = judge(result.source.bars, result.figures);
    result.left_out = static_cast<int>(result.source.rows.size() - result.outcomes.size());
  }
  return ledger;
}

}  // namespace stepcast

#include "validate/published/decisions.hpp"

namespace stepcast {

namespace {

bool same_settings(const Scenario& a, const Scenario& b) {
  return a.strategy == b.strategy && a.micro_batch == b.micro_batch &&
         a.checkpointing == b.checkpointing && a.precision == b.precision &&
         a.bucket_cap_mb == b.bucket_cap_mb;
}

template <typename Counts>
RankOrder order(const std::vector<Outcome>& outcomes, Counts&& counts) {
  RankOrder order;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    for (std::size_t j = i + 1; j < outcomes.size(); ++j) {
      const Outcome& a = outcomes[i];
      const Outcome& b = outcomes[j];
      if (a.measured == 0 || b.measured == 0 || a.measured_rate() == b.measured_rate()) continue;
      if (!counts(a, b)) continue;
      ++order.pairs;
      order.right += (a.measured_rate() < b.measured_rate()) == (a.rate() < b.rate());
    }
  }
  return order;
}

}  // namespace

bool is_decision(const Outcome& a, const Outcome& b) {
  const Scenario& s = a.row->scenario;
  const Scenario& t = b.row->scenario;
  if (s.model != t.model || s.cluster != t.cluster || s.seq_len != t.seq_len) return false;
  if (a.gpus == b.gpus) return !same_settings(s, t) || s.accumulation != t.accumulation;
  return a.nodes != b.nodes && same_settings(s, t);
}

RankOrder decisions(const std::vector<Outcome>& outcomes) {
  return order(outcomes, [](const Outcome& a, const Outcome& b) { return is_decision(a, b); });
}

RankOrder all_pairs(const std::vector<Outcome>& outcomes) {
  return order(outcomes, [](const Outcome&, const Outcome&) { return true; });
}

}  // namespace stepcast

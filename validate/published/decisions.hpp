#pragma once
// Rank order, counted where somebody would decide by it.
//
// A pair of rows of one source is a decision when model, machine and sequence length are the same
// and
//   settings   the GPUs are as many, and strategy, micro-batch, accumulation, checkpointing,
//              precision or buckets differ; or
//   scale      all of that is the same but for accumulation, and the nodes differ.
// It is right when the forecast orders the rates a GPU as they were measured. Equal measurements
// are no pair. All pairs of a source are counted too, by the rate a GPU: a FLOP count orders nearly
// all of those, so they say little.

#include <vector>

#include "validate/published/outcome.hpp"

namespace stepcast {

struct RankOrder {
  int pairs = 0;
  int right = 0;
  double share() const { return pairs > 0 ? static_cast<double>(right) / pairs : 0; }
};

bool is_decision(const Outcome& a, const Outcome& b);
RankOrder decisions(const std::vector<Outcome>& outcomes);
RankOrder all_pairs(const std::vector<Outcome>& outcomes);

}  // namespace stepcast

#pragma once
// Parameters that get no gradient in a step: a branch that forward did not take.
//
// The reducer counts gradients; a bucket that misses one is never complete.
//   find_unused_parameters, static_graph   such parameters are marked ready at the first hook of
//   the
//       backward: their slice is zeroed and the bucket goes on. A rank that did not use a parameter
//       that others used gets their average.
//   neither, unused on every rank   its bucket and all after it are never launched. The optimizer
//       runs on gradients that nobody reduced, silently; the next forward raises.
//   neither, unused on some ranks   the others have launched that bucket and hang in its all-reduce
//       until the process group's timeout.
// Example: buckets {l4}, {l3 l2 l1}; l2 is unused on rank 3 of 8. Bucket 0 is reduced; ranks 0 to 2
// and 4 to 7 wait in bucket 1 for rank 3, which has gone on to its optimizer.
//
// What is simulated: gradients, copies and reductions of unused parameters are left out; the
// kernels of their layers stay, so the step is not shorter than that of a rank that uses them.
// Source: PyTorch reducer.cpp, mark_variable_ready and ensure_prior_reduction_finished
// (docs/sources.md 1.2). Tested by tests/unit/strategies/ddp_unused_test.cpp.

#include <optional>
#include <string>
#include <vector>

#include "sim/strategies/strategy.hpp"

namespace stepcast::ddp {

struct Unused {
  std::vector<bool> parameter;  // by parameter of the model; empty: every one is used
  std::vector<int> ranks;       // where, ascending
  bool everywhere = false;      // on all ranks
  bool any() const { return !parameter.empty(); }
};

// Resolves names, globs (* ? [..]) and ranks. InputError for what matches nothing.
Unused unused_parameters(const TrainingStep& step);

// Whether the reducer marks unused parameters ready by itself.
bool marks_unused(const StrategyOptions& options);

// A contiguous run of ranks that run one program.
struct RankRun {
  int first = 0;
  int count = 0;
};
// `ranks` and those that are not in it, as runs; at most 64 runs in all (InputError for `key`).
struct Partition {
  std::vector<RankRun> in, out;
};
Partition partition(const std::vector<int>& ranks, int world_size, const std::string& key);

// "rank 3", "ranks 0 to 2, 5", "all 8 ranks"
std::string in_words(const std::vector<int>& ranks, int world_size);

// What goes wrong with the step as it is written, in the user's words; none where nothing does.
// `everywhere`: no rank hangs, so no engine can find it.
struct Unreduced {
  bool everywhere = false;
  std::string text;
};
std::optional<Unreduced> unreduced_gradients(const TrainingStep& step);

}  // namespace stepcast::ddp

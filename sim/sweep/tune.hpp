#pragma once
// The fastest way to train one model on one cluster: strategy, checkpointing, micro-batch (and with
// it accumulation, where the global batch is given), shard group, resharding and bucket sizes,
// within the memory there is.
//
//   1. every combination of the knobs that are a choice, by the formula engine;
//   2. the best of them, and the best of each strategy, by the fluid engine;
//   3. the bucket size of the best that have one, which is a number on a scale: NLopt, first DIRECT
//      (D. R. Jones, C. D. Perttunen, B. E. Stuckman, 1993) over 0.25 MiB to 1 GiB in equal
//      factors, then a simplex (Nelder and Mead) from where that ended. A step is constant between
//      sizes at which a tensor changes its bucket, so only methods without derivatives come into
//      question. A size that gains less than 0.5 % on the default stays unsaid;
//   4. around the winner, knob by knob: what each other value loses, and over which range of sizes
//      the step stays within 1 % and 5 %.
//
// Faster means more samples a second. Without a global batch accumulation stays what it was: more
// of it always looks faster, and changes what is trained.
//
// Cost: some hundred points by formula and two hundred by fluid: seconds. Tested by
// tests/cli/sweep_test.cpp.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/sweep/dispatcher.hpp"
#include "sim/sweep/outputs.hpp"

namespace stepcast {

struct TuneOptions {
  std::vector<std::string> keep;             // knobs that stay as they were said
  std::optional<std::int64_t> global_batch;  // samples a step, of all GPUs
  double headroom = 0;                       // share of the memory that stays free at the peak
  std::vector<std::string> strategies;       // to choose from; none: all that tune() knows
  std::vector<std::string> checkpointing{"none", "selective", "full"};
  int jobs = 1;
  const std::atomic<bool>* stop = nullptr;
  // How far it has come: of `all` points of this phase, in words, `done`.
  std::function<void(const std::string& phase, std::size_t done, std::size_t all)> progress;
};

// A scenario and what came of it.
struct Tried {
  Scenario scenario;
  Result result;
  double rate = 0;  // samples a second; 0: does not run, or not in the memory
};

// One other value of a knob, all else as in the best.
struct Alternative {
  std::string value;
  double loss = 0;  // of the rate, fraction
  bool runs = false;
  std::string why;  // where it does not
};

// What is known of one knob at the best point.
struct KnobReport {
  std::string key;
  std::string best;                 // "" where the best does not say it
  std::string by_default;           // as the scenario said it, or PyTorch's and DeepSpeed's default
  std::vector<Alternative> others;  // the best one among them, in the knob's order
  bool is_size = false;             // others are a scale of sizes; then also the ranges
  double low_1 = 0, high_1 = 0;     // within 1 % of the best rate, without a gap
  double low_5 = 0, high_5 = 0;     // within 5 %
  std::optional<Alternative> default_loses;  // the default, all else as in the best
};

struct Tuned {
  Tried best;
  Tried given;                 // the scenario as it was, by the same engine
  std::string given_strategy;  // that was taken because none was said; else empty
  std::vector<KnobReport> knobs;
  std::size_t screened = 0, confirmed = 0, sized = 0;  // points by formula, by fluid, by NLopt
  int gpus = 0;
  double samples_per_step = 0;
  std::int64_t tokens_per_sample = 0;  // 0 for images
};

// The knobs that tune() turns.
const std::vector<std::string>& tuned_keys();

// Throws InputError for what no knob can cure, InfeasibleError where nothing fits. Stopped early:
// nothing.
std::optional<Tuned> tune(const Scenario& scenario, const TuneOptions& options);

std::string to_text(const Tuned& tuned);
std::string to_json(const Tuned& tuned);  // schema stepcast.tune/1

}  // namespace stepcast

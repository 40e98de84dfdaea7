#pragma once
// Published benchmarks that the ledger keeps: data/NAME.toml says where the figures come from, how
// they are read and what they must show; data/NAME.csv holds the rows (rows.hpp). Both are compiled
// in, so that an installed stepcast can be checked.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "validate/published/rows.hpp"

namespace stepcast {

// What a figure of the source must show (figures.hpp names them).
struct Bar {
  std::string figure;                       // "step.check.median"
  std::optional<double> at_most, at_least;  // one of them
  bool beats_baselines = false;             // and at most 0.7 of the better baseline's
};

// Micro-batches that are padded to fewer tokens than the row's seq_len.
struct Length {
  std::int64_t tokens = 0;
  double share = 0;  // of the micro-batches
};

struct PublishedSource {
  std::string name;  // "llmf"
  std::string title;
  std::string source;               // where it was published
  std::string reading;              // what was inferred, what was fitted on what
  bool reserved_memory = false;     // memory is what the allocator reserved; false: allocated
  std::optional<Scenario> changed;  // change_percent: what differs in the second scenario
  // Data that comes in bins of equal length: a step is forecast at each, and takes the mean. All
  // GPUs read the same bin at a time. Empty: every sequence has seq_len tokens.
  std::vector<Length> lengths;
  std::vector<Bar> bars;
  std::vector<MeasuredRow> rows;
};

std::vector<PublishedSource> published_sources();
std::string_view published_text(const std::string& file);  // of validate/published/data

PublishedSource parse_source(const std::string& name, std::string_view toml, std::string_view csv);

}  // namespace stepcast

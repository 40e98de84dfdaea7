#pragma once
// Measured steps as a table: a column a scenario key, one column for what was measured, its name
// the unit. What the ledger keeps of published benchmarks and what a user gives `stepcast fit`.
//
//   id,split,model,cluster,gpus,seq_len,micro_batch,tokens_per_second
//   a,fit,mpt-7b,hgx-h100-roce-3200,8,2048,6,85144
//
// An empty cell says nothing: the key keeps the value that all rows have in common. Lists are
// written as in TOML. Columns beside the keys:
//   id        a name (default: the line)
//   split     fit, check, none: may a fit see it (default fit)
//   left_out  why the row is not forecast; empty: it is
//   memory_gb, memory_gib   peak of one GPU
// Tested by tests/unit/validate/rows_test.cpp.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.hpp"
#include "sim/forecast/scenario.hpp"
#include "sim/report/report.hpp"

namespace stepcast {

enum class Split : std::uint8_t { fit, check, none };
std::string_view to_string(Split split);

enum class Measure : std::uint8_t {
  step_ms,
  tokens_per_second,
  tokens_per_second_per_gpu,
  samples_per_second,
  samples_per_second_per_gpu,
  change_percent,  // of the throughput, between two scenarios
};
std::string_view to_string(Measure measure);

struct MeasuredRow {
  std::string id;
  Split split = Split::fit;
  Scenario scenario;
  Measure measure = Measure::step_ms;
  double value = 0;             // in the measure's unit
  std::optional<Bytes> memory;  // peak of one GPU
  std::string left_out;
  Where where;
};

// `common` holds for every row; cells win over it. Throws InputError naming file, line and column.
std::vector<MeasuredRow> parse_rows(std::string_view csv, const std::string& file,
                                    const Scenario& common = {});

// The measured value as the seconds of a step of what was forecast (not for change_percent).
Seconds measured_seconds(const MeasuredRow& row, const Report& forecast);

// The cells of each line; "..." may hold commas, and quotes twice. Throws InputError.
std::vector<std::vector<std::string>> parse_csv(std::string_view text, const std::string& file);

}  // namespace stepcast

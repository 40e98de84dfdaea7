#pragma once
// The memory of all strategies side by side: the states as textbooks count them and as the
// frameworks keep them, with the reason for each difference; what comes on top within a step; and,
// with a model and a machine, the peak of the real schedule.
//
//   stepcast memory --params 7e9 --gpus 8
//   ddp      16Ψ            112 GB    140    154
//   zero2    (2 + 14/N)Ψ    26.25     ...
//
// Peaks are the ledger's (sim/memory/ledger.hpp) with the CUDA context and NCCL's buffers, as in a
// forecast; nothing is timed, so all strategies take tens of milliseconds together. Tested by
// tests/unit/forecast/memory_comparison_test.cpp (E-19).

#include <optional>
#include <string>
#include <vector>

#include "sim/forecast/compared.hpp"
#include "sim/memory/host_load.hpp"

namespace stepcast {

struct MemoryComparisonRow {
  std::string strategy;
  std::string formula;    // of the textbook: "(2 + 14/N)Ψ"
  std::string precision;  // what the framework's column counts: "4 + 4 + 8 bytes"
  Bytes textbook = 0;
  Bytes framework = 0;  // states, and what is there all the time
  Bytes in_step = 0;    // and what comes and goes within a step, activations apart
  std::string reason;   // of the difference, a sentence
  // With a model and a machine.
  std::optional<Bytes> peak;
  std::string peak_role;  // of several roles the one that needs most
  std::string not_built;  // why there is no peak; empty where there is one or none was asked
};

struct MemoryComparison {
  Compared question;
  std::vector<MemoryComparisonRow> rows;
  std::int64_t unit_parameters = 0;  // of the largest unit, with a model; else 0
  std::int64_t root_parameters = 0;
  Bytes load_bytes_per_parameter = 4;
  std::vector<HostLoad> host;
  double host_capacity = 0;  // bytes of main memory a node; 0: not known
};

// `load`: which ways of loading; none: all three. Throws InputError.
MemoryComparison memory_comparison(const Scenario& scenario, std::optional<LoadMode> load = {});

std::string to_text(const MemoryComparison& comparison);
std::string to_json(const MemoryComparison& comparison);  // schema "stepcast.memory/1"

}  // namespace stepcast

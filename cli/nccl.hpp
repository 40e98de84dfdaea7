#pragma once
// What the verbs of `stepcast nccl` share: their options, and how nccl-tests writes things. Each
// verb is one file: nccl_import.cpp, nccl_predict.cpp, nccl_compare.cpp.

#include <string>
#include <vector>

#include "sim/collectives/collective_cost.hpp"
#include "sim/collectives/nccl_tests_log.hpp"
#include "sim/forecast/scenario.hpp"

namespace stepcast::cli {

struct NcclOptions {
  std::vector<std::string> logs;
  std::string output;
  std::string op = "all_reduce";
  std::string begin = "8", end = "1G", factor = "2";
  std::string dtype = "float", redop;  // redop "": not said
  std::string hint_op;
  int ranks = 0, nodes = 0;
  bool published = false;
  bool json = false;
};

// The verbs: they print, and return the exit code.
int nccl_import(const NcclOptions& options, const Scenario& scenario);
int nccl_predict(const NcclOptions& options, const Scenario& scenario);
int nccl_compare(const NcclOptions& options, const Scenario& scenario);

// All tests of all files. Of several files those of an operation that is not modelled are left out,
// and said.
std::vector<NcclTestsLog> read_nccl_logs(const NcclOptions& options, const Scenario& scenario);

// "float", "half", "bfloat16", ... of --dtype; throws InputError.
Dtype parse_nccl_type(const std::string& name);
// The same of a log, whose spelling differs by version.
Dtype nccl_type_of_log(const std::string& name);

// On stderr: NCCL's variables that were said and change nothing (`collectives` says it too).
void note_unheeded(const CollectiveOptions& options);

// "modelled, corrected for infiniband", "interpolated"
std::string nccl_provenance_text(const CollectiveCost& cost);
std::string nccl_time_text(double us);  // "38.60", "12345"

}  // namespace stepcast::cli

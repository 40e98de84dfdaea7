// Logs of nccl-tests as `stepcast nccl import` and `compare` take them, and nccl-tests' names.

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "cli/command.hpp"
#include "cli/nccl.hpp"
#include "sim/forecast/resolve.hpp"

namespace stepcast::cli {

Dtype parse_nccl_type(const std::string& name) {
  const std::vector<std::pair<std::string, Dtype>> known = {
      {"float", Dtype::fp32},  {"half", Dtype::fp16}, {"bfloat16", Dtype::bf16},
      {"double", Dtype::fp64}, {"int8", Dtype::int8}, {"int32", Dtype::int32},
      {"int64", Dtype::int64}, {"fp8", Dtype::fp8}};
  std::vector<std::string> names;
  for (const auto& [text, dtype] : known) {
    if (text == name) return dtype;
    names.push_back(text);
  }
  throw not_accepted({"--dtype", 0, ""}, name, names);
}

// For a log, whose spelling of 8-bit floats differs by version.
Dtype nccl_type_of_log(const std::string& name) {
  if (name.find("e4m3") != std::string::npos || name.find("e5m2") != std::string::npos) {
    return Dtype::fp8;
  }
  if (name == "uint8") return Dtype::int8;
  if (name == "uint32") return Dtype::int32;
  if (name == "uint64") return Dtype::int64;
  if (name == "float16") return Dtype::fp16;
  if (name == "float32") return Dtype::fp32;
  if (name == "float64") return Dtype::fp64;
  return parse_nccl_type(name);
}

std::string nccl_provenance_text(const CollectiveCost& cost) {
  if (cost.measured) return std::string(to_string(cost.measured->how));
  if (cost.corrected) {
    return fmt::format("{}, corrected for {}", to_string(cost.provenance), cost.network_class);
  }
  return std::string(to_string(cost.provenance));
}

std::string nccl_time_text(double us) {
  return us < 10000 ? fmt::format("{:.2f}", us) : fmt::format("{:.0f}", us);
}

std::vector<NcclTestsLog> read_nccl_logs(const NcclOptions& o, const Scenario& scenario) {
  NcclTestsHints hints{.ranks = o.ranks, .nodes = o.nodes, .op = o.hint_op};
  if (scenario.cluster) {
    Scenario one = scenario;
    one.nodes.reset();
    one.gpus.reset();
    hints.gpus_per_node = resolve_cluster(one).gpus_per_node;
  }
  std::vector<NcclTestsLog> logs;
  std::optional<InputError> first;
  for (const std::string& path : o.logs) {
    const std::string text = read_file(path, 64ll << 20);
    try {
      for (NcclTestsLog& log : read_nccl_tests_log(text, path, hints)) {
        for (const std::string& said : log.notes) note(path + ": " + said);
        logs.push_back(std::move(log));
      }
    } catch (const InputError& error) {
      const std::string why = error.what();
      if (o.logs.size() == 1 || why.find("stepcast does not model") == std::string::npos) throw;
      note(why + ": left out");
      if (!first) first = error;
    }
  }
  if (logs.empty() && first) throw *first;
  return logs;
}

}  // namespace stepcast::cli

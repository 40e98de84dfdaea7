// stepcast nccl import: logs of nccl-tests become a table of measured times.

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "cli/command.hpp"
#include "cli/nccl.hpp"

namespace stepcast::cli {

namespace {

// "NVIDIA A100-SXM4-40GB" and "A100-SXM4-40GB" of an older driver are one GPU.
std::string gpu_of(const NcclTestsLog& log) {
  return log.gpu.starts_with("NVIDIA ") ? log.gpu.substr(7) : log.gpu;
}

// A table is of one machine's times: those of another GPU may not mix with them.
void refuse_other_gpus(const std::vector<NcclTestsLog>& logs) {
  const NcclTestsLog* first = nullptr;
  for (const NcclTestsLog& log : logs) {
    if (log.gpu.empty()) continue;
    if (first == nullptr) first = &log;
    if (gpu_of(log) == gpu_of(*first)) continue;
    throw InputError({log.file, 0, ""},
                     fmt::format("was measured on {}, {} on {}; accepted: logs of one GPU, a table "
                                 "for each",
                                 log.gpu, first->file, first->gpu));
  }
}

}  // namespace

int nccl_import(const NcclOptions& o, const Scenario& scenario) {
  MeasuredTable table;
  std::string said;
  const std::vector<NcclTestsLog> logs = read_nccl_logs(o, scenario);
  refuse_other_gpus(logs);
  for (const NcclTestsLog& log : logs) {
    const auto again = std::count_if(log.rows.begin(), log.rows.end(), [&](const auto& row) {
      const auto known = table.find(log.op, log.ranks, log.nodes, row.bytes);
      return known && known->how == MeasuredHow::measured;
    });
    if (again > 0) {
      note(
          fmt::format("{}: {} of its {} sizes are in an earlier log of {}, {} ranks on {} node{}, "
                      "too: the smaller time of each counts",
                      log.file, again, log.rows.size(), to_string(log.op), log.ranks, log.nodes,
                      log.nodes == 1 ? "" : "s"));
    }
    table.add(log);
    said += fmt::format("{}: {}, {} ranks on {} node{}, {} sizes\n", log.file, to_string(log.op),
                        log.ranks, log.nodes, log.nodes == 1 ? "" : "s", log.rows.size());
  }
  const std::string toml = table.to_toml();
  MeasuredTable::from_text(toml, "measured.toml");  // what is written reads back
  if (o.output.empty()) {
    print(toml);
    return 0;
  }
  write_file(o.output, toml);
  print(said + fmt::format("{}: use it with `--measured-collectives {}`\n", o.output, o.output));
  return 0;
}

}  // namespace stepcast::cli

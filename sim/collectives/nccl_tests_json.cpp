// nccl-tests' JSON (-J, versions 1 to 3): one test a file.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "sim/collectives/nccl_tests_runs.hpp"

namespace stepcast::nccl_tests {
namespace {

using Json = nlohmann::json;

double number(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : std::nan("");
}

std::string word(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

Half half(const Json& result, const char* key, const std::string& file) {
  const auto found = result.find(key);
  if (found == result.end() || !found->is_object()) return {0, 0, 0};
  if (found->contains("cpu_time")) {
    throw InputError({file, 0, "results"},
                     "holds CPU launch times (nccl-tests -C 1); accepted: a run without -C");
  }
  return {number(*found, "time"), number(*found, "alg_bw"), number(*found, "bus_bw")};
}

// Without MPI only the first device is listed, so one alone says nothing.
void take_devices(const Json& devices, Run* run) {
  for (const Json& device : devices) {
    if (!device.is_object()) continue;
    const double rank = number(device, "rank");
    if (rank >= 0 && rank < 1e6) run->ranks.insert(static_cast<int>(rank));
    const double number_of = number(device, "device");
    if (number_of >= 0 && number_of < 1e6) run->devices.insert(static_cast<int>(number_of));
    if (!word(device, "hostname").empty()) run->hosts.insert(word(device, "hostname"));
    if (run->gpu.empty()) run->gpu = word(device, "device_info");
  }
  if (run->ranks.size() == 1) run->ranks.clear();
}

void take_result(const Json& result, const std::string& file, Run* run) {
  Row row;
  const double size = number(result, "size");
  const double count = number(result, "count");
  if (!(size >= 0 && size < 1e18 && count >= 0 && count < 1e18)) return;
  row.size = static_cast<std::int64_t>(size);
  row.count = static_cast<std::int64_t>(count);
  row.type = word(result, "type");
  row.redop = word(result, "redop");
  row.root = word(result, "root").empty() ? -1 : std::atoll(word(result, "root").c_str());
  if (element_bytes(row.type) == 0) return;
  row.out = half(result, "out_of_place", file);
  row.in = half(result, "in_place", file);
  run->rows.push_back(row);
}

}  // namespace

std::vector<Run> read_json(const std::string& text, const std::string& file) {
  const Json root = Json::parse(text, nullptr, false);
  if (root.is_discarded()) {
    throw InputError({file, 0, ""}, "starts like JSON but is not valid JSON");
  }
  if (!root.is_object() || !root.contains("results") || !root["results"].is_array()) {
    throw InputError({file, 0, ""},
                     "is JSON without the results of nccl-tests; accepted: what nccl-tests -J "
                     "writes, or its text");
  }
  Run run;
  if (root.contains("args") && root["args"].is_array()) {
    for (const Json& arg : root["args"]) {
      if (arg.is_string() && run.operation == nullptr) {
        run.operation = program_in(arg.get<std::string>());
      }
    }
  }
  if (root.contains("nccl_version") && root["nccl_version"].is_number_integer()) {
    run.nccl_version = version_text(root["nccl_version"].get<int>());
  }
  const auto config = root.find("config");
  if (config != root.end() && config->is_object() && config->contains("devices") &&
      (*config)["devices"].is_array()) {
    take_devices((*config)["devices"], &run);
  }
  for (const Json& result : root["results"]) {
    if (result.is_object() && run.rows.size() < max_rows) take_result(result, file, &run);
  }
  if (run.rows.empty()) return {};
  return {run};
}

}  // namespace stepcast::nccl_tests

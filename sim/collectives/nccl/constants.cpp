#include "sim/collectives/nccl/constants.hpp"

#include <map>
#include <memory>
#include <mutex>

#include "base/embedded.hpp"
#include "base/error.hpp"
#include "base/toml.hpp"

namespace stepcast::nccl {
namespace {

constexpr std::string_view file_prefix = "nccl-";
constexpr std::string_view file_suffix = ".toml";
constexpr const char* generations[] = {"volta", "ampere", "hopper", "blackwell"};

template <std::size_t Count>
std::array<double, Count> row(TomlTable& table, std::string_view key) {
  const std::vector<double> values = table.numbers(key);
  if (values.size() != Count) {
    throw InputError(table.where(key), "accepted: " + std::to_string(Count) + " numbers");
  }
  std::array<double, Count> out{};
  std::copy(values.begin(), values.end(), out.begin());
  return out;
}

TomlTable section(TomlTable& table, std::string_view key) {
  std::optional<TomlTable> found = table.table(key);
  if (!found) throw InputError(table.where(key), "is missing");
  return std::move(*found);
}

PerAlgorithm per_algorithm(TomlTable table) {
  PerAlgorithm out{};
  for (int a = 0; a < algorithm_count; ++a) {
    out[a] = row<protocol_count>(table, to_string(static_cast<NcclAlgorithm>(a)));
  }
  table.finish();
  return out;
}

PerGeneration per_generation(TomlTable table) {
  PerGeneration out{};
  for (int g = 0; g < 4; ++g) out[g] = row<3>(table, generations[g]);
  table.finish();
  return out;
}

Constants read(std::string_view text, const std::string& file) {
  TomlTable t = TomlTable::from_text(text, file);
  Constants c;
  c.version = t.string("version");
  c.source = t.string("source");
  c.base_latency_us = per_algorithm(section(t, "base_latency_us"));
  TomlTable hardware = section(t, "hardware_latency_us");
  c.hardware_latency_us[index_of(LinkClass::nvlink)] = per_algorithm(section(hardware, "nvlink"));
  c.hardware_latency_us[index_of(LinkClass::pci)] = per_algorithm(section(hardware, "pci"));
  c.hardware_latency_us[index_of(LinkClass::net)] = per_algorithm(section(hardware, "net"));
  hardware.finish();
  c.ll_max_gbps = per_generation(section(t, "ll_max_bandwidth_gbps"));
  c.ring_ll128_per_channel_gbps = per_generation(section(t, "ring_ll128_per_channel_gbps"));
  c.tree_ll128_per_channel_gbps = per_generation(section(t, "tree_ll128_per_channel_gbps"));
  c.tree_per_channel_gbps = per_generation(section(t, "tree_per_channel_gbps"));
  c.nvls_tree_per_channel_gbps = per_generation(section(t, "nvls_tree_per_channel_gbps"));
  TomlTable efficiency = section(t, "nvls_efficiency");
  for (int g = 0; g < 4; ++g) {
    c.nvls_efficiency[g] = efficiency.number(generations[g], {.min = 0, .max = 1});
  }
  efficiency.finish();
  TomlTable overhead = section(t, "network_overhead_us");
  c.network_overhead_us = overhead.number("default", {.min = 0});
  c.network_overhead_amd_us = overhead.number("amd", {.min = 0});
  overhead.finish();
  TomlTable correction = section(t, "tree_correction");
  for (int p = 0; p < protocol_count; ++p) {
    c.tree_correction[p] = correction.numbers(to_string(static_cast<NcclProtocol>(p)));
  }
  correction.finish();
  TomlTable rules = section(t, "rules");
  c.tree_correction_on_nvls_tree = rules.boolean_or("tree_correction_on_nvls_tree", false);
  c.ll128_mixed_hopper = rules.boolean_or("ll128_mixed_hopper", false);
  rules.finish();
  TomlTable speeds = section(t, "search_speeds_gbps");
  c.search_speeds_intra = {speeds.numbers("intra_volta"), speeds.numbers("intra_hopper"),
                           speeds.numbers("intra_blackwell")};
  c.search_speeds_inter = {speeds.numbers("inter_volta"), speeds.numbers("inter_hopper"),
                           speeds.numbers("inter_blackwell")};
  speeds.finish();
  t.finish();
  return c;
}

}  // namespace

Generation generation_of(int compute_capability) {
  if (compute_capability >= 100) return Generation::blackwell;
  if (compute_capability >= 90) return Generation::hopper;
  if (compute_capability >= 80) return Generation::ampere;
  return Generation::volta;
}

std::vector<std::string> known_versions() {
  std::vector<std::string> versions;
  for (const embedded::File& file : embedded::collectives()) {
    if (file.name.substr(0, file_prefix.size()) != file_prefix) continue;
    versions.emplace_back(file.name.substr(
        file_prefix.size(), file.name.size() - file_prefix.size() - file_suffix.size()));
  }
  return versions;
}

const Constants& constants(const std::string& version) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Constants>> read_before;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Constants>& slot = read_before[version];
  if (slot) return *slot;
  const std::string wanted = std::string(file_prefix) + version + std::string(file_suffix);
  for (const embedded::File& file : embedded::collectives()) {
    if (file.name != wanted) continue;
    slot = std::make_unique<Constants>(read(file.text, wanted));
    return *slot;
  }
  read_before.erase(version);
  throw not_accepted({"", 0, "nccl_version"}, version, known_versions());
}

}  // namespace stepcast::nccl

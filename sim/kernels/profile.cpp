#include "sim/kernels/profile.hpp"

#include <algorithm>

#include "base/embedded.hpp"
#include "base/error.hpp"
#include "base/toml.hpp"

namespace stepcast {

namespace {

constexpr std::string_view suffix = ".toml";

std::string stem(std::string_view file) {
  return std::string(file.substr(0, file.size() - suffix.size()));
}

// Tables and figures of GPUs lie in the same embedded set.
bool is_profile(std::string_view file) {
  return file.ends_with(suffix) && file != "gpu-families.toml" && file != "kernel-fits.toml";
}

Provenance parse_provenance(const Where& where, const std::string& text) {
  for (const Provenance p : {Provenance::measured, Provenance::modelled, Provenance::extrapolated,
                             Provenance::assumed}) {
    if (text == to_string(p)) return p;
  }
  throw not_accepted(where, text, {"measured", "modelled", "extrapolated", "assumed"});
}

}  // namespace

double SoftwareProfile::host_cost_us(Name work) const {
  const auto found = host_us.find(work);
  if (found != host_us.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [key, value] : host_us) known.push_back(key.str());
  std::sort(known.begin(), known.end());
  throw not_accepted({.file = "profile " + name, .line = 0, .key = "host_us"}, work.str(), known);
}

SoftwareProfile parse_profile(std::string_view text, const std::string& file) {
  TomlTable table = TomlTable::from_text(text, file);
  SoftwareProfile profile;
  profile.name = table.string("name");
  profile.description = table.string_or("description", "");
  profile.source = table.string_or("source", "");
  profile.provenance =
      parse_provenance(table.where("provenance"), table.string_or("provenance", "assumed"));
  profile.launch_us = table.number("launch_us", {.min = 0, .max = 1e6});
  profile.fused_elementwise = table.boolean_or("fused_elementwise", false);
  profile.fused_loss = table.boolean_or("fused_loss", false);
  profile.fused_optimizer = table.boolean_or("fused_optimizer", true);
  const std::string attention = table.string_or("attention_kernel", "flash2");
  if (attention != "flash2" && attention != "best") {
    throw not_accepted(table.where("attention_kernel"), attention, {"flash2", "best"});
  }
  profile.attention_kernel = attention == "best" ? AttentionKernel::best : AttentionKernel::flash2;
  profile.gemm_efficiency = table.number_or("gemm_efficiency", 1.0, {.min = 0.01, .max = 1});
  profile.attention_efficiency =
      table.number_or("attention_efficiency", 1.0, {.min = 0.01, .max = 1});
  profile.memory_efficiency = table.number_or("memory_efficiency", 1.0, {.min = 0.01, .max = 1});
  if (std::optional<TomlTable> host = table.table("host_us")) {
    for (const std::string& key : host->keys()) {
      profile.host_us[Name(key)] = host->number(key, {.min = 0, .max = 1e9});
    }
    host->finish();
  }
  table.finish();
  return profile;
}

std::vector<std::string> catalog_profiles() {
  std::vector<std::string> names;
  for (const embedded::File& file : embedded::kernels()) {
    if (is_profile(file.name)) names.push_back(stem(file.name));
  }
  return names;
}

SoftwareProfile load_profile(const std::string& name_or_path) {
  for (const embedded::File& file : embedded::kernels()) {
    if (is_profile(file.name) && stem(file.name) == name_or_path) {
      return parse_profile(file.text, std::string(file.name));
    }
  }
  const bool path = name_or_path.find('/') != std::string::npos ||
                    (name_or_path.size() > suffix.size() && name_or_path.ends_with(suffix));
  if (path) return parse_profile(read_file(name_or_path, 1 << 20), name_or_path);
  throw not_accepted({.file = "", .line = 0, .key = "profile"}, name_or_path, catalog_profiles());
}

}  // namespace stepcast

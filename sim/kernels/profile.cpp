#include "sim/kernels/profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/embedded.hpp"
#include "base/error.hpp"
#include "base/toml.hpp"
#include "sim/kernels/efficiency_limit.hpp"

namespace stepcast {

namespace {

constexpr std::string_view suffix = ".toml";
constexpr double most_jitter = 0.3;  // as --perturb all:jitter
constexpr double most_gpus = 1e9;

constexpr std::pair<const char*, double SoftwareProfile::*> rates[] = {
    {"gemm_efficiency", &SoftwareProfile::gemm_efficiency},
    {"attention_efficiency", &SoftwareProfile::attention_efficiency},
    {"memory_efficiency", &SoftwareProfile::memory_efficiency},
    {"head_efficiency", &SoftwareProfile::head_efficiency},
    {"optimizer_efficiency", &SoftwareProfile::optimizer_efficiency},
    {"collective_efficiency", &SoftwareProfile::collective_efficiency},
    {"overlap_interference", &SoftwareProfile::overlap_interference}};

// Interference is a multiple of a cost, not a rate.
double most_of(double SoftwareProfile::*rate) {
  return rate == &SoftwareProfile::overlap_interference ? 10 : most_efficiency;
}

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

// A catalog profile by name; those are based on nothing that is based on something else.
SoftwareProfile load_base(const std::string& name, const Where& where) {
  std::vector<std::string> known;
  for (const embedded::File& file : embedded::kernels()) {
    if (!is_profile(file.name)) continue;
    if (TomlTable::from_text(file.text, std::string(file.name)).has("based_on")) continue;
    if (stem(file.name) == name) return parse_profile(file.text, std::string(file.name));
    known.push_back(stem(file.name));
  }
  throw not_accepted(where, name, known);
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
  if (const std::optional<std::string> base = table.optional_string("based_on")) {
    profile = load_base(*base, table.where("based_on"));
    profile.based_on = *base;
  }
  profile.name = table.string("name");
  profile.description = table.string_or("description", "");
  profile.source = table.string_or("source", profile.source);
  profile.provenance =
      parse_provenance(table.where("provenance"), table.string_or("provenance", "assumed"));
  constexpr TomlTable::Bounds launch{.min = 0, .max = 1e6};
  profile.launch_us = table.has("based_on")
                          ? table.number_or("launch_us", profile.launch_us, launch)
                          : table.number("launch_us", launch);
  profile.fused_elementwise = table.boolean_or("fused_elementwise", profile.fused_elementwise);
  profile.fused_loss = table.boolean_or("fused_loss", profile.fused_loss);
  profile.fused_optimizer = table.boolean_or("fused_optimizer", profile.fused_optimizer);
  const std::string flash2 = profile.attention_kernel == AttentionKernel::best ? "best" : "flash2";
  const std::string attention = table.string_or("attention_kernel", flash2);
  if (attention != "flash2" && attention != "best") {
    throw not_accepted(table.where("attention_kernel"), attention, {"flash2", "best"});
  }
  profile.attention_kernel = attention == "best" ? AttentionKernel::best : AttentionKernel::flash2;
  for (const auto& [key, member] : rates) {
    profile.*member = table.number_or(key, profile.*member, {.min = 0.01, .max = most_of(member)});
  }
  profile.rank_jitter =
      table.number_or("rank_jitter", profile.rank_jitter, {.min = 0, .max = most_jitter});
  profile.residual = table.number_or("residual", profile.residual, {.min = 0, .max = 10});
  profile.fitted = table.strings("fitted");
  profile.fitted_on = table.strings("fitted_on");
  profile.fitted_gpus =
      static_cast<int>(table.integer_or("fitted_gpus", 0, {.min = 0, .max = most_gpus}));
  if (std::optional<TomlTable> host = table.table("host_us")) {
    for (const std::string& key : host->keys()) {
      profile.host_us[Name(key)] = host->number(key, {.min = 0, .max = 1e9});
    }
    host->finish();
  }
  table.finish();
  return profile;
}

std::string to_toml(const SoftwareProfile& p) {
  const SoftwareProfile base = p.based_on.empty() ? SoftwareProfile{} : load_base(p.based_on, {});
  std::string out = fmt::format("name = \"{}\"\n", p.name);
  if (!p.based_on.empty()) out += fmt::format("based_on = \"{}\"\n", p.based_on);
  out += fmt::format("description = \"{}\"\nsource = \"{}\"\nprovenance = \"{}\"\n\n",
                     p.description, p.source, to_string(p.provenance));
  const bool all = p.based_on.empty();
  const auto flag = [&](const char* key, bool value, bool was) {
    if (all || value != was) out += fmt::format("{} = {}\n", key, value);
  };
  flag("fused_elementwise", p.fused_elementwise, base.fused_elementwise);
  flag("fused_loss", p.fused_loss, base.fused_loss);
  flag("fused_optimizer", p.fused_optimizer, base.fused_optimizer);
  if (all || p.attention_kernel != base.attention_kernel) {
    out += fmt::format("attention_kernel = \"{}\"\n",
                       p.attention_kernel == AttentionKernel::best ? "best" : "flash2");
  }
  if (all || p.launch_us != base.launch_us) out += fmt::format("launch_us = {:.4g}\n", p.launch_us);
  for (const auto& [key, member] : rates) {
    if (p.*member != base.*member) out += fmt::format("{} = {:.4g}\n", key, p.*member);
  }
  if (p.rank_jitter != base.rank_jitter) {
    out += fmt::format("rank_jitter = {:.4g}\n", p.rank_jitter);
  }
  if (p.residual != base.residual) out += fmt::format("residual = {:.3g}\n", p.residual);
  if (!p.fitted.empty()) {
    out += fmt::format("fitted = [\"{}\"]\n", fmt::join(p.fitted, "\", \""));
  }
  if (!p.fitted_on.empty()) {
    out += fmt::format("fitted_on = [\"{}\"]\n", fmt::join(p.fitted_on, "\", \""));
  }
  if (p.fitted_gpus > 0) out += fmt::format("fitted_gpus = {}\n", p.fitted_gpus);
  std::map<std::string, double> host;  // in a fixed order
  for (const auto& [work, us] : p.host_us) {
    const auto was = base.host_us.find(work);
    if (was == base.host_us.end() || was->second != us) host[work.str()] = us;
  }
  if (!host.empty()) out += "\n[host_us]\n";
  for (const auto& [work, us] : host) out += fmt::format("{} = {:.4g}\n", work, us);
  return out;
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

#include "validate/published/fits.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/toml.hpp"
#include "sim/kernels/profile.hpp"

namespace stepcast {

namespace {

ProfileRest& rest_named(std::vector<ProfileRest>& rests, const std::string& profile) {
  for (ProfileRest& rest : rests) {
    if (rest.profile == profile) return rest;
  }
  rests.emplace_back().profile = profile;
  return rests.back();
}

}  // namespace

std::vector<ProfileRest> rests_of(const PublishedSource& source) {
  std::vector<ProfileRest> rests;
  for (const MeasuredRow& row : source.rows) {
    if (!row.left_out.empty()) continue;
    ProfileRest& rest = rest_named(rests, row.scenario.profile.value_or("pytorch-eager"));
    ++(row.split == Split::fit ? rest.fitted_rows : rest.checked_rows);
    const std::string machine = row.scenario.cluster.value_or("");
    if (std::find(rest.machines.begin(), rest.machines.end(), machine) == rest.machines.end()) {
      rest.machines.push_back(machine);
    }
  }
  TomlTable fits = TomlTable::from_text(published_text("fits.toml"), "fits.toml");
  for (ProfileRest& rest : rests) {
    if (auto fit = fits.table(rest.profile)) rest.factors = fit->strings("factors");
    rest.determined = load_profile(rest.profile).fitted;
  }
  return rests;
}

std::string words(const ProfileRest& rest) {
  if (rest.factors.empty()) {
    return fmt::format("{}: nothing fitted; {} rows checked", rest.profile, rest.checked_rows);
  }
  return fmt::format("{}: {} factors on {} rows, {} determined; {} rows checked", rest.profile,
                     rest.factors.size(), rest.fitted_rows, rest.determined.size(),
                     rest.checked_rows);
}

}  // namespace stepcast

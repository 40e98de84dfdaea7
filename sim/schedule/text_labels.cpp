#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/schedule/text_parts.hpp"

namespace stepcast::text {

void Labels::add(const Line& line, const std::string& label) {
  if (!index_.emplace(label, names_.size()).second) {
    line.fail(what_, fmt::format("'{}' is declared twice; accepted: one {} of a name",
                                 label.substr(0, 80), what_));
  }
  names_.push_back(label);
}

std::int64_t Labels::find(const std::string& label) const {
  const auto found = index_.find(label);
  return found == index_.end() ? -1 : static_cast<std::int64_t>(found->second);
}

std::int64_t Labels::at(const Line& line, std::string_view key, const std::string& label) const {
  const std::int64_t index = find(label);
  if (index >= 0) return index;
  // Names of a hostile file may be long and many; a suggestion is not worth minutes.
  constexpr std::size_t longest = 100;
  constexpr std::size_t most_compared = 4096;
  std::string near;
  if (label.size() <= longest) {
    std::vector<std::string> candidates;
    for (const std::string& name : names_) {
      if (name.size() <= longest && candidates.size() < most_compared) candidates.push_back(name);
    }
    near = nearest(label, candidates);
  }
  std::string message = fmt::format("{} '{}' is not declared", what_, label.substr(0, 80));
  if (!near.empty()) message += fmt::format(" (did you mean '{}'?)", near);
  constexpr std::size_t most_listed = 12;
  message += "; accepted: ";
  for (std::size_t i = 0; i < std::min(most_listed, names_.size()); ++i) {
    message += (i > 0 ? ", " : "") + names_[i].substr(0, longest);
  }
  if (names_.empty()) message += fmt::format("a {} declared above", what_);
  if (names_.size() > most_listed) {
    message += fmt::format(" and {} more", names_.size() - most_listed);
  }
  line.fail(key, message);
}

void Labels::clear() {
  names_.clear();
  index_.clear();
}

void KeysOnce::take(const std::string& key) {
  if (std::find(seen_.begin(), seen_.end(), key) != seen_.end()) {
    line_.fail(key, "given twice; accepted: once a line");
  }
  seen_.push_back(key);
}

std::string next_key(Line& line, KeysOnce& once, const std::vector<std::string>& accepted) {
  bool is_key = false;
  std::string key = line.key_or_flag(is_key);
  if (!is_key || std::find(accepted.begin(), accepted.end(), key) == accepted.end()) {
    std::vector<std::string> keys;
    keys.reserve(accepted.size());
    for (const std::string& name : accepted) keys.push_back(name + "=");
    throw not_accepted(line.where(), is_key ? key + "=" : key, keys);
  }
  once.take(key);
  return key;
}

void Draft::add_unit(const Line& line, const std::string& label) {
  units.add(line, label);
  schedule.units.emplace_back(label);
}

UnitIndex Draft::unit_at(const Line& line, const std::string& label) {
  if (schedule.units.empty()) units_implied = true;
  if (units_implied && units.find(label) < 0) add_unit(line, label);
  return static_cast<UnitIndex>(units.at(line, "unit", label));
}

}  // namespace stepcast::text

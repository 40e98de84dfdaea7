#include "sim/forecast/scenario_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <type_traits>
#include <unordered_map>

#include "base/error.hpp"
#include "base/number_text.hpp"
#include "base/whole.hpp"

namespace stepcast {

namespace {

InputError refused(const Where& where, const std::string& text, const char* accepted) {
  return {where, "'" + text.substr(0, 80) + "' is not accepted; accepted: " + accepted};
}

template <typename Number>
Number parse_number(const Where& where, const std::string& text, const char* accepted) {
  Number value{};
  const char* end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc{} || result.ptr != end) throw refused(where, text, accepted);
  return value;
}

// 16, or 5e8 as DeepSpeed's files have it.
std::int64_t parse_integer(const Where& where, const std::string& text, const char* accepted) {
  if (text.find_first_of(".eE") == std::string::npos) {
    return parse_number<std::int64_t>(where, text, accepted);
  }
  const auto whole = exact_integer(parse_number<double>(where, text, accepted));
  if (!whole) throw refused(where, text, accepted);
  return *whole;
}

// A list is written with commas, or a flag is said several times (joined by line ends).
std::vector<std::string> parts_of(const Where& where, const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',' || c == '\n') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  for (const std::string& part : parts) {
    if (part.empty()) throw refused(where, text, "values with commas between them");
  }
  return parts;
}

void parse(const Where&, const std::string& text, std::optional<std::string>& field) {
  field = text;
}
void parse(const Where& where, const std::string& text, std::optional<double>& field) {
  field = parse_number<double>(where, text, "a number");
}
void parse(const Where& where, const std::string& text, std::optional<std::int64_t>& field) {
  field = parse_integer(where, text, "a whole number, also as 5e8, up to 2^53");
}
void parse(const Where& where, const std::string& text, std::optional<bool>& field) {
  if (text == "true" || text == "on" || text == "1") {
    field = true;
  } else if (text == "false" || text == "off" || text == "0") {
    field = false;
  } else {
    throw not_accepted(where, text, {"true", "false"});
  }
}
void parse(const Where& where, const std::string& text,
           std::optional<std::vector<std::string>>& field) {
  field = parts_of(where, text);
}
void parse(const Where& where, const std::string& text, std::optional<std::vector<double>>& field) {
  field.emplace();
  for (const std::string& part : parts_of(where, text)) {
    field->push_back(parse_number<double>(where, part, "numbers with commas between them"));
  }
}
void parse(const Where& where, const std::string& text, std::optional<YesNoOrCount>& field) {
  if (text == "true" || text == "on" || text == "false" || text == "off") {
    field = YesNoOrCount{text == "true" || text == "on", 0};
    return;
  }
  const std::int64_t count = parse_integer(where, text, "true, false, or a whole number");
  if (count < 1 || count > 10'000'000) {
    throw InputError(where, text + " is not accepted; accepted: true, false, or 1 to 1e7");
  }
  field = YesNoOrCount{true, count};
}

std::string written(const std::string& value) { return value; }
std::string written(double value) { return fmt::format("{}", value); }
std::string written(std::int64_t value) { return fmt::format("{}", value); }
std::string written(bool value) { return value ? "true" : "false"; }
std::string written(const YesNoOrCount& value) {
  return value.yes && value.count > 0 ? written(value.count) : written(value.yes);
}
template <typename Value>
std::string written(const std::vector<Value>& values) {
  std::string text;
  for (const Value& value : values) text += (text.empty() ? "" : ",") + written(value);
  return text;
}

void check_value(const KeyInfo& key, const Where& where, const std::string& value) {
  const auto& accepted = key.accepted;
  if (accepted.empty() || std::find(accepted.begin(), accepted.end(), value) != accepted.end()) {
    return;
  }
  throw not_accepted(where, value, accepted);
}
void check_value(const KeyInfo& key, const Where& where, double value) {
  if (value >= key.min && value <= key.max) return;
  throw InputError(where, fmt::format("{} is not accepted; accepted: {} to {}", number_text(value),
                                      number_text(key.min), number_text(key.max)));
}
void check_value(const KeyInfo& key, const Where& where, std::int64_t value) {
  check_value(key, where, static_cast<double>(value));
}
void check_value(const KeyInfo& key, const Where& where, const std::vector<double>& values) {
  for (const double value : values) check_value(key, where, value);
}
void check_value(const KeyInfo&, const Where&, bool) {}
void check_value(const KeyInfo&, const Where&, const YesNoOrCount&) {}
void check_value(const KeyInfo&, const Where&, const std::vector<std::string>&) {}

// A TOML basic string.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string toml(const std::string& value) { return quoted(value); }
std::string toml(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ", ") + quoted(value);
  return "[" + text + "]";
}
std::string toml(const std::vector<double>& values) { return "[" + written(values) + "]"; }
template <typename Value>
std::string toml(const Value& value) {
  return written(value);
}

template <typename Field>
KeyType type_of() {
  using Value = typename Field::value_type;
  if constexpr (std::is_same_v<Value, std::string>) return KeyType::word;
  if constexpr (std::is_same_v<Value, double>) return KeyType::number;
  if constexpr (std::is_same_v<Value, std::int64_t>) return KeyType::whole;
  if constexpr (std::is_same_v<Value, bool>) return KeyType::yes_no;
  if constexpr (std::is_same_v<Value, std::vector<std::string>>) return KeyType::words;
  if constexpr (std::is_same_v<Value, std::vector<double>>) return KeyType::numbers;
  if constexpr (std::is_same_v<Value, YesNoOrCount>) return KeyType::yes_no_or_count;
}

// A field stands at the same place in every Scenario.
template <typename Field>
Field& field_at(Scenario& scenario, std::ptrdiff_t offset) {
  return *reinterpret_cast<Field*>(reinterpret_cast<char*>(&scenario) + offset);
}
template <typename Field>
const Field& field_at(const Scenario& scenario, std::ptrdiff_t offset) {
  return *reinterpret_cast<const Field*>(reinterpret_cast<const char*>(&scenario) + offset);
}

}  // namespace

// What a key does, by the type of its field.
struct ScenarioKey::Actions {
  void (*set)(Scenario&, std::ptrdiff_t, const Where&, const std::string&);
  bool (*is_set)(const Scenario&, std::ptrdiff_t);
  void (*reset)(Scenario&, std::ptrdiff_t);
  void (*copy)(const Scenario&, Scenario&, std::ptrdiff_t);
  void (*check)(const Scenario&, std::ptrdiff_t, const KeyInfo&, const Where&);
  std::string (*text)(const Scenario&, std::ptrdiff_t);
  std::string (*toml)(const Scenario&, std::ptrdiff_t);
  std::optional<double> (*number)(const Scenario&, std::ptrdiff_t);
};

template <typename Field>
const ScenarioKey::Actions& ScenarioKey::actions_of() {
  static const Actions actions{
      [](Scenario& s, std::ptrdiff_t at, const Where& where, const std::string& text) {
        parse(where, text, field_at<Field>(s, at));
      },
      [](const Scenario& s, std::ptrdiff_t at) { return field_at<Field>(s, at).has_value(); },
      [](Scenario& s, std::ptrdiff_t at) { field_at<Field>(s, at).reset(); },
      [](const Scenario& from, Scenario& to, std::ptrdiff_t at) {
        field_at<Field>(to, at) = field_at<Field>(from, at);
      },
      [](const Scenario& s, std::ptrdiff_t at, const KeyInfo& info, const Where& where) {
        const Field& field = field_at<Field>(s, at);
        if (field) check_value(info, where, *field);
      },
      [](const Scenario& s, std::ptrdiff_t at) {
        const Field& field = field_at<Field>(s, at);
        return field ? written(*field) : std::string();
      },
      [](const Scenario& s, std::ptrdiff_t at) { return stepcast::toml(*field_at<Field>(s, at)); },
      [](const Scenario& s, std::ptrdiff_t at) -> std::optional<double> {
        const Field& field = field_at<Field>(s, at);
        using Value = typename Field::value_type;
        if constexpr (std::is_same_v<Value, double> || std::is_same_v<Value, std::int64_t>) {
          if (field) return static_cast<double>(*field);
        }
        return std::nullopt;
      }};
  return actions;
}

template <typename Field>
ScenarioKey::ScenarioKey(KeyInfo info, std::ptrdiff_t offset, const Field&)
    : info_(std::move(info)),
      offset_(offset),
      type_(type_of<Field>()),
      actions_(&actions_of<Field>()) {}

void ScenarioKey::set(Scenario& scenario, const std::string& text, const Where& where) const {
  actions_->set(scenario, offset_, where, text);
  scenario.said[info_.name] = where;
}

void ScenarioKey::check(const Scenario& scenario) const {
  actions_->check(scenario, offset_, info_, scenario.where(info_.name));
}

bool ScenarioKey::is_set(const Scenario& scenario) const {
  return actions_->is_set(scenario, offset_);
}

void ScenarioKey::reset(Scenario& scenario) const {
  actions_->reset(scenario, offset_);
  scenario.said.erase(info_.name);
}

void ScenarioKey::copy(const Scenario& from, Scenario& to) const {
  actions_->copy(from, to, offset_);
  const auto said = from.said.find(info_.name);
  if (said != from.said.end()) {
    to.said[info_.name] = said->second;
  } else {
    to.said.erase(info_.name);
  }
}

std::string ScenarioKey::text(const Scenario& scenario) const {
  return actions_->text(scenario, offset_);
}

std::string ScenarioKey::toml(const Scenario& scenario) const {
  return actions_->toml(scenario, offset_);
}

std::optional<double> ScenarioKey::number(const Scenario& scenario) const {
  return actions_->number(scenario, offset_);
}

const std::vector<ScenarioKey>& scenario_keys() {
  static const std::vector<ScenarioKey> keys = [] {
    std::vector<ScenarioKey> list;
    const Scenario shape;
    visit_scenario(shape, [&](const KeyInfo& info, const auto& field) {
      const auto offset =
          reinterpret_cast<const char*>(&field) - reinterpret_cast<const char*>(&shape);
      list.emplace_back(info, offset, field);
    });
    return list;
  }();
  return keys;
}

const ScenarioKey& scenario_key(const std::string& name, const Where& where) {
  static const std::unordered_map<std::string, const ScenarioKey*> by_name = [] {
    std::unordered_map<std::string, const ScenarioKey*> map;
    for (const ScenarioKey& key : scenario_keys()) map.emplace(key.name(), &key);
    return map;
  }();
  const auto found = by_name.find(name);
  if (found != by_name.end()) return *found->second;
  std::vector<std::string> names;
  for (const ScenarioKey& key : scenario_keys()) names.push_back(key.name());
  const std::string near = nearest(name, names);
  throw InputError(where, fmt::format("'{}' is no key of a scenario{}; accepted: the flags of "
                                      "`stepcast simulate --help`, with _ for -",
                                      name.substr(0, 80),
                                      near.empty() ? "" : " (did you mean '" + near + "'?)"));
}

std::string to_toml(const Scenario& scenario) {
  std::string text;
  for (const ScenarioKey& key : scenario_keys()) {
    if (key.is_set(scenario)) text += key.name() + " = " + key.toml(scenario) + "\n";
  }
  return text;
}

}  // namespace stepcast

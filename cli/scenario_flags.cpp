#include "cli/scenario_flags.hpp"

#include <algorithm>
#include <charconv>
#include <type_traits>

#include "base/error.hpp"
#include "base/whole.hpp"

namespace stepcast::cli {

namespace {

template <typename Number>
Number parse_number(const Where& where, const std::string& text, const char* accepted) {
  Number value{};
  const char* end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc{} || result.ptr != end) {
    throw InputError(where, "'" + text.substr(0, 80) + "' is not accepted; accepted: " + accepted);
  }
  return value;
}

// 16, or 5e8 as DeepSpeed's files have it.
std::int64_t parse_integer(const Where& where, const std::string& text, const char* accepted) {
  if (text.find_first_of(".eE") == std::string::npos) {
    return parse_number<std::int64_t>(where, text, accepted);
  }
  const auto whole = exact_integer(parse_number<double>(where, text, accepted));
  if (!whole) {
    throw InputError(where, "'" + text.substr(0, 80) + "' is not accepted; accepted: " + accepted);
  }
  return *whole;
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

// A list is written with commas, or the flag is said several times (joined by line ends).
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
    if (part.empty()) {
      throw InputError(where, "'" + text.substr(0, 80) +
                                  "' is not accepted; accepted: values with commas between them");
    }
  }
  return parts;
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

template <typename Field>
const char* type_name(const KeyInfo& key, const Field&) {
  if (!key.accepted.empty()) return "NAME";
  if (std::is_same_v<Field, std::optional<std::string>>) return "NAME";
  if (std::is_same_v<Field, std::optional<bool>>) return "BOOL";
  if (std::is_same_v<Field, std::optional<std::vector<std::string>>>) return "NAME,...";
  if (std::is_same_v<Field, std::optional<std::vector<double>>>) return "N,...";
  if (std::is_same_v<Field, std::optional<YesNoOrCount>>) return "BOOL|N";
  return "N";
}

}  // namespace

const std::vector<std::string>& collective_keys() {
  static const std::vector<std::string> keys{"cluster",
                                             "gpus_per_node",
                                             "fabric",
                                             "leaf_ports",
                                             "network",
                                             "oversubscription",
                                             "nic_gbps",
                                             "gpudirect_rdma",
                                             "nccl_version",
                                             "nccl",
                                             "collective_corrections",
                                             "measured_collectives",
                                             "calibration"};
  return keys;
}

ScenarioFlags::ScenarioFlags(CLI::App& command, const std::vector<std::string>& only) {
  Scenario shape;
  visit_scenario(shape, [&](const KeyInfo& key, auto& field) {
    if (!only.empty() && std::find(only.begin(), only.end(), key.name) == only.end()) return;
    using Field = std::remove_reference_t<decltype(field)>;
    std::string help = key.help;
    for (std::size_t i = 0; i < key.accepted.size(); ++i) {
      help += (i == 0 ? ": " : ", ") + key.accepted[i];
    }
    CLI::Option* option = command.add_option(flag_of(key.name), texts_[key.name], help);
    option->group(key.group)->option_text(type_name(key, field));
    // The last one wins, except where several add up: lists, and NCCL's variables, a line each.
    const bool adds_up = std::is_same_v<Field, std::optional<std::vector<std::string>>> ||
                         key.name == std::string("nccl");
    option->multi_option_policy(adds_up ? CLI::MultiOptionPolicy::Join
                                        : CLI::MultiOptionPolicy::TakeLast);
    if (std::is_same_v<Field, std::optional<bool>>) option->expected(0, 1)->default_str("true");
    options_[key.name] = option;
  });
}

Scenario ScenarioFlags::read() const {
  Scenario scenario;
  visit_scenario(scenario, [&](const KeyInfo& key, auto& field) {
    const auto known = options_.find(key.name);
    if (known == options_.end()) return;
    const CLI::Option& option = *known->second;
    if (option.count() == 0) return;
    const Where where{.file = flag_of(key.name), .line = 0, .key = ""};
    std::string text = texts_.at(key.name);
    if (text.empty()) {
      using Field = std::remove_reference_t<decltype(field)>;
      if (!std::is_same_v<Field, std::optional<bool>>) {
        throw InputError(where, "'' is not accepted; accepted: a value");
      }
      text = "true";  // a switch without a value
    }
    parse(where, text, field);
    scenario.said[key.name] = where;
  });
  check_ranges(scenario);
  return scenario;
}

Scenario ScenarioFlags::read(const std::string& file) const {
  const Scenario flags = read();
  return file.empty() ? flags : merged(read_scenario(file), flags);
}

}  // namespace stepcast::cli

#include "sim/jobs/scenario_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace stepcast::jobs {

namespace {

// A basic string of TOML: whatever was typed stays inside its quotes.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < ' ' || byte == 127) {
      out += fmt::format("\\u{:04X}", byte);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string literal(const std::string& value) { return quoted(value); }
std::string literal(bool value) { return value ? "true" : "false"; }
std::string literal(std::int64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t at = digits.size(); value >= 10'000 && at > 3;) {
    at -= 3;
    digits.insert(at, "_");
  }
  return digits;
}
std::string literal(double value) {
  if (std::trunc(value) == value && std::fabs(value) < 1e15) {
    return literal(static_cast<std::int64_t>(value));
  }
  return fmt::format("{}", value);
}
std::string literal(const YesNoOrCount& value) {
  return value.count > 0 ? literal(value.count) : literal(value.yes);
}
template <typename T>
std::string literal(const std::vector<T>& values) {
  std::string out;
  for (const T& value : values) out += (out.empty() ? "" : ", ") + literal(value);
  return "[" + out + "]";
}

// One line, whatever the source held.
std::string comment(const std::string& text) {
  std::string out = "# ";
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const std::size_t length = utf8_length(text, at);
    if (length == 0) out += '?';  // a character that was cut in a long value
    if (length > 0) out += byte < ' ' || byte == 127 ? std::string(" ") : text.substr(at, length);
    at += std::max<std::size_t>(length, 1);
  }
  return out;
}

// The folder stands in the notes at the head.
std::string base_name(const std::string& file) {
  return file.substr(file.rfind('/') == std::string::npos ? 0 : file.rfind('/') + 1);
}

std::string words(const Source& source) {
  switch (source.origin) {
    case Origin::standard: return "not in the file: " + source.text;
    case Origin::derived: return "worked out: " + source.text;
    case Origin::flag: return "said: " + source.text;
    case Origin::file:
      if (source.where.line == 0) return source.text;
      return fmt::format("{}:{}: {}", base_name(source.where.file), source.where.line, source.text);
  }
  return "";
}

}  // namespace

std::string scenario_text(const Combined& combined) {
  constexpr int column = 48;
  std::string out;
  for (const std::string& note : combined.notes) out += comment(note) + "\n";
  std::string_view group;
  visit_scenario(combined.scenario, [&](const KeyInfo& key, const auto& field) {
    const auto begin = [&] {
      if (group == key.group) return;
      group = key.group;
      out += fmt::format("\n{}\n", comment(key.group));
    };
    for (const Asked& asked : combined.asked) {
      if (asked.key != key.name || field) continue;
      begin();
      const std::string at = asked.where.line > 0
                                 ? fmt::format("{}:{}: {}: ", base_name(asked.where.file),
                                               asked.where.line, asked.where.key)
                                 : "";
      out +=
          fmt::format("{:<{}} {}\n", fmt::format("# {} =", key.name), column,
                      comment((asked.required ? "to be said: " : "open: ") + at + asked.sentence));
    }
    if (!field) return;
    begin();
    const auto source = combined.sources.find(key.name);
    const std::string line = fmt::format("{} = {}", key.name, literal(*field));
    out += source == combined.sources.end()
               ? line + "\n"
               : fmt::format("{:<{}} {}\n", line, column, comment(words(source->second)));
  });
  if (!combined.irrelevant.empty()) {
    out += "\n# Without effect on a step as it is forecast:\n";
    std::string line = "#  ";
    for (const std::string& key : combined.irrelevant) {
      const std::string word = " " + key.substr(key.find(": ") + 2);
      if (line.size() + word.size() > 98) {
        out += comment(line.substr(2)) + "\n";
        line = "#  ";
      }
      line += word;
    }
    out += comment(line.substr(2)) + "\n";
  }
  return out;
}

}  // namespace stepcast::jobs

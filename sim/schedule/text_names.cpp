#include "sim/schedule/text_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>

namespace stepcast::text {

bool is_bare_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == ':' || c == '/' || c == '*' || c == '~' || c == '#' || c == '-';
}

std::string spelled(std::string_view word) {
  bool bare = !word.empty() && word.front() != '#' && word != "-";
  for (const char c : word) bare = bare && is_bare_character(c);
  if (bare) return std::string(word);
  std::string quoted = "\"";
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      quoted += fmt::format("\\x{:02x}", byte);
    } else {
      quoted += c;  // UTF-8 passes as it is
    }
  }
  quoted += '"';
  return quoted;
}

std::string spelled_bytes(Bytes bytes) {
  if (bytes != 0 && bytes % gib == 0) return fmt::format("{}GiB", bytes / gib);
  if (bytes != 0 && bytes % mib == 0) return fmt::format("{}MiB", bytes / mib);
  if (bytes != 0 && bytes % kib == 0) return fmt::format("{}KiB", bytes / kib);
  return fmt::format("{}B", bytes);
}

std::vector<std::string> unique_labels(const std::vector<Name>& names) {
  std::unordered_set<std::string> used;
  std::unordered_map<Name, int> next;
  std::vector<std::string> labels;
  labels.reserve(names.size());
  for (const Name name : names) {
    std::string label = name.str();
    int& count = next[name];
    if (count == 0) count = 1;
    while (!used.insert(label).second) label = fmt::format("{}#{}", name.str(), ++count);
    labels.push_back(std::move(label));
  }
  return labels;
}

namespace {

// Takes MARK and the digits after it from the end of `text`; none where it does not end so.
std::optional<std::int64_t> take_suffix(std::string_view& text, std::string_view mark) {
  std::size_t digits = text.size();
  while (digits > 0 && text[digits - 1] >= '0' && text[digits - 1] <= '9') --digits;
  const std::size_t count = text.size() - digits;
  if (count == 0 || count > 9 || digits < mark.size()) return std::nullopt;
  if (text.substr(digits - mark.size(), mark.size()) != mark) return std::nullopt;
  std::int64_t value = 0;
  for (const char c : text.substr(digits)) value = value * 10 + (c - '0');
  text.remove_suffix(count + mark.size());
  return value;
}

std::optional<Phase> phase_of(std::string_view word) {
  for (int i = 0; i <= static_cast<int>(Phase::optimizer); ++i) {
    if (word == stepcast::to_string(static_cast<Phase>(i))) return static_cast<Phase>(i);
  }
  return std::nullopt;
}

}  // namespace

OpLabel split_op_label(std::string_view label) {
  OpLabel split;
  const std::size_t dot = label.find('.');
  if (dot == std::string_view::npos) return split;
  split.phase = phase_of(label.substr(0, dot));
  std::string_view rest = label.substr(dot + 1);
  take_suffix(rest, "#");
  split.micro_batch = take_suffix(rest, ".m").value_or(0);
  const std::size_t second = rest.find('.');
  split.verb = std::string(rest.substr(0, second));
  if (second != std::string_view::npos) split.unit = std::string(rest.substr(second + 1));
  return split;
}

std::string_view to_string(KernelKind kind) {
  switch (kind) {
    case KernelKind::gemm: return "gemm";
    case KernelKind::attention_forward: return "attention_forward";
    case KernelKind::attention_backward: return "attention_backward";
    case KernelKind::convolution: return "convolution";
    case KernelKind::memory: return "memory";
  }
  return "";
}

int usual_launches(const Schedule& schedule, const Op& op) {
  if (op.kind == OpKind::collective || op.kind == OpKind::copy) return 1;
  if (op.kind != OpKind::compute) return 0;
  std::int64_t launches = 0;
  for (const Kernel& kernel : schedule.at_kernels(op.kernels)) launches += kernel.launches;
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  return static_cast<int>(std::clamp<std::int64_t>(launches, 0, most));
}

}  // namespace stepcast::text

#include "models/modules.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "base/error.hpp"

namespace stepcast {
namespace {

constexpr std::size_t part_count = static_cast<std::size_t>(Part::count);

constexpr std::array<std::string_view, part_count> part_names{"norm1",
                                                              "norm2",
                                                              "post1",
                                                              "post2",
                                                              "cross_norm",
                                                              "q",
                                                              "k",
                                                              "v",
                                                              "qkv",
                                                              "o",
                                                              "q_norm",
                                                              "k_norm",
                                                              "q_a",
                                                              "q_a_norm",
                                                              "q_b",
                                                              "kv_a",
                                                              "kv_a_norm",
                                                              "kv_b",
                                                              "cross_q",
                                                              "cross_k",
                                                              "cross_v",
                                                              "cross_o",
                                                              "gate",
                                                              "up",
                                                              "gate_up",
                                                              "down",
                                                              "router",
                                                              "expert_gate",
                                                              "expert_up",
                                                              "expert_down",
                                                              "experts_gate_up",
                                                              "experts_down",
                                                              "experts_gate_up_bias",
                                                              "experts_down_bias",
                                                              "shared_gate",
                                                              "shared_up",
                                                              "shared_down",
                                                              "shared_switch",
                                                              "linear",
                                                              "tensor",
                                                              "norm",
                                                              "tokens",
                                                              "positions",
                                                              "types",
                                                              "project_in",
                                                              "project_out",
                                                              "head"};

std::optional<Part> part_of(std::string_view name) {
  for (std::size_t i = 0; i < part_count; ++i) {
    if (part_names[i] == name) return static_cast<Part>(i);
  }
  return std::nullopt;
}

// "8x4x1"; false where that is no shape.
bool parse_shape(std::string_view text, std::vector<std::int64_t>& shape) {
  constexpr std::int64_t most = 1ll << 40;
  while (true) {
    std::int64_t size = 0;
    const char* end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, size);
    if (result.ec != std::errc() || size < 1 || size > most || shape.size() >= 4) return false;
    shape.push_back(size);
    if (result.ptr == end) return true;
    if (*result.ptr != 'x') return false;
    text.remove_prefix(static_cast<std::size_t>(result.ptr - text.data()) + 1);
  }
}

std::string accepted_parts() {
  std::string text;
  for (const std::string_view name : part_names) {
    text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text;
}

std::optional<ModuleProblem> parse_module(std::string_view word, Module& module) {
  const auto problem = [&](std::string message) {
    return ModuleProblem{std::string(word.substr(0, 80)), std::move(message)};
  };
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return problem("is no module; accepted: NAME=PART");
  }
  module.name = word.substr(0, equals);
  std::string_view rest = word.substr(equals + 1);
  for (std::size_t plus = rest.rfind('+'); plus != std::string_view::npos; plus = rest.rfind('+')) {
    const std::string_view flag = rest.substr(plus + 1);
    if (flag == "bias") {
      module.bias = true;
    } else if (flag == "wide") {
      module.wide = true;
    } else if (flag == "bare") {
      module.bare = true;
    } else {
      return problem(fmt::format("'+{}' is not known; accepted: +bias, +wide, +bare", flag));
    }
    rest = rest.substr(0, plus);
  }
  const std::size_t colon = rest.find(':');
  const auto part = part_of(rest.substr(0, colon));
  if (!part) {
    return problem(
        fmt::format("'{}' is no part; accepted: {}", rest.substr(0, colon), accepted_parts()));
  }
  module.part = *part;
  const bool free = *part == Part::linear || *part == Part::tensor || *part == Part::norm;
  if (free != (colon != std::string_view::npos)) {
    return problem(free ? "needs its shape; accepted: linear:OUTxIN, tensor:AxB, norm:WIDTH"
                        : "has the shape that its block gives it; accepted: no ':'");
  }
  if (free && !parse_shape(rest.substr(colon + 1), module.shape)) {
    return problem(fmt::format("'{}' is no shape; accepted: up to 4 sizes of 1 or more, 8x4",
                               rest.substr(colon + 1)));
  }
  if (*part == Part::linear && module.shape.size() != 2) {
    return problem("a linear has two sizes; accepted: linear:OUTxIN");
  }
  if (*part == Part::norm && module.shape.size() != 1) {
    return problem("a norm has one size; accepted: norm:WIDTH");
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(Part part) { return part_names[static_cast<std::size_t>(part)]; }

std::optional<ModuleProblem> parse_modules(std::string_view text, std::vector<Module>& modules) {
  constexpr std::string_view spaces = " \t\r\n";
  while (true) {
    const std::size_t begin = text.find_first_not_of(spaces);
    if (begin == std::string_view::npos) return std::nullopt;
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find_first_of(spaces));
    if (auto problem = parse_module(word, modules.emplace_back())) return problem;
    text.remove_prefix(word.size());
    if (modules.size() > 256) {
      return ModuleProblem{std::string(word), "is one too many; accepted: 256 modules a layer"};
    }
  }
}

std::vector<Module> modules_of(std::string_view text) {
  std::vector<Module> modules;
  const auto problem = parse_modules(text, modules);
  STEPCAST_ASSERT(!problem, "a list of modules of our own that is wrong");
  return modules;
}

std::string to_text(const std::vector<Module>& modules) {
  std::string text;
  for (const Module& m : modules) {
    if (!text.empty()) text += ' ';
    text += m.name + "=" + std::string(to_string(m.part));
    for (std::size_t i = 0; i < m.shape.size(); ++i) {
      text += (i == 0 ? ":" : "x") + std::to_string(m.shape[i]);
    }
    if (m.bias) text += "+bias";
    if (m.wide) text += "+wide";
    if (m.bare) text += "+bare";
  }
  return text;
}

}  // namespace stepcast

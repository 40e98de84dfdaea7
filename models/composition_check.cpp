// What makes a model of a composition: sizes within their limits, parts that go together, and the
// sizes of the whole that follow from its blocks.
//
// Tested by tests/unit/models/composition_test.cpp.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "models/composition.hpp"

namespace stepcast {
namespace {

std::optional<SizeProblem> outside(std::string_view field, std::int64_t value, std::int64_t min,
                                   std::int64_t max, const std::string& what) {
  if (value >= min && value <= max) return std::nullopt;
  return SizeProblem{
      field, fmt::format("{} of {} is out of range; accepted: {} to {}", value, what, min, max)};
}

std::optional<SizeProblem> attention_outside(const BlockKind& k) {
  using Limits = SizeLimits;
  if (auto p = outside("heads", k.heads, 1, Limits::heads, k.name)) return p;
  if (auto p = outside("kv_heads", k.kv_heads, 1, k.heads, k.name)) return p;
  if (k.heads % k.kv_heads != 0) {
    return SizeProblem{"kv_heads", fmt::format("{} does not divide the {} heads of {}; accepted: a "
                                               "divisor of {}",
                                               k.kv_heads, k.heads, k.name, k.heads)};
  }
  if (auto p = outside("head_size", k.head_size, 1, Limits::head_size, k.name)) return p;
  if (auto p = outside("value_size", k.value_size, 1, Limits::head_size, k.name)) return p;
  if (auto p = outside("rotary", k.rotary, 0, k.head_size, k.name)) return p;
  if (auto p = outside("window", k.window, 0, Limits::max_positions, k.name)) return p;
  if (auto p = outside("chunk", k.chunk, 0, Limits::max_positions, k.name)) return p;
  if (auto p = outside("memory", k.memory, 0, Limits::max_positions, k.name)) return p;
  if (!has_part(k.modules, Part::o)) {
    return SizeProblem{"modules",
                       fmt::format("of {} have queries and no o, the output projection", k.name)};
  }
  if (has_part(k.modules, Part::kv_a) != has_part(k.modules, Part::kv_b)) {
    return SizeProblem{"modules",
                       fmt::format("of {} have one of kv_a and kv_b; accepted: both", k.name)};
  }
  if (has_part(k.modules, Part::kv_a)) {
    if (auto p = outside("kv_rank", k.kv_rank, 1, Limits::hidden, k.name)) return p;
    if (auto p = outside("rope_size", k.rope_size, 1, k.head_size - 1, k.name)) return p;
    if (has_part(k.modules, Part::q_a) != has_part(k.modules, Part::q_b)) {
      return SizeProblem{"modules",
                         fmt::format("of {} have one of q_a and q_b; accepted: both", k.name)};
    }
    if (has_part(k.modules, Part::q_a))
      return outside("q_rank", k.q_rank, 1, Limits::hidden, k.name);
    return std::nullopt;
  }
  const bool apart =
      has_part(k.modules, Part::q) && has_part(k.modules, Part::k) && has_part(k.modules, Part::v);
  if (apart == has_part(k.modules, Part::qkv)) {
    return SizeProblem{"modules", fmt::format("of {} are not queries, keys and values; accepted: "
                                              "q, k and v, or qkv, or kv_a and kv_b",
                                              k.name)};
  }
  return std::nullopt;
}

std::optional<SizeProblem> mlp_outside(const BlockKind& k) {
  using Limits = SizeLimits;
  if (has_part(k.modules, Part::down)) {
    if (auto p = outside("ffn", k.ffn, 1, Limits::ffn_hidden, k.name)) return p;
    if (has_part(k.modules, Part::up) == has_part(k.modules, Part::gate_up)) {
      return SizeProblem{"modules",
                         fmt::format("of {} have down and not one of up and gate_up", k.name)};
    }
  }
  const bool each = has_part(k.modules, Part::expert_down);
  const bool stacked = has_part(k.modules, Part::experts_down);
  if (!each && !stacked) return std::nullopt;
  if (each == stacked || (each && !has_part(k.modules, Part::expert_up)) ||
      (stacked && !has_part(k.modules, Part::experts_gate_up)) ||
      !has_part(k.modules, Part::router)) {
    return SizeProblem{"modules",
                       fmt::format("of {} are no experts; accepted: router, expert_up and "
                                   "expert_down, or router, experts_gate_up and experts_down",
                                   k.name)};
  }
  if (auto p = outside("experts", k.experts, 2, Limits::experts, k.name)) return p;
  if (auto p = outside("experts_per_token", k.experts_per_token, 1, k.experts, k.name)) return p;
  if (auto p = outside("expert_ffn", k.expert_ffn, 1, Limits::ffn_hidden, k.name)) return p;
  if (has_part(k.modules, Part::shared_down)) {
    return outside("shared_ffn", k.shared_ffn, 1, Limits::ffn_hidden, k.name);
  }
  return std::nullopt;
}

// Parts that are run once each; linear, tensor and norm may stand any number of times.
std::optional<SizeProblem> repeated(const std::string& name, const std::vector<Module>& modules) {
  std::set<Part> seen;
  std::set<std::string_view> names;
  for (const Module& m : modules) {
    const bool free = m.part == Part::linear || m.part == Part::tensor || m.part == Part::norm;
    if (!free && !seen.insert(m.part).second) {
      return SizeProblem{"modules", fmt::format("of {} have two parts {}; accepted: one of each",
                                                name, to_string(m.part))};
    }
    if (m.name != "-" && !names.insert(m.name).second) {
      return SizeProblem{"modules",
                         fmt::format("of {} have two named {}", name, m.name.substr(0, 60))};
    }
    const bool each =
        m.part == Part::expert_gate || m.part == Part::expert_up || m.part == Part::expert_down;
    if (is_starred(m) != each) {
      return SizeProblem{
          "modules", fmt::format("of {}: {} {}", name, m.name.substr(0, 60),
                                 each ? "is one expert's; accepted: a name with a star"
                                      : "has a star; accepted: in names of expert_gate, expert_up "
                                        "and expert_down")};
    }
  }
  return std::nullopt;
}

std::optional<SizeProblem> kind_outside(const BlockKind& k) {
  if (auto p = repeated(k.name, k.modules)) return p;
  const bool attends = has_part(k.modules, Part::q) || has_part(k.modules, Part::qkv) ||
                       has_part(k.modules, Part::q_b) || has_part(k.modules, Part::kv_a);
  const bool crosses = has_part(k.modules, Part::cross_q);
  if (attends || crosses) {
    if (auto p = attention_outside(k)) return p;
  } else if (has_part(k.modules, Part::o) || has_part(k.modules, Part::k) ||
             has_part(k.modules, Part::v)) {
    return SizeProblem{"modules", fmt::format("of {} have keys, values or o, and no queries; "
                                              "accepted: q, qkv or q_b",
                                              k.name)};
  }
  if (crosses && !(has_part(k.modules, Part::cross_k) && has_part(k.modules, Part::cross_v) &&
                   has_part(k.modules, Part::cross_o))) {
    return SizeProblem{"modules", fmt::format("of {} have cross_q and not cross_k, cross_v and "
                                              "cross_o",
                                              k.name)};
  }
  for (const Module& m : k.modules) {
    if (m.part != Part::linear) continue;
    for (const std::int64_t size : m.shape) {
      if (auto p = outside("modules", size, 1, SizeLimits::ffn_hidden, m.name.substr(0, 60))) {
        return p;
      }
    }
  }
  if (auto p = outside("state", k.state, 0, SizeLimits::ffn_hidden, k.name)) return p;
  return mlp_outside(k);
}

constexpr std::int64_t most_tensors = 1ll << 18;
// The largest product of a linear's sizes, so that elements and their bytes stay within 63 bits.
constexpr double most_elements = 1e15;

double real_product(const std::vector<std::int64_t>& shape) {
  double product = 1;
  for (const std::int64_t size : shape) product *= static_cast<double>(size);
  return product;
}

}  // namespace

std::optional<SizeProblem> complete_composition(Architecture& a) {
  using Limits = SizeLimits;
  if (!a.composition) return SizeProblem{"family", "is composed, and has no blocks to compose"};
  const Composition& c = *a.composition;
  if (auto p = outside("hidden", a.hidden, 1, Limits::hidden, "the model")) return p;
  if (auto p = outside("vocabulary", a.vocabulary, 1, Limits::vocabulary, "the model")) return p;
  if (auto p = outside("max_positions", a.max_positions, a.learned_positions ? 1 : 0,
                       Limits::max_positions, "the model")) {
    return p;
  }
  if (auto p = outside("token_width", c.token_width, 0, Limits::hidden, "the model")) return p;
  if (auto p = outside("position_offset", c.position_offset, 0, 1024, "the model")) return p;
  if (auto p = outside("token_types", a.token_types, 0, Limits::vocabulary, "the model")) return p;
  if (c.kinds.empty() || c.kinds.size() > 64) {
    return SizeProblem{"block",
                       fmt::format("{} kinds of blocks; accepted: 1 to 64", c.kinds.size())};
  }
  for (const BlockKind& kind : c.kinds) {
    if (auto p = kind_outside(kind)) return p;
  }
  std::int64_t blocks = 0;
  int tables = 0;
  for (const Section& s : c.segments) {
    if (auto p = outside("positions", s.positions, 0, Limits::max_positions, s.name)) return p;
    if (s.kind == LayerKind::block) {
      blocks += static_cast<std::int64_t>(s.order.size());
      for (const int kind : s.order) {
        STEPCAST_ASSERT(kind >= 0 && static_cast<std::size_t>(kind) < c.kinds.size(),
                        "an order names kinds that there are");
      }
      continue;
    }
    if (auto p = repeated(s.name, s.modules)) return p;
    if (has_part(s.modules, Part::tokens)) ++tables;
    if (has_part(s.modules, Part::types) && a.token_types == 0) {
      return SizeProblem{"token_types", "is missing; accepted: rows of the table of types"};
    }
    if (has_part(s.modules, Part::positions) && a.max_positions == 0) {
      return SizeProblem{"max_positions", "is missing; accepted: rows of the position table"};
    }
  }
  if (tables != 1) {
    return SizeProblem{"layer", fmt::format("{} token tables in all layers; accepted: 1", tables)};
  }
  if (auto p = outside("layers", blocks, 1, Limits::layers, "the model")) return p;
  // More or fewer layers than the composition's own: only where one stack has them all.
  const auto stacks = std::count_if(c.segments.begin(), c.segments.end(),
                                    [](const Section& s) { return s.kind == LayerKind::block; });
  if (a.layers == 0 || stacks != 1) a.layers = blocks;
  if (auto p = outside("layers", a.layers, 1, Limits::layers, "the model")) return p;

  double elements = 0;
  double tensors = 0;
  const auto add = [&](const std::vector<Module>& modules, const BlockKind& kind, double times) {
    for (const Module& m : modules) {
      const double each = is_starred(m) ? static_cast<double>(kind.experts) : 1.0;
      elements += times * each * real_product(shape_of(m, kind, a));
      tensors += times * each;
    }
  };
  for (const Section& s : c.segments) {
    if (s.kind != LayerKind::block) {
      add(s.modules, {}, 1);
      continue;
    }
    for (const int kind : s.order) {
      const BlockKind& k = c.kinds[static_cast<std::size_t>(kind)];
      add(k.modules, k, static_cast<double>(a.layers) / static_cast<double>(blocks));
    }
  }
  if (elements > most_elements) {
    return SizeProblem{"hidden",
                       fmt::format("makes a model of {:.2e} parameters; accepted: at most "
                                   "{:.0e}",
                                   elements, most_elements)};
  }
  if (tensors > static_cast<double>(most_tensors)) {
    return SizeProblem{
        "experts",
        fmt::format("make a model of {:.2e} tensors; accepted: at most {}", tensors, most_tensors)};
  }
  a.heads = a.kv_heads = a.head_size = a.ffn_hidden = a.experts = a.experts_per_token = 0;
  for (const BlockKind& k : c.kinds) {
    if (k.heads > a.heads) {
      a.heads = k.heads;
      a.kv_heads = k.kv_heads;
    }
    a.head_size = std::max({a.head_size, k.head_size, k.value_size});
    a.ffn_hidden =
        std::max({a.ffn_hidden, k.ffn, k.expert_ffn * k.experts_per_token, k.shared_ffn});
    if (k.experts > a.experts) {
      a.experts = k.experts;
      a.experts_per_token = k.experts_per_token;
    }
  }
  return std::nullopt;
}

}  // namespace stepcast

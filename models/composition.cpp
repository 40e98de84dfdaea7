#include "models/composition.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"

namespace stepcast {
namespace {

constexpr std::string_view star = "*";

bool is_starred(const Module& module) { return module.name.find(star) != std::string::npos; }

std::string with_expert(const std::string& name, std::int64_t expert) {
  std::string text = name;
  text.replace(text.find(star), star.size(), std::to_string(expert));
  return text;
}

std::int64_t product_of(const std::vector<std::int64_t>& shape) {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

double real_product(const std::vector<std::int64_t>& shape) {
  double product = 1;
  for (const std::int64_t size : shape) product *= static_cast<double>(size);
  return product;
}

void add_tensor(std::vector<ModuleTensor>& list, const Module& module, int index,
                const std::vector<std::int64_t>& shape, int expert) {
  if (module.name == "-") return;
  const std::string name = expert >= 0 ? with_expert(module.name, expert) : module.name;
  list.push_back({module.bare ? name : name + ".weight", shape, index, false, expert});
  if (module.bias) {
    list.push_back({name + ".bias", {shape.front()}, index, true, expert});  // the matrix's rows
  }
}

// ---- what makes a block -------------------------------------------------------------------------

std::optional<SizeProblem> outside(std::string_view field, std::int64_t value, std::int64_t min,
                                   std::int64_t max, const std::string& what) {
  if (value >= min && value <= max) return std::nullopt;
  return SizeProblem{
      field, fmt::format("{} of {} is out of range; accepted: {} to {}", value, what, min, max)};
}

bool has(const std::vector<Module>& modules, Part part) {
  return std::any_of(modules.begin(), modules.end(),
                     [&](const Module& m) { return m.part == part; });
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
  if (!has(k.modules, Part::o)) {
    return SizeProblem{"modules",
                       fmt::format("of {} have queries and no o, the output projection", k.name)};
  }
  if (has(k.modules, Part::kv_a) != has(k.modules, Part::kv_b)) {
    return SizeProblem{"modules",
                       fmt::format("of {} have one of kv_a and kv_b; accepted: both", k.name)};
  }
  if (has(k.modules, Part::kv_a)) {
    if (auto p = outside("kv_rank", k.kv_rank, 1, Limits::hidden, k.name)) return p;
    if (auto p = outside("rope_size", k.rope_size, 1, k.head_size - 1, k.name)) return p;
    if (has(k.modules, Part::q_a) != has(k.modules, Part::q_b)) {
      return SizeProblem{"modules",
                         fmt::format("of {} have one of q_a and q_b; accepted: both", k.name)};
    }
    if (has(k.modules, Part::q_a)) return outside("q_rank", k.q_rank, 1, Limits::hidden, k.name);
    return std::nullopt;
  }
  const bool apart = has(k.modules, Part::q) && has(k.modules, Part::k) && has(k.modules, Part::v);
  if (apart == has(k.modules, Part::qkv)) {
    return SizeProblem{"modules", fmt::format("of {} are not queries, keys and values; accepted: "
                                              "q, k and v, or qkv, or kv_a and kv_b",
                                              k.name)};
  }
  return std::nullopt;
}

std::optional<SizeProblem> mlp_outside(const BlockKind& k) {
  using Limits = SizeLimits;
  if (has(k.modules, Part::down)) {
    if (auto p = outside("ffn", k.ffn, 1, Limits::ffn_hidden, k.name)) return p;
    if (has(k.modules, Part::up) == has(k.modules, Part::gate_up)) {
      return SizeProblem{"modules",
                         fmt::format("of {} have down and not one of up and gate_up", k.name)};
    }
  }
  const bool each = has(k.modules, Part::expert_down);
  const bool stacked = has(k.modules, Part::experts_down);
  if (!each && !stacked) return std::nullopt;
  if (each == stacked || (each && !has(k.modules, Part::expert_up)) ||
      (stacked && !has(k.modules, Part::experts_gate_up)) || !has(k.modules, Part::router)) {
    return SizeProblem{"modules",
                       fmt::format("of {} are no experts; accepted: router, expert_up and "
                                   "expert_down, or router, experts_gate_up and experts_down",
                                   k.name)};
  }
  if (auto p = outside("experts", k.experts, 2, Limits::experts, k.name)) return p;
  if (auto p = outside("experts_per_token", k.experts_per_token, 1, k.experts, k.name)) return p;
  if (auto p = outside("expert_ffn", k.expert_ffn, 1, Limits::ffn_hidden, k.name)) return p;
  if (has(k.modules, Part::shared_down)) {
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
  const bool attends = has(k.modules, Part::q) || has(k.modules, Part::qkv) ||
                       has(k.modules, Part::q_b) || has(k.modules, Part::kv_a);
  const bool crosses = has(k.modules, Part::cross_q);
  if (attends || crosses) {
    if (auto p = attention_outside(k)) return p;
  } else if (has(k.modules, Part::o) || has(k.modules, Part::k) || has(k.modules, Part::v)) {
    return SizeProblem{"modules", fmt::format("of {} have keys, values or o, and no queries; "
                                              "accepted: q, qkv or q_b",
                                              k.name)};
  }
  if (crosses && !(has(k.modules, Part::cross_k) && has(k.modules, Part::cross_v) &&
                   has(k.modules, Part::cross_o))) {
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

}  // namespace

int Composition::kind_of(std::string_view name) const {
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

std::vector<std::int64_t> shape_of(const Module& m, const BlockKind& k, const Architecture& a) {
  const std::int64_t h = a.hidden;
  const std::int64_t token_width =
      a.composition && a.composition->token_width > 0 ? a.composition->token_width : h;
  const std::int64_t queries = k.heads * k.head_size;
  const std::int64_t keys = k.kv_heads * k.head_size;
  const std::int64_t values = k.kv_heads * k.value_size;
  switch (m.part) {
    case Part::norm1:
    case Part::norm2:
    case Part::post1:
    case Part::post2:
    case Part::cross_norm: return {h};
    case Part::q: return {k.query_gate ? 2 * queries : queries, h};
    case Part::k: return {keys, h};
    case Part::v: return {values, h};
    case Part::qkv: return {queries + keys + values, h};
    case Part::o: return {h, k.heads * k.value_size};
    case Part::q_norm: return {m.wide ? queries : k.head_size};
    case Part::k_norm: return {m.wide ? keys : k.head_size};
    case Part::q_a: return {k.q_rank, h};
    case Part::q_a_norm: return {k.q_rank};
    case Part::q_b: return {queries, k.q_rank};
    case Part::kv_a: return {k.kv_rank + k.rope_size, h};
    case Part::kv_a_norm: return {k.kv_rank};
    case Part::kv_b: return {k.heads * (k.head_size - k.rope_size + k.value_size), k.kv_rank};
    case Part::cross_q: return {queries, h};
    case Part::cross_k: return {keys, h};
    case Part::cross_v: return {values, h};
    case Part::cross_o: return {h, k.heads * k.value_size};
    case Part::gate:
    case Part::up: return {k.ffn, h};
    case Part::gate_up: return {2 * k.ffn, h};
    case Part::down: return {h, k.ffn};
    case Part::router: return {k.experts, h};
    case Part::expert_gate:
    case Part::expert_up: return {k.expert_ffn, h};
    case Part::expert_down: return {h, k.expert_ffn};
    case Part::experts_gate_up: return {k.experts, h, 2 * k.expert_ffn};
    case Part::experts_down: return {k.experts, k.expert_ffn, h};
    case Part::experts_gate_up_bias: return {k.experts, 2 * k.expert_ffn};
    case Part::experts_down_bias: return {k.experts, h};
    case Part::shared_gate:
    case Part::shared_up: return {k.shared_ffn, h};
    case Part::shared_down: return {h, k.shared_ffn};
    case Part::shared_switch: return {1, h};
    case Part::linear:
    case Part::tensor:
    case Part::norm: return m.shape;
    case Part::tokens: return {a.vocabulary, token_width};
    case Part::positions:
      return {a.max_positions + (a.composition ? a.composition->position_offset : 0), h};
    case Part::types: return {a.token_types, h};
    case Part::project_in: return {h, token_width};
    case Part::project_out: return {token_width, h};
    case Part::head: return {a.vocabulary, token_width};
    case Part::count: break;
  }
  STEPCAST_ASSERT(false, "a part without a shape");
}

std::vector<ModuleTensor> tensors_of(const std::vector<Module>& modules, const BlockKind& kind,
                                     const Architecture& a) {
  std::vector<ModuleTensor> list;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    if (!is_starred(modules[i])) {
      add_tensor(list, modules[i], static_cast<int>(i), shape_of(modules[i], kind, a), -1);
      continue;
    }
    std::size_t end = i;  // neighbours with a star are one expert's
    while (end < modules.size() && is_starred(modules[end])) ++end;
    for (std::int64_t e = 0; e < kind.experts; ++e) {
      for (std::size_t m = i; m < end; ++m) {
        add_tensor(list, modules[m], static_cast<int>(m), shape_of(modules[m], kind, a),
                   static_cast<int>(e));
      }
    }
    i = end - 1;
  }
  return list;
}

std::int64_t elements_of(const BlockKind& kind, const Architecture& a) {
  std::int64_t sum = 0;
  for (const ModuleTensor& t : tensors_of(kind.modules, kind, a)) sum += product_of(t.shape);
  return sum;
}

std::int64_t active_elements_of(const BlockKind& kind, const Architecture& a) {
  std::int64_t sum = 0;
  for (const ModuleTensor& t : tensors_of(kind.modules, kind, a)) {
    if (t.expert >= kind.experts_per_token) continue;
    const Part part = kind.modules[static_cast<std::size_t>(t.module)].part;
    const bool stacked = part == Part::experts_gate_up || part == Part::experts_down ||
                         part == Part::experts_gate_up_bias || part == Part::experts_down_bias;
    const std::int64_t elements = product_of(t.shape);
    sum += stacked ? elements / kind.experts * kind.experts_per_token : elements;
  }
  return sum;
}

std::int64_t widest_of(const Composition& c) {
  std::int64_t widest = 4 * c.token_width;
  for (const BlockKind& k : c.kinds) {
    widest = std::max({widest, 2 * k.heads * k.head_size, k.heads * (k.head_size + k.value_size),
                       k.q_rank, k.kv_rank + k.rope_size, 2 * k.ffn, 2 * k.shared_ffn,
                       2 * k.experts_per_token * k.expert_ffn, k.experts, 8 * k.state});
    for (const Module& m : k.modules) {
      if (m.part == Part::linear) widest = std::max({widest, m.shape[0], m.shape[1]});
    }
  }
  for (const Section& s : c.segments) {
    for (const Module& m : s.modules) {
      if (m.part == Part::linear) widest = std::max({widest, m.shape[0], m.shape[1]});
    }
  }
  return widest;
}

int stacks_of(const Composition& c) {
  return static_cast<int>(std::count_if(c.segments.begin(), c.segments.end(), [](const Section& s) {
    return s.kind == LayerKind::block;
  }));
}

std::int64_t longest_of(const Composition& c) {
  std::int64_t longest = 1;
  for (const BlockKind& k : c.kinds) longest = std::max(longest, k.memory);
  for (const Section& s : c.segments) longest = std::max(longest, s.positions);
  return longest;
}

ComposedTerms terms_of(const Model& model, std::int64_t seq_len) {
  const Architecture& a = model.architecture;
  const Composition& c = *a.composition;
  ComposedTerms terms;
  const auto seq = static_cast<double>(seq_len);
  const bool tables = a.tied_embeddings;  // used as a matrix, once
  std::size_t at = 0;
  std::int64_t own = 0;
  for (const Section& s : c.segments) own += static_cast<std::int64_t>(s.order.size());
  for (const Section& s : c.segments) {
    const auto size = static_cast<std::int64_t>(s.order.size());
    const std::int64_t layers = s.kind != LayerKind::block ? 1 : size == own ? a.layers : size;
    const std::int64_t here = s.positions > 0 ? s.positions : seq_len;
    const double share = static_cast<double>(here) / seq;
    std::vector<double> elements(c.kinds.size(), -1);
    for (std::int64_t i = 0; i < layers; ++i, ++at) {
      const Layer& layer = model.layers[at];
      if (s.kind != LayerKind::block) {
        if (s.kind == LayerKind::embedding && !tables) continue;
        terms.parameters += share * static_cast<double>(model.parameter_elements(layer));
        continue;
      }
      const auto number = static_cast<std::size_t>(layer.block_kind);
      const BlockKind& k = c.kinds[number];
      if (elements[number] < 0) elements[number] = static_cast<double>(active_elements_of(k, a));
      terms.parameters += share * elements[number];
      const double width = static_cast<double>(k.heads * (k.head_size + k.value_size)) / 2;
      const auto attends = [&](Part part) { return has(k.modules, part); };
      std::int64_t keys = 0;
      if (attends(Part::q) || attends(Part::qkv) || attends(Part::kv_a)) {
        keys = here;
        if (k.window > 0) keys = std::min(keys, k.window);
        if (k.chunk > 0) keys = std::min(keys, k.chunk);
      }
      if (attends(Part::cross_q)) keys += k.memory > 0 ? k.memory : seq_len;
      terms.attention += share * width * static_cast<double>(keys);
    }
  }
  return terms;
}

int kind_at(const Section& segment, std::int64_t number, std::int64_t count) {
  const auto own = static_cast<std::int64_t>(segment.order.size());
  return segment.order[static_cast<std::size_t>(own == count ? number : number * own / count)];
}

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
    if (has(s.modules, Part::tokens)) ++tables;
    if (has(s.modules, Part::types) && a.token_types == 0) {
      return SizeProblem{"token_types", "is missing; accepted: rows of the table of types"};
    }
    if (has(s.modules, Part::positions) && a.max_positions == 0) {
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

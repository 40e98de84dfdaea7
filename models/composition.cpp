#include "models/composition.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace stepcast {
namespace {

constexpr std::string_view star = "*";

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

void add_tensor(std::vector<ModuleTensor>& list, const Module& module, int index,
                const std::vector<std::int64_t>& shape, int expert) {
  if (module.name == "-") return;
  const std::string name = expert >= 0 ? with_expert(module.name, expert) : module.name;
  list.push_back({module.bare ? name : name + ".weight", shape, index, false, expert});
  if (module.bias) {
    list.push_back({name + ".bias", {shape.front()}, index, true, expert});  // the matrix's rows
  }
}

}  // namespace

bool has_part(const std::vector<Module>& modules, Part part) {
  return std::any_of(modules.begin(), modules.end(),
                     [&](const Module& m) { return m.part == part; });
}

bool is_starred(const Module& module) { return module.name.find(star) != std::string::npos; }

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
      const auto attends = [&](Part part) { return has_part(k.modules, part); };
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

}  // namespace stepcast

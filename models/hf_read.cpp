#include "models/hf_read.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace stepcast::hf {

namespace {

// complete() takes 0 for "not given"; a file that says 0 is wrong.
void refuse_nothing(const JsonReader& json, std::string_view key, std::int64_t value) {
  if (value < 1) {
    throw InputError(json.where(key), fmt::format("{} is not a size; accepted: 1 or more", value));
  }
}

}  // namespace

void Read::take(const JsonReader& json, std::string_view field, std::string_view key,
                std::int64_t& into) {
  into = json.integer(key);
  keys.emplace_back(field, key);
  refuse_nothing(json, key, into);
}

void Read::take_optional(const JsonReader& json, std::string_view field, std::string_view key,
                         std::int64_t& into) {
  const auto value = json.optional_integer(key);
  if (!value) return;
  into = *value;
  keys.emplace_back(field, key);
  refuse_nothing(json, key, into);
}

void refuse_if(const JsonReader& json, std::string_view key, bool refused, std::string_view why) {
  if (refused) throw InputError(json.where(key), why);
}

bool drops(const JsonReader& json, std::string_view key, double fallback) {
  const double p = json.optional_number(key).value_or(fallback);
  if (!(p >= 0.0 && p < 1.0)) {
    throw InputError(json.where(key), fmt::format("{} is not a probability; accepted: 0 to 1", p));
  }
  return p > 0.0;
}

std::int64_t size_of(const JsonReader& json, std::string_view key, std::int64_t most) {
  const std::int64_t value = json.integer(key);
  if (value < 1 || value > most) {
    throw InputError(json.where(key),
                     fmt::format("{} is out of range; accepted: 1 to {}", value, most));
  }
  return value;
}

std::int64_t size_or(const JsonReader& json, std::string_view key, std::int64_t fallback,
                     std::int64_t most) {
  return json.has(key) ? size_of(json, key, most) : fallback;
}

std::string_view first_of(const JsonReader& json, std::string_view name, std::string_view other) {
  return !json.has(name) && json.has(other) ? other : name;
}

Draft::Draft(const JsonReader& file, const Keys& keys, bool tied_by_default) : json(file) {
  using Limits = SizeLimits;
  hidden = size_of(json, keys.hidden, Limits::hidden);
  layers = size_of(json, keys.layers, Limits::layers);
  const auto said_or = [&](std::string_view key, std::int64_t usual, std::int64_t most) {
    return usual > 0 ? size_or(json, key, usual, most) : size_of(json, key, most);
  };
  heads = said_or(keys.heads, keys.usual_heads, Limits::heads);
  const std::int64_t usual_kv_heads = keys.usual_kv_heads > 0 ? keys.usual_kv_heads : heads;
  kv_heads =
      keys.kv_heads.empty() ? heads : size_or(json, keys.kv_heads, usual_kv_heads, Limits::heads);
  head_size = keys.head_size.empty() ? 0 : size_or(json, keys.head_size, 0, Limits::head_size);
  if (head_size == 0) {
    if (hidden % heads != 0) {
      throw InputError(json.where(keys.heads),
                       fmt::format("{} does not divide the hidden size {}; accepted: a divisor of "
                                   "{}, or a head size of its own",
                                   heads, hidden, hidden));
    }
    head_size = hidden / heads;
  }
  if (!keys.ffn.empty()) ffn = size_of(json, keys.ffn, Limits::ffn_hidden);
  Architecture& a = read.sizes;
  a.family = Family::composed;
  a.hidden = hidden;
  a.vocabulary = said_or(keys.vocabulary, keys.usual_vocabulary, Limits::vocabulary);
  if (!keys.positions.empty()) {
    a.max_positions = size_or(json, keys.positions, 0, Limits::max_positions);
  }
  a.tied_embeddings = tied = json.boolean_or("tie_word_embeddings", tied_by_default);
  const std::pair<std::string_view, std::string_view> fields[] = {
      {"hidden", keys.hidden},         {"layers", keys.layers},          {"heads", keys.heads},
      {"kv_heads", keys.kv_heads},     {"head_size", keys.head_size},    {"ffn", keys.ffn},
      {"vocabulary", keys.vocabulary}, {"max_positions", keys.positions}};
  for (const auto& [field, key] : fields) {
    if (!key.empty() && json.has(key)) read.keys.emplace_back(field, key);
  }
}

BlockKind Draft::block(std::string name, std::string_view modules) const {
  BlockKind kind;
  kind.name = std::move(name);
  kind.modules = modules_of(modules);
  kind.heads = heads;
  kind.kv_heads = kv_heads;
  kind.head_size = kind.value_size = kind.rotary = head_size;
  kind.ffn = ffn;
  return kind;
}

int Draft::add(BlockKind kind) {
  composition.kinds.push_back(std::move(kind));
  return static_cast<int>(composition.kinds.size()) - 1;
}

int Draft::with_window(int kind, std::int64_t window, bool chunked) {
  const BlockKind& base = composition.kinds[static_cast<std::size_t>(kind)];
  const std::string name = base.name + (chunked ? "-chunks" : "-window");
  const int known = composition.kind_of(name);
  if (known >= 0) return known;
  BlockKind copy = base;
  copy.name = name;
  (chunked ? copy.chunk : copy.window) = window;
  return add(std::move(copy));
}

std::vector<std::string> Draft::layer_types() const {
  std::vector<std::string> types = json.strings("layer_types");
  if (!types.empty() && static_cast<std::int64_t>(types.size()) != layers) {
    throw InputError(
        json.where("layer_types"),
        fmt::format("names {} layers; accepted: as many as there are, {}", types.size(), layers));
  }
  static const std::vector<std::string> known{"full_attention", "sliding_attention",
                                              "chunked_attention", "linear_attention"};
  for (const std::string& type : types) {
    if (std::find(known.begin(), known.end(), type) == known.end()) {
      throw not_accepted(json.where("layer_types"), type, known);
    }
  }
  return types;
}

void Draft::stack(std::string_view embedding, std::string_view prefix, std::string_view norm,
                  std::string_view head) {
  const auto single = [&](LayerKind kind, const char* name, std::string_view modules) {
    Section& segment = composition.segments.emplace_back();
    segment.kind = kind;
    segment.name = name;
    segment.modules = modules_of(modules);
  };
  single(LayerKind::embedding, "embedding", embedding);
  Section blocks;
  blocks.name = "layers.";
  blocks.prefix = prefix;
  blocks.order = order_.empty() ? std::vector<int>(static_cast<std::size_t>(layers), 0) : order_;
  composition.segments.push_back(std::move(blocks));
  if (!norm.empty()) single(LayerKind::final_norm, "norm", norm);
  single(LayerKind::head, "head", head);
}

Read Draft::finish() && {
  // Kinds that no layer is of (a window that every layer has) are left out.
  std::vector<int> number(composition.kinds.size(), -1);
  std::vector<BlockKind> used;
  for (Section& segment : composition.segments) {
    for (int& kind : segment.order) {
      int& mine = number[static_cast<std::size_t>(kind)];
      if (mine < 0) {
        mine = static_cast<int>(used.size());
        used.push_back(composition.kinds[static_cast<std::size_t>(kind)]);
      }
      kind = mine;
    }
  }
  composition.kinds = std::move(used);
  read.sizes.composition = std::make_shared<const Composition>(std::move(composition));
  return std::move(read);
}

std::string llama_modules(const LlamaModules& m) {
  const std::string b = bias(m.qkv_bias);
  std::string text = "self_attn.q_proj=q" + b + " self_attn.k_proj=k" + b + " self_attn.v_proj=v" +
                     b + " self_attn.o_proj=o" + bias(m.output_bias);
  if (m.head_norms) text += " self_attn.q_norm=q_norm self_attn.k_norm=k_norm";
  if (m.wide_head_norms) text += " self_attn.q_norm=q_norm+wide self_attn.k_norm=k_norm+wide";
  const std::string f = bias(m.mlp_bias);
  text += m.mlp.empty()
              ? " mlp.gate_proj=gate" + f + " mlp.up_proj=up" + f + " mlp.down_proj=down" + f
              : " " + m.mlp;
  const std::string n = bias(m.norm_bias);
  return text + " input_layernorm=norm1" + n + " post_attention_layernorm=norm2" + n;
}

std::string_view head_of(const Draft& draft, std::string_view own) { return draft.tied ? "" : own; }

std::int64_t rotary_of(const JsonReader& json, std::string_view key, double fallback,
                       std::int64_t head_size) {
  // transformers 5 writes it into rope_parameters.
  if (!json.has(key)) {
    const auto rope = json.object("rope_parameters");
    if (rope && rope->has("partial_rotary_factor")) {
      return rotary_of(*rope, "partial_rotary_factor", fallback, head_size);
    }
  }
  const double part = json.optional_number(key).value_or(fallback);
  if (!(part >= 0 && part <= 1)) {
    throw InputError(json.where(key), "is no part of a head; accepted: 0 to 1");
  }
  return static_cast<std::int64_t>(part * static_cast<double>(head_size));
}

}  // namespace stepcast::hf

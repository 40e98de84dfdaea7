#include "models/model_toml.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/error.hpp"
#include "models/composition.hpp"
#include "models/layout.hpp"

namespace stepcast {
namespace {

constexpr std::string_view arrangement_names[] = {"sequential", "parallel", "post_norm"};

struct SizeKey {
  const char* name;
  std::int64_t BlockKind::*member;
};
constexpr SizeKey size_keys[] = {{"heads", &BlockKind::heads},
                                 {"kv_heads", &BlockKind::kv_heads},
                                 {"head_size", &BlockKind::head_size},
                                 {"value_size", &BlockKind::value_size},
                                 {"rotary", &BlockKind::rotary},
                                 {"window", &BlockKind::window},
                                 {"chunk", &BlockKind::chunk},
                                 {"q_rank", &BlockKind::q_rank},
                                 {"kv_rank", &BlockKind::kv_rank},
                                 {"rope_size", &BlockKind::rope_size},
                                 {"ffn", &BlockKind::ffn},
                                 {"experts", &BlockKind::experts},
                                 {"experts_per_token", &BlockKind::experts_per_token},
                                 {"expert_ffn", &BlockKind::expert_ffn},
                                 {"shared_ffn", &BlockKind::shared_ffn},
                                 {"state", &BlockKind::state},
                                 {"memory", &BlockKind::memory}};

constexpr std::pair<const char*, LayerKind> layer_names[] = {{"embedding", LayerKind::embedding},
                                                             {"stem", LayerKind::stem},
                                                             {"blocks", LayerKind::block},
                                                             {"norm", LayerKind::final_norm},
                                                             {"head", LayerKind::head}};

// ---- writing ------------------------------------------------------------------------------------

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string size_line(std::string_view key, std::int64_t value) {
  return fmt::format("{} = {}\n", key, value);
}
std::string switch_line(std::string_view key, bool value) {
  return fmt::format("{} = {}\n", key, value);
}

// "3 dense", "13 sliding full": what repeats, and how often.
std::vector<std::string> order_text(const std::vector<int>& order, const Composition& c) {
  const auto name = [&](int kind) { return c.kinds[static_cast<std::size_t>(kind)].name; };
  const std::size_t size = order.size();
  for (std::size_t period = 2; period <= 16 && 2 * period <= size; ++period) {
    const bool repeats = [&] {
      for (std::size_t i = period; i < size; ++i) {
        if (order[i] != order[i % period]) return false;
      }
      return true;
    }();
    const bool one = std::all_of(order.begin(), order.end(), [&](int k) { return k == order[0]; });
    if (!repeats || one) continue;
    std::string whole = std::to_string(size / period);
    for (std::size_t i = 0; i < period; ++i) whole += " " + name(order[i]);
    std::vector<std::string> text{whole};
    if (size % period == 0) return text;
    text.emplace_back("1");
    for (std::size_t i = 0; i < size % period; ++i) text.back() += " " + name(order[i]);
    return text;
  }
  std::vector<std::string> text;
  for (std::size_t i = 0; i < size;) {
    std::size_t end = i;
    while (end < size && order[end] == order[i]) ++end;
    text.push_back(fmt::format("{} {}", end - i, name(order[i])));
    i = end;
  }
  return text;
}

std::string strings_line(std::string_view key, const std::vector<std::string>& list) {
  std::string text = fmt::format("{} = [", key);
  for (std::size_t i = 0; i < list.size(); ++i) text += (i > 0 ? ", " : "") + in_quotes(list[i]);
  return text + "]\n";
}

std::string composition_text(const Composition& c) {
  std::string text;
  if (!c.rms_norm) text += "rms_norm = false\n";
  if (c.token_width > 0) text += size_line("token_width", c.token_width);
  if (c.position_offset > 0) text += size_line("position_offset", c.position_offset);
  for (const BlockKind& k : c.kinds) {
    text += "\n[[block]]\nname = " + in_quotes(k.name) + "\n";
    if (k.arrangement != Arrangement::sequential) {
      text +=
          "arrangement = " + in_quotes(arrangement_names[static_cast<std::size_t>(k.arrangement)]) +
          "\n";
    }
    if (!k.causal) text += "causal = false\n";
    if (k.query_gate) text += "query_gate = true\n";
    for (const SizeKey& key : size_keys) {
      if (k.*key.member > 0) text += size_line(key.name, k.*key.member);
    }
    text += "modules = " + in_quotes(to_text(k.modules)) + "\n";
  }
  for (const Section& s : c.segments) {
    text += "\n[[layer]]\n";
    for (const auto& [name, kind] : layer_names) {
      if (kind == s.kind) text += fmt::format("kind = \"{}\"\n", name);
    }
    text += "name = " + in_quotes(s.name) + "\n";
    if (!s.prefix.empty()) text += "prefix = " + in_quotes(s.prefix) + "\n";
    if (s.positions > 0) text += size_line("positions", s.positions);
    if (s.registered_early) text += "registered_early = true\n";
    if (s.kind == LayerKind::block) {
      text += strings_line("order", order_text(s.order, c));
    } else if (!s.modules.empty()) {
      text += "modules = " + in_quotes(to_text(s.modules)) + "\n";
    }
  }
  return text;
}

// ---- reading ------------------------------------------------------------------------------------

std::vector<Module> read_modules(TomlTable& toml) {
  std::vector<Module> modules;
  if (const auto problem = parse_modules(toml.string_or("modules", ""), modules)) {
    throw InputError(toml.where("modules"),
                     fmt::format("'{}' {}", problem->word, problem->message));
  }
  return modules;
}

constexpr TomlTable::Bounds any_size{0, 9e18};

BlockKind read_kind(TomlTable& toml) {
  BlockKind k;
  k.name = toml.string("name");
  if (k.name.empty() || k.name.find_first_of(" \t\n") != std::string::npos) {
    throw InputError(toml.where("name"), "is empty or has spaces; accepted: one word");
  }
  const std::string arrangement = toml.string_or("arrangement", "sequential");
  std::size_t i = 0;
  while (i < std::size(arrangement_names) && arrangement_names[i] != arrangement) ++i;
  if (i == std::size(arrangement_names)) {
    throw not_accepted(toml.where("arrangement"), arrangement,
                       {std::begin(arrangement_names), std::end(arrangement_names)});
  }
  k.arrangement = static_cast<Arrangement>(i);
  k.causal = toml.boolean_or("causal", true);
  k.query_gate = toml.boolean_or("query_gate", false);
  for (const SizeKey& key : size_keys) k.*key.member = toml.integer_or(key.name, 0, any_size);
  if (k.kv_heads == 0) k.kv_heads = k.heads;
  if (k.value_size == 0) k.value_size = k.head_size;
  k.modules = read_modules(toml);
  if (k.modules.empty()) {
    throw InputError(toml.where("modules"), "is missing; accepted: \"NAME=PART ...\"");
  }
  toml.finish();
  return k;
}

void read_order(TomlTable& toml, const Composition& c, std::vector<int>& order) {
  const auto refuse = [&](const std::string& entry, std::string_view why) {
    return InputError(toml.where("order"), fmt::format("'{}' {}; accepted: \"3 dense\", or "
                                                       "\"13 sliding full\" for what repeats",
                                                       entry.substr(0, 60), why));
  };
  for (const std::string& entry : toml.strings("order")) {
    std::vector<int> kinds;
    std::int64_t count = 0;
    std::size_t at = 0;
    for (bool first = true; at < entry.size(); first = false) {
      const std::size_t begin = entry.find_first_not_of(' ', at);
      if (begin == std::string::npos) break;
      at = std::min(entry.find(' ', begin), entry.size());
      const std::string word = entry.substr(begin, at - begin);
      if (first) {
        const auto result = std::from_chars(word.data(), word.data() + word.size(), count);
        if (result.ec != std::errc() || result.ptr != word.data() + word.size()) {
          throw refuse(entry, "does not begin with a number");
        }
        continue;
      }
      kinds.push_back(c.kind_of(word));
      if (kinds.back() < 0)
        throw refuse(entry, fmt::format("names '{}', which is no block", word.substr(0, 40)));
    }
    if (count < 1 || kinds.empty()) throw refuse(entry, "names no blocks");
    if (count > SizeLimits::layers ||
        order.size() + static_cast<std::size_t>(count) * kinds.size() > SizeLimits::layers) {
      throw refuse(entry, fmt::format("makes more than {} layers", SizeLimits::layers));
    }
    for (std::int64_t i = 0; i < count; ++i) order.insert(order.end(), kinds.begin(), kinds.end());
  }
  if (order.empty()) throw InputError(toml.where("order"), "is missing; accepted: [\"3 dense\"]");
}

Section read_segment(TomlTable& toml, const Composition& c) {
  Section s;
  const std::string kind = toml.string("kind");
  bool known = false;
  std::vector<std::string> accepted;
  for (const auto& [name, value] : layer_names) {
    accepted.emplace_back(name);
    if (kind != name) continue;
    s.kind = value;
    known = true;
  }
  if (!known) throw not_accepted(toml.where("kind"), kind, accepted);
  s.name = toml.string("name");
  s.prefix = toml.string_or("prefix", "");
  s.positions = toml.integer_or("positions", 0, any_size);
  s.registered_early = toml.boolean_or("registered_early", false);
  if (s.kind == LayerKind::block) {
    read_order(toml, c, s.order);
  } else {
    s.modules = read_modules(toml);
  }
  toml.finish();
  return s;
}

}  // namespace

std::shared_ptr<const Composition> read_composition(TomlTable& toml) {
  Composition c;
  c.rms_norm = toml.boolean_or("rms_norm", true);
  c.token_width = toml.integer_or("token_width", 0, any_size);
  c.position_offset = toml.integer_or("position_offset", 0, any_size);
  for (TomlTable& table : toml.tables("block")) {
    BlockKind kind = read_kind(table);
    if (c.kind_of(kind.name) >= 0) {
      throw InputError(table.where("name"), fmt::format("'{}' is a block already", kind.name));
    }
    c.kinds.push_back(std::move(kind));
  }
  for (TomlTable& table : toml.tables("layer")) c.segments.push_back(read_segment(table, c));
  if (c.segments.empty() || c.segments.back().kind != LayerKind::head) {
    throw InputError(toml.where("layer"),
                     "does not end with the head; accepted: [[layer]] tables "
                     "from the embedding to the head");
  }
  return std::make_shared<const Composition>(std::move(c));
}

std::string model_toml(const Model& model) {
  const Architecture& a = model.architecture;
  STEPCAST_ASSERT(a.family != Family::resnet && a.layers > 0, "a transformer is written");
  std::string text = "name = " + in_quotes(model.name) + "\nsource = " + in_quotes(model.source) +
                     "\nfamily = " + in_quotes(to_string(a.family)) + "\n";
  text += fmt::format("dtype = \"{}\"\n", to_string(model.stored_dtype));
  text += size_line("hidden", a.hidden);
  const bool composed = a.family == Family::composed;
  if (!composed) {
    text += size_line("layers", a.layers);
    if (a.heads > 0) {
      text += size_line("heads", a.heads) + size_line("kv_heads", a.kv_heads) +
              size_line("head_size", a.head_size);
    }
    text += size_line("ffn_hidden", a.ffn_hidden);
  }
  if (takes_images(a.family)) {
    text += size_line("image_size", a.image_size) + size_line("classes", a.classes) +
            size_line("patch_size", a.patch_size);
  } else {
    text += size_line("vocabulary", a.vocabulary);
    if (a.max_positions > 0) text += size_line("max_positions", a.max_positions);
    text += switch_line("tied_embeddings", a.tied_embeddings);
    text += switch_line("learned_positions", a.learned_positions);
  }
  if (!composed && a.family != Family::mlp) {
    text += switch_line("attention_bias", a.attention_bias) +
            switch_line("attention_output_bias", a.attention_output_bias) +
            switch_line("mlp_bias", a.mlp_bias) + switch_line("norm_bias", a.norm_bias) +
            switch_line("query_key_norm", a.query_key_norm);
  }
  text += switch_line("embedding_dropout", a.embedding_dropout) +
          switch_line("attention_dropout", a.attention_dropout) +
          switch_line("residual_dropout", a.residual_dropout);
  if (a.family == Family::mixtral) {
    text += size_line("experts", a.experts) + size_line("experts_per_token", a.experts_per_token);
  }
  if (a.token_types > 0) text += size_line("token_types", a.token_types);
  if (a.family == Family::bert) {
    text += switch_line("next_sentence", a.next_sentence);
    if (a.masked_share != 1) text += fmt::format("masked_share = {}\n", a.masked_share);
  }
  if (!model.approximations.empty()) text += strings_line("approximations", model.approximations);
  if (composed) text += composition_text(*a.composition);
  return text;
}

}  // namespace stepcast

#include "models/architecture.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/number_text.hpp"
#include "models/composition.hpp"
#include "models/layout.hpp"

namespace stepcast {
namespace {

std::optional<SizeProblem> outside(std::string_view field, std::int64_t value, std::int64_t min,
                                   std::int64_t max) {
  if (value >= min && value <= max) return std::nullopt;
  return SizeProblem{field, fmt::format("{} is out of range; accepted: {} to {}", value, min, max)};
}

// In double, so that it cannot overflow.
double parameters_estimate(const Architecture& a) {
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const double query = real(a.heads) * real(a.head_size);
  const double key = real(a.kv_heads) * real(a.head_size);
  const double matrices = (has_gated_mlp(a.family) ? 3.0 : 2.0) * std::max(1.0, real(a.experts));
  const double block = real(a.hidden) * (2.0 * query + 2.0 * key + matrices * real(a.ffn_hidden) +
                                         real(a.experts) + 16.0);
  const double tables = real(a.vocabulary) * (a.tied_embeddings ? 1.0 : 2.0) +
                        (a.learned_positions ? real(a.max_positions) : 0.0) + real(a.token_types) +
                        real(a.classes) + 3.0 * real(a.patch_size) * real(a.patch_size);
  return real(a.layers) * block + real(a.hidden) * tables;
}

std::optional<SizeProblem> images_outside(const Architecture& a) {
  // Below 32 pixels a ResNet's last stage has nothing left to see.
  if (auto p = outside("image_size", a.image_size, 32, SizeLimits::image_size)) return p;
  return outside("classes", a.classes, 1, SizeLimits::classes);
}

std::optional<SizeProblem> complete_resnet(Architecture& a) {
  a.layers = 0;
  for (const std::int64_t blocks : a.stages) {
    if (auto p = outside("stages", blocks, 1, 1024)) return p;
    a.layers += blocks;
  }
  a.hidden = a.bottleneck ? 2048 : 512;
  return images_outside(a);
}

// A position for each patch, one for the class token.
std::optional<SizeProblem> complete_vit(Architecture& a) {
  if (auto p = images_outside(a)) return p;
  if (auto p = outside("patch_size", a.patch_size, 1, a.image_size)) return p;
  if (a.image_size % a.patch_size != 0) {
    return SizeProblem{"image_size", fmt::format("{} is not made of patches of {}; accepted: a "
                                                 "multiple of {}",
                                                 a.image_size, a.patch_size, a.patch_size)};
  }
  const std::int64_t side = a.image_size / a.patch_size;
  a.max_positions = side * side + 1;
  a.learned_positions = true;
  return std::nullopt;
}

// What the modules of bert and vit have whether a file says so or not.
std::optional<SizeProblem> encoder_outside(const Architecture& a) {
  if (a.family != Family::bert && a.family != Family::vit) return std::nullopt;
  if (!a.norm_bias) return SizeProblem{"norm_bias", "is false; accepted: true"};
  if (a.family == Family::vit) return std::nullopt;
  if (auto p = outside("token_types", a.token_types, 1, SizeLimits::vocabulary)) return p;
  if (!a.learned_positions) return SizeProblem{"learned_positions", "is false; accepted: true"};
  if (!a.tied_embeddings) return SizeProblem{"tied_embeddings", "is false; accepted: true"};
  return std::nullopt;
}

std::optional<SizeProblem> experts_outside(const Architecture& a) {
  if (a.family != Family::mixtral) return std::nullopt;
  if (auto p = outside("experts", a.experts, 2, SizeLimits::experts)) return p;
  return outside("experts_per_token", a.experts_per_token, 1, a.experts);
}

std::optional<SizeProblem> too_many_parameters(const Architecture& a) {
  const double parameters = parameters_estimate(a);
  if (parameters <= SizeLimits::parameters) return std::nullopt;
  return SizeProblem{"hidden",
                     fmt::format("{}: the sizes together make {:.3g} parameters; "
                                 "accepted: at most {}",
                                 a.hidden, parameters, number_text(SizeLimits::parameters))};
}

// No attention: what speaks of heads and positions must not be said.
std::optional<SizeProblem> complete_mlp(const Architecture& a) {
  using Limits = SizeLimits;
  if (auto p = outside("heads", a.heads, 0, 0)) return p;
  if (auto p = outside("kv_heads", a.kv_heads, 0, 0)) return p;
  if (auto p = outside("head_size", a.head_size, 0, 0)) return p;
  if (auto p = outside("ffn_hidden", a.ffn_hidden, 1, Limits::ffn_hidden)) return p;
  if (auto p = outside("vocabulary", a.vocabulary, 1, Limits::vocabulary)) return p;
  if (auto p = outside("max_positions", a.max_positions, 0, Limits::max_positions)) return p;
  if (a.learned_positions) {
    return SizeProblem{"learned_positions", "is true; accepted: false for mlp"};
  }
  return too_many_parameters(a);
}

}  // namespace

std::optional<SizeProblem> complete(Architecture& a) {
  using Limits = SizeLimits;
  if (a.family == Family::composed) return complete_composition(a);
  if (a.family == Family::resnet) return complete_resnet(a);
  if (auto p = outside("hidden", a.hidden, 1, Limits::hidden)) return p;
  if (auto p = outside("layers", a.layers, 1, Limits::layers)) return p;
  if (a.family == Family::mlp) return complete_mlp(a);
  if (auto p = outside("heads", a.heads, 1, Limits::heads)) return p;
  if (a.kv_heads == 0) a.kv_heads = a.heads;
  if (auto p = outside("kv_heads", a.kv_heads, 1, a.heads)) return p;
  if (a.heads % a.kv_heads != 0) {
    return SizeProblem{"kv_heads", fmt::format("{} does not divide the {} heads; accepted: a "
                                               "divisor of {}",
                                               a.kv_heads, a.heads, a.heads)};
  }
  if (a.head_size == 0) {
    if (a.hidden % a.heads != 0) {
      return SizeProblem{"heads", fmt::format("{} does not divide the hidden size {}; accepted: a "
                                              "divisor of {}, or a head size of its own",
                                              a.heads, a.hidden, a.hidden)};
    }
    a.head_size = a.hidden / a.heads;
  }
  if (auto p = outside("head_size", a.head_size, 1, Limits::head_size)) return p;
  if (!has_rotary(a.family) && a.heads * a.head_size != a.hidden) {
    return SizeProblem{"head_size",
                       fmt::format("{} heads of {} are not the hidden size {}, as {} "
                                   "needs",
                                   a.heads, a.head_size, a.hidden, to_string(a.family))};
  }
  if (auto p = outside("ffn_hidden", a.ffn_hidden, 1, Limits::ffn_hidden)) return p;
  if (a.family == Family::vit) {
    if (auto p = complete_vit(a)) return p;
  } else if (auto p = outside("vocabulary", a.vocabulary, 1, Limits::vocabulary)) {
    return p;
  }
  if (auto p = experts_outside(a)) return p;
  if (auto p = encoder_outside(a)) return p;
  if (auto p = outside("max_positions", a.max_positions, a.learned_positions ? 1 : 0,
                       Limits::max_positions)) {
    return p;
  }
  if (has_rms_norm(a.family) && a.norm_bias) {
    return SizeProblem{"norm_bias", "is true; accepted: false, RMSNorm has no bias"};
  }
  if (has_rotary(a.family) && a.learned_positions) {
    return SizeProblem{"learned_positions", "is true; accepted: false, positions are rotary"};
  }
  if (a.query_key_norm && a.family != Family::llama) {
    return SizeProblem{"query_key_norm",
                       fmt::format("is true; accepted: false for {}", to_string(a.family))};
  }
  return too_many_parameters(a);
}

std::string_view to_string(Family family) {
  switch (family) {
    case Family::gpt2: return "gpt2";
    case Family::llama: return "llama";
    case Family::mpt: return "mpt";
    case Family::mixtral: return "mixtral";
    case Family::bert: return "bert";
    case Family::vit: return "vit";
    case Family::resnet: return "resnet";
    case Family::mlp: return "mlp";
    case Family::composed: return "composed";
  }
  return "";
}

std::vector<Family> families() {
  return {Family::gpt2, Family::llama,  Family::mpt, Family::mixtral, Family::bert,
          Family::vit,  Family::resnet, Family::mlp, Family::composed};
}

}  // namespace stepcast

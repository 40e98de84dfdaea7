#include "models/architecture.hpp"

#include <fmt/format.h>

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
  const double matrices = has_gated_mlp(a.family) ? 3.0 : 2.0;
  const double block =
      real(a.hidden) * (2.0 * query + 2.0 * key + matrices * real(a.ffn_hidden) + 16.0);
  const double tables = real(a.vocabulary) * (a.tied_embeddings ? 1.0 : 2.0) +
                        (a.learned_positions ? real(a.max_positions) : 0.0);
  return real(a.layers) * block + real(a.hidden) * tables;
}

}  // namespace

std::optional<SizeProblem> complete(Architecture& a) {
  using Limits = SizeLimits;
  if (auto p = outside("hidden", a.hidden, 1, Limits::hidden)) return p;
  if (auto p = outside("layers", a.layers, 1, Limits::layers)) return p;
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
  if (has_fused_qkv(a.family) && a.heads * a.head_size != a.hidden) {
    return SizeProblem{"head_size",
                       fmt::format("{} heads of {} are not the hidden size {}, as {} "
                                   "needs",
                                   a.heads, a.head_size, a.hidden, to_string(a.family))};
  }
  if (auto p = outside("ffn_hidden", a.ffn_hidden, 1, Limits::ffn_hidden)) return p;
  if (auto p = outside("vocabulary", a.vocabulary, 1, Limits::vocabulary)) return p;
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
  if (a.query_key_norm && has_fused_qkv(a.family)) {
    return SizeProblem{"query_key_norm",
                       fmt::format("is true; accepted: false for {}", to_string(a.family))};
  }
  const double parameters = parameters_estimate(a);
  if (parameters > Limits::parameters) {
    return SizeProblem{"hidden", fmt::format("{}: the sizes together make {:.3g} parameters; "
                                             "accepted: at most {:.0e}",
                                             a.hidden, parameters, Limits::parameters)};
  }
  return std::nullopt;
}

std::string_view to_string(Family family) {
  switch (family) {
    case Family::gpt2: return "gpt2";
    case Family::llama: return "llama";
    case Family::mpt: return "mpt";
  }
  return "";
}

}  // namespace stepcast

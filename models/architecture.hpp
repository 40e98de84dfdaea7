#pragma once
// The one place that says which sizes make a model. Every source of an Architecture (catalog TOML,
// config.json, a caller's own struct) goes through complete().

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.hpp"

namespace stepcast {

// The largest sizes that are accepted. Beyond the largest published models by orders of magnitude,
// and small enough that no product of sizes overflows 63 bits.
struct SizeLimits {
  static constexpr std::int64_t hidden = 1ll << 20;
  static constexpr std::int64_t layers = 1ll << 13;
  static constexpr std::int64_t heads = 1ll << 16;
  static constexpr std::int64_t head_size = 1ll << 16;
  static constexpr std::int64_t ffn_hidden = 1ll << 24;
  static constexpr std::int64_t vocabulary = 1ll << 28;
  static constexpr std::int64_t max_positions = 1ll << 30;
  static constexpr std::int64_t experts = 1ll << 12;
  static constexpr std::int64_t image_size = 1ll << 14;  // pixels a side
  static constexpr std::int64_t classes = 1ll << 24;
  static constexpr double parameters = 1e15;
};

struct SizeProblem {
  std::string_view field;  // of Architecture: "heads"
  std::string message;     // "0 is out of range; accepted: 1 to 65536"
};

// Fills what follows from the rest (kv_heads = heads, head_size = hidden / heads where 0; vit: a
// position for each patch and the class; resnet: layers, hidden), then
// says what is wrong with the sizes, if anything.
std::optional<SizeProblem> complete(Architecture& architecture);

std::string_view to_string(Family family);
std::vector<Family> families();

}  // namespace stepcast

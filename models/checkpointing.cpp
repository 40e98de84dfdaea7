#include "models/checkpointing.hpp"

#include "models/layout.hpp"

namespace stepcast {

bool takes_checkpointing(const Architecture& a, Checkpointing level) {
  switch (level) {
    case Checkpointing::none:
    case Checkpointing::full: return true;
    case Checkpointing::selective: return a.family != Family::resnet;
    case Checkpointing::selective_op:
      return a.family != Family::resnet && a.family != Family::composed &&
             has_gated_mlp(a.family) && !has_fused_qkv(a.family) && a.experts == 0;
  }
  return false;
}

std::vector<std::string> checkpointing_levels(const Architecture& a) {
  std::vector<std::string> levels;
  for (const Checkpointing level : {Checkpointing::none, Checkpointing::selective,
                                    Checkpointing::selective_op, Checkpointing::full}) {
    if (takes_checkpointing(a, level)) levels.emplace_back(to_string(level));
  }
  return levels;
}

}  // namespace stepcast

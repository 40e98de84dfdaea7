#include "sim/advise/decide.hpp"

#include <algorithm>

namespace stepcast {

Bytes short_by(const Facts& f) { return std::max<Bytes>(0, f.ddp_peak - f.capacity); }

Bytes freed_by_zero2(const Facts& f) {
  return f.gradients_and_optimizer - ceil_div(f.gradients_and_optimizer, Bytes{f.gpus});
}

Leaf decide(const Facts& f) {
  if (f.ddp_peak <= f.capacity) return Leaf::ddp;
  if (f.unit > f.capacity) return Leaf::exhausted;
  if (f.gpus == 1) return Leaf::none;
  if (f.nodes == 1) {
    // The count (short_by against freed_by_zero2) is what people reckon with; the replay decides.
    if (f.shard_grad_op_peak <= f.capacity) return Leaf::shard_grad_op;
  } else if (f.hybrid_shard_peak <= f.capacity &&
             f.exposed_all_gather > exposed_enough * f.full_shard_step) {
    return Leaf::hybrid_shard;
  }
  return f.full_shard_peak <= f.capacity ? Leaf::full_shard : Leaf::none;
}

std::string_view to_string(Leaf leaf) {
  switch (leaf) {
    case Leaf::ddp: return "ddp";
    case Leaf::shard_grad_op: return "shard_grad_op";
    case Leaf::full_shard: return "full_shard";
    case Leaf::hybrid_shard: return "hybrid_shard";
    case Leaf::exhausted: return "exhausted";
    case Leaf::none: return "none";
  }
  return "";
}

}  // namespace stepcast

#include "runtime/train/verbs.hpp"

#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <string_view>

namespace stepcast::runtime {
namespace {

// 1; 1/W; FSDP1's two divisions; 1 / loss scale
enum class Factor : std::uint8_t { one, ranks, pre, post, unscale };

struct Row {
  std::string_view verb;
  std::string_view rule;  // only under this rule; "": any
  Meaning meaning;
  Factor factor = Factor::one;
};

constexpr std::array rows{
    // the model
    Row{"compute", "", Meaning::layer},
    Row{"recompute", "", Meaning::layer},
    Row{"inputs", "", Meaning::load},
    // parameters: casts, gathers of one rank, copies out of a gather
    Row{"cast_shard", "", Meaning::move},
    Row{"copy_out", "", Meaning::move},
    Row{"copy_together", "", Meaning::move},
    Row{"all_gather", "", Meaning::move},
    // gradients: into a bucket or a flat tensor, divided, cast, kept, added
    Row{"copy_in", "ddp.average-in-copy-in", Meaning::move, Factor::ranks},
    Row{"copy_in", "", Meaning::move},
    Row{"concatenate_gradients", "", Meaning::move},
    Row{"accumulate", "", Meaning::move},
    Row{"reduce_copy_in", "", Meaning::move},
    Row{"reduce_local_copy", "", Meaning::move},
    Row{"cast_to_reduce_dtype", "", Meaning::move},
    Row{"cast_gradient", "", Meaning::move},
    Row{"add_gradient", "", Meaning::move},
    Row{"flatten", "", Meaning::move},
    Row{"keep_owned", "", Meaning::move},
    Row{"add_partition", "", Meaning::move},
    Row{"to_partition", "", Meaning::move},
    Row{"gradient_to_fp32", "", Meaning::move},
    Row{"interleave", "", Meaning::interleave},
    Row{"divide", "", Meaning::scale, Factor::ranks},
    Row{"pre_divide", "", Meaning::scale, Factor::pre},
    Row{"post_divide", "", Meaning::scale, Factor::post},
    Row{"unscale", "", Meaning::scale, Factor::unscale},
    Row{"gradient_norm", "", Meaning::norm},
    // the optimizer
    Row{"adamw", "", Meaning::adamw},
    Row{"adamw_fused", "", Meaning::adamw},
    Row{"adamw_foreach", "", Meaning::adamw},
    Row{"adamw_unfused", "", Meaning::adamw},
    Row{"copy_to_16_bit", "", Meaning::from_master},
    Row{"create_state", "", Meaning::zero},
    // DDP's second forward
    Row{"rebuild_upload", "", Meaning::order},
    Row{"rebuild_download", "", Meaning::order},
    // DDP's constructor
    Row{"upload", "", Meaning::numbers},
    Row{"download", "", Meaning::numbers},
    Row{"unflatten", "", Meaning::move},
};

// FSDP1 divides by `pre` before the reduction and by `post` after it, pre * post = W: pre doubles
// while it divides W and W / pre > pre (docs/sources.md 2.2).
int pre_division(int ranks) {
  int factor = 1;
  while (ranks % factor == 0 && ranks / factor > factor) factor *= 2;
  return factor;
}

double value_of(Factor factor, int ranks) {
  switch (factor) {
    case Factor::one: return 1;
    case Factor::ranks: return 1.0 / ranks;
    case Factor::pre: return 1.0 / pre_division(ranks);
    case Factor::unscale: return 1 / loss_scale;
    case Factor::post: return static_cast<double>(pre_division(ranks)) / ranks;
  }
  return 1;
}

}  // namespace

double loss_scale_of(const Schedule& schedule) {
  static const Name unscale("unscale");
  for (const Role& role : schedule.roles) {
    for (const Op& op : role.steps.back().ops) {
      if (op.verb == unscale) return loss_scale;
    }
  }
  return 1;
}

VerbMeaning meaning_of(const Schedule& schedule, const Op& op) {
  for (const Row& row : rows) {
    if (op.verb.str() != row.verb) continue;
    if (!row.rule.empty() && op.rule.str() != row.rule) continue;
    return {row.meaning, value_of(row.factor, schedule.mesh.world_size())};
  }
  throw std::runtime_error(fmt::format(
      "nobody has said what '{}' computes ({} of {}); runtime/train/verbs.cpp lists what is known",
      op.verb.str(), to_string(op.kind), schedule.name));
}

}  // namespace stepcast::runtime

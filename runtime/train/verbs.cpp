#include "runtime/train/verbs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>

namespace stepcast::runtime {
namespace {

// 1; 1 / DDP's divisor; 1/W; FSDP1's two divisions; 1 / loss scale
enum class Factor : std::uint8_t { one, divisor, ranks, pre, post, unscale };

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
    Row{"labels", "", Meaning::load},
    Row{"loss_item", "", Meaning::numbers},
    // parameters: casts, gathers of one rank, copies out of a gather
    Row{"cast_shard", "", Meaning::move},
    Row{"copy_out", "", Meaning::move},
    Row{"copy_together", "", Meaning::move},
    Row{"all_gather", "", Meaning::move},
    Row{"keep_slice", "", Meaning::own_part},
    Row{"keep_secondary", "", Meaning::own_part},
    // gradients: into a bucket or a flat tensor, divided, cast, kept, added
    Row{"copy_in", "ddp.average-in-copy-in", Meaning::move, Factor::divisor},
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
    Row{"divide", "ddp.hook-averages", Meaning::scale, Factor::ranks},
    Row{"divide", "", Meaning::scale, Factor::divisor},
    Row{"compress", "", Meaning::move, Factor::ranks},
    Row{"decompress", "", Meaning::move},
    Row{"zero_grad", "", Meaning::zero},
    Row{"zero_slices", "", Meaning::zero},
    Row{"join_zeros", "", Meaning::zero},
    Row{"pre_divide", "", Meaning::scale, Factor::pre},
    Row{"post_divide", "", Meaning::scale, Factor::post},
    Row{"unscale", "", Meaning::scale, Factor::unscale},
    Row{"gradient_norm", "", Meaning::norm},
    // clipping
    Row{"gradient_norms", "", Meaning::norms},
    Row{"total_norm", "", Meaning::sum_squares},
    Row{"clip_coefficient", "", Meaning::coefficient},
    Row{"clip_scale", "", Meaning::clip},
    // the optimizer
    Row{"adamw", "", Meaning::update},
    Row{"adamw_fused", "", Meaning::update},
    Row{"adamw_foreach", "", Meaning::update},
    Row{"adamw_unfused", "", Meaning::update},
    Row{"sgd", "", Meaning::update},
    Row{"sgd_momentum", "", Meaning::update},
    Row{"copy_to_16_bit", "", Meaning::from_master},
    Row{"create_state", "", Meaning::zero},
    // DDP's second forward
    Row{"rebuild_upload", "", Meaning::order},
    Row{"rebuild_download", "", Meaning::order},
    // DDP's constructor
    Row{"upload", "", Meaning::numbers},
    Row{"download", "", Meaning::numbers},
    Row{"unflatten", "", Meaning::move},
    // what DDP's ranks tell each other: which parameters were used, who is at work (join)
    Row{"used_map_upload", "", Meaning::fill},
    Row{"used_map_zero", "", Meaning::fill},
    Row{"used_map_download", "", Meaning::check},
    Row{"join_fill", "", Meaning::fill},
    Row{"join_download", "", Meaning::check},
};

// FSDP1 divides by `pre` before the reduction and by `post` after it, pre * post = W: pre doubles
// while it divides W and W / pre > pre (docs/sources.md 2.2).
int pre_division(int ranks) {
  int factor = 1;
  while (ranks % factor == 0 && ranks / factor > factor) factor *= 2;
  return factor;
}

double value_of(Factor factor, int ranks, int divisor) {
  switch (factor) {
    case Factor::one: return 1;
    case Factor::divisor: return 1.0 / divisor;
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

int ranks_at_work(const Schedule& schedule) {
  static const Name inputs("inputs");
  int ranks = 0;
  for (const Role& role : schedule.roles) {
    const std::vector<Op>& ops = role.steps.back().ops;
    const bool works =
        std::any_of(ops.begin(), ops.end(), [](const Op& op) { return op.verb == inputs; });
    if (works) ranks += role.rank_count;
  }
  return ranks;
}

int gradient_divisor(const Schedule& schedule) {
  static const Name at_work("ddp.join-divides-by-ranks-at-work");
  for (const Role& role : schedule.roles) {
    for (const Op& op : role.steps.back().ops) {
      if (op.rule == at_work) return ranks_at_work(schedule);
    }
  }
  return schedule.mesh.world_size();
}

VerbMeaning meaning_of(const Schedule& schedule, const Op& op, int divisor) {
  const std::string& verb = op.verb.str();
  for (const Row& row : rows) {
    if (verb != row.verb) continue;
    if (!row.rule.empty() && op.rule.str() != row.rule) continue;
    return {row.meaning, value_of(row.factor, schedule.mesh.world_size(), divisor)};
  }
  if (verb.rfind("powersgd_", 0) == 0) {
    throw std::runtime_error(
        "PowerSGD reduces an approximation of the gradients, so its parameters are no one rank's");
  }
  throw std::runtime_error(fmt::format(
      "nobody has said what '{}' computes ({} of {}); runtime/train/verbs.cpp lists what is known",
      verb, to_string(op.kind), schedule.name));
}

UpdateRule update_rule_of(const Schedule& schedule, const Op& op) {
  static const Name momentum("sgd_momentum");
  static const Name sgd("sgd");
  const auto kernels = schedule.at_kernels(op.kernels);
  const Name kernel = kernels.empty() ? op.verb : kernels.front().name;
  if (kernel == momentum) return UpdateRule::sgd_momentum;
  return kernel == sgd ? UpdateRule::sgd : UpdateRule::adamw;
}

}  // namespace stepcast::runtime

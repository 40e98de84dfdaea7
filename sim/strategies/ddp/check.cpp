// Options of DDP that contradict each other. Each refusal names the key the user said.

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "sim/strategies/ddp/ddp.hpp"
#include "sim/strategies/ddp/unused.hpp"

namespace stepcast::ddp {
namespace {

void require(bool holds, const char* key, const std::string& message) {
  if (!holds) throw InputError({"", 0, key}, message);
}

// What came to DDP after 1.4, or what nobody read in 1.4's source.
void check_pytorch_1_4(const StrategyOptions& o) {
  if (o.bucket_rule != BucketRule::pytorch_1_4) return;
  const auto refuse = [](bool said, const char* key) {
    require(!said, key,
            "is not in PyTorch 1.4's DDP as modelled; accepted: with another "
            "ddp_bucket_rule");
  };
  refuse(o.gradient_as_bucket_view, "gradient_as_bucket_view");
  refuse(o.static_graph, "static_graph");
  refuse(o.find_unused_parameters, "find_unused_parameters");
  refuse(o.comm_hook != CommHook::none, "comm_hook");
  refuse(o.join_early_ranks.has_value(), "join_early_ranks");
  refuse(o.small_last_bucket, "ddp_set_last_bucket_cap");
}

void check_buckets(const StrategyOptions& o) {
  const bool older = o.bucket_rule != BucketRule::current;
  const bool list = !o.bucket_caps_mib.empty();
  require(std::all_of(o.bucket_caps_mib.begin(), o.bucket_caps_mib.end(),
                      [](double mib) { return mib > 0 && mib <= 1e9; }),
          "bucket_cap_mb_list", "accepted: sizes above 0 MiB");
  require(!list || !o.bucket_cap_mib, "bucket_cap_mb_list",
          "cannot be said beside bucket_cap_mb; accepted: one of them");
  require(!list || !o.first_bucket_mib, "bucket_cap_mb_list",
          "cannot be said beside first_bucket_mb; accepted: the list alone");
  require(!list || !older, "bucket_cap_mb_list",
          "is not in PyTorch up to 1.13; accepted: with ddp_bucket_rule current");
  require(!o.batched_grad_copy || !older, "batched_grad_copy",
          "is not in PyTorch up to 1.13; accepted: with ddp_bucket_rule current");
}

void check_hook(const StrategyOptions& o) {
  require(o.powersgd_rank >= 1, "powersgd_rank",
          fmt::format("{} is out of range; accepted: 1 or more", o.powersgd_rank));
  require(o.powersgd_min_compression_rate > 0, "powersgd_min_compression_rate",
          "accepted: above 0");
}

void check_ranks(const TrainingStep& step) {
  const StrategyOptions& o = step.strategy;
  const int world = step.mesh.world_size();
  require(o.unused_on_ranks.empty() || !o.unused_parameters.empty(), "unused_on_ranks",
          "says where unused_parameters are unused, and none are named");
  if (!o.join_early_ranks) {
    require(o.join_divides_by_initial_world_size, "join_divide_by_initial_world_size",
            "applies under join only; accepted: with join_early_ranks");
    return;
  }
  const int early = *o.join_early_ranks;
  require(early >= 0 && early < world, "join_early_ranks",
          fmt::format("{} is out of range; accepted: 0 to {}, as one rank is still at work", early,
                      world - 1));
  require(early == 0 || !step.first_step, "join_early_ranks",
          "no rank has joined in the first step; accepted: 0, or step steady");
  require(o.unused_parameters.empty(), "join_early_ranks",
          "cannot be said beside unused_parameters; accepted: one of them");
}

}  // namespace

void check_options(const TrainingStep& step) {
  check_buckets(step.strategy);
  check_pytorch_1_4(step.strategy);
  check_hook(step.strategy);
  check_ranks(step);
  static_cast<void>(unused_parameters(step));  // names and ranks
}

}  // namespace stepcast::ddp

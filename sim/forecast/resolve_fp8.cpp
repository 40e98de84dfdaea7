#include "sim/forecast/resolve_fp8.hpp"

#include <fmt/format.h>

#include <map>

#include "sim/forecast/resolve_strategy.hpp"
#include "sim/kernels/kernel_cost.hpp"
#include "sim/report/format.hpp"
#include "sim/strategies/common/fp8_scales.hpp"

namespace stepcast {

namespace {

Fp8Recipe parse_recipe(const std::string& text) {
  if (text == "te-delayed") return Fp8Recipe::te_delayed;
  return text == "torchao-tensorwise" ? Fp8Recipe::torchao_tensorwise : Fp8Recipe::none;
}

void check_model(const Scenario& s, const Model& model) {
  const Where where = s.where("fp8");
  if (fp8_weights(model) == 0) {
    throw InputError(where, fmt::format("{} has no blocks with linear layers whose sizes are "
                                        "multiples of 16; accepted: none",
                                        model.name));
  }
}

void check_all_gather(const Scenario& s, Fp8Recipe recipe) {
  const bool gathers = s.fp8_all_gather.value_or(false);
  if (gathers && recipe != Fp8Recipe::torchao_tensorwise) {
    throw InputError(s.where("fp8_all_gather"),
                     fmt::format("needs fp8 torchao-tensorwise, and fp8 is {}", to_string(recipe)));
  }
  if (s.fp8_precompute_scale.value_or(false) && !gathers) {
    throw InputError(s.where("fp8_precompute_scale"), "needs fp8_all_gather");
  }
}

// Kernels of all blocks, forward and backward of one micro-batch.
Seconds block_seconds(const Model& model, const Workload& workload, const KernelModel& kernels) {
  std::map<int, Seconds> of_kind;
  Seconds all = 0;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const Layer& layer = model.layers[i];
    if (layer.kind != LayerKind::block) continue;
    const auto [known, is_new] = of_kind.emplace(layer.block_kind, 0.0);
    if (is_new) {
      const LayerWork work = work_of(model, static_cast<int>(i), workload);
      for (const auto* list : {&work.forward, &work.recompute}) {
        for (const Kernel& kernel : *list) known->second += kernels.cost(kernel).seconds;
      }
      for (const BackwardKernel& b : work.backward) {
        known->second += kernels.cost(b.kernel).seconds;
      }
    }
    all += known->second;
  }
  return all;
}

// Where the casts cost more than the products save: nobody asks for fp8 to be slower.
void say_if_slower(Resolved& r) {
  const KernelModel kernels(r.cluster.machine.gpu, r.profile);
  const Workload& fp8 = r.step.workload;
  Workload without = fp8;
  without.fp8 = Fp8Recipe::none;
  without.fp8_gathered = false;
  const Seconds with_casts = block_seconds(r.step.model, fp8, kernels);
  const Seconds plain = block_seconds(r.step.model, without, kernels);
  if (with_casts <= plain) return;
  const bool eager = fp8.fp8 == Fp8Recipe::torchao_tensorwise && !fp8.fused_elementwise;
  r.notes.push_back(fmt::format(
      "fp8 is slower than {0} here: kernels of the blocks take {1} a micro-batch, {2} in {0}; {3}",
      to_string(fp8.compute_dtype), human_seconds(with_casts), human_seconds(plain),
      eager ? "eager torchao passes over a tensor for every operation of a cast, which compiled "
              "software (--profile pytorch-compile) does in one kernel"
            : "casts of so few tokens cost more than the products save"));
}

}  // namespace

void resolve_fp8(const Scenario& s, const StrategyChoice& strategy, Resolved& r) {
  const Fp8Recipe recipe = parse_recipe(s.fp8.value_or("none"));
  // Under a strategy that has no such options, resolve_strategy_options() says so.
  if (strategy_takes("fp8_all_gather", strategy)) check_all_gather(s, recipe);
  if (recipe == Fp8Recipe::none) return;
  const Where where = s.where("fp8");
  const Gpu& gpu = r.cluster.machine.gpu;
  if (!gpu.peak_fp8) {
    throw InputError(where, fmt::format("'{}' needs matrix products in fp8, which {} does not "
                                        "have; accepted: none",
                                        to_string(recipe), gpu.full_name));
  }
  const Precision& precision = r.step.precision;
  if (precision.compute != Dtype::bf16 && precision.compute != Dtype::fp16) {
    throw InputError(where,
                     fmt::format("'{}' is beside a 16-bit precision, and the precision is {}; "
                                 "accepted: none, or a bf16 or fp16 precision",
                                 to_string(recipe), precision.name));
  }
  check_model(s, r.step.model);
  if (recipe == Fp8Recipe::te_delayed && s.join_early_ranks.value_or(0) > 0) {
    throw InputError(s.where("join_early_ranks"),
                     "ranks that have joined take no part in te-delayed's all-reduce of scales, "
                     "which would hang; accepted: 0");
  }
  r.step.workload.fp8 = recipe;
  r.step.workload.fp8_gathered = s.fp8_all_gather.value_or(false);
  r.notes.push_back(fmt::format(
      "fp8 {}: {} weights of blocks multiply in fp8; products of experts, the head, attention and "
      "norms stay in {}; MFU is of the {} peak",
      to_string(recipe), fp8_weights(r.step.model), to_string(precision.compute),
      to_string(precision.compute)));
  say_if_slower(r);
}

}  // namespace stepcast

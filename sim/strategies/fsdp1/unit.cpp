#include "sim/strategies/fsdp1/unit.hpp"

#include "sim/strategies/common/layouts.hpp"
#include "sim/strategies/common/optimizer.hpp"
#include "sim/strategies/fsdp1/size_policy.hpp"

namespace stepcast::fsdp1 {

Policy policy_of(ShardingStrategy strategy) {
  switch (strategy) {
    case ShardingStrategy::full_shard:
    case ShardingStrategy::hybrid_shard: return {true, true};
    case ShardingStrategy::shard_grad_op:
    case ShardingStrategy::hybrid_shard_zero2: return {true, false};
    case ShardingStrategy::no_shard: return {false, false};
  }
  return {};
}

std::vector<Unit> declare_units(ScheduleBuilder& builder, const TrainingStep& step,
                                const Streams& streams) {
  const int ranks = step.mesh.shard;
  const Precision& p = step.precision;
  const bool sharded = policy_of(step.strategy.sharding).sharded;
  std::vector<Unit> units;
  const std::optional<std::int64_t> size = step.strategy.wrap_min_params;
  for (WrapUnit& wrap :
       size ? wrap_by_size(step.model, *size) : wrap_units(step.model, step.strategy.wrap)) {
    if (wrap.parameters.empty()) continue;
    Unit unit;
    unit.name = builder.unit(wrap.name);
    std::vector<std::int64_t> numels;
    for (const int index : wrap.parameters) {
      numels.push_back(step.model.parameters[static_cast<std::size_t>(index)].elements());
    }
    unit.flat = flatten(numels, ranks, p.gather, step.strategy.use_orig_params);
    const std::string suffix = "." + wrap.name.str();
    const std::int64_t full = unit.flat.padded_elements;
    const std::int64_t part = unit.flat.shard_elements;
    const auto make = [&](const char* name, BufferKind kind, Dtype dtype, std::int64_t elements,
                          StreamIndex pool) {
      return builder.buffer(name + suffix, kind, dtype, elements * bytes_per_element(dtype), pool);
    };
    unit.shard = builder.persistent("shard" + suffix, BufferKind::parameter, p.parameter,
                                    part * bytes_per_element(p.parameter));
    unit.state =
        declare_optimizer_state(builder, step, "optimizer_state" + suffix, part, streams.compute);
    if (p.gather != p.parameter) {
      unit.low_precision = make("low_precision_shard", BufferKind::gather_output, p.gather, part,
                                streams.pre_unshard);
    }
    // Unsharded and in the right dtype already: NO_SHARD without mixed precision computes on the
    // shard itself.
    unit.unsharded = !sharded && unit.low_precision < 0 ? unit.shard
                                                        : make("unsharded", BufferKind::unsharded,
                                                               p.gather, full, streams.unshard);
    unit.flat_gradient =
        make("flat_gradient", BufferKind::gradient, p.gradient, full, streams.compute);
    if (p.reduce != p.gradient) {
      unit.cast_gradient =
          make("cast_gradient", BufferKind::reduce_input, p.reduce, full, streams.post_backward);
    }
    unit.scattered =
        make("scattered", BufferKind::reduce_output, p.reduce, part, streams.post_backward);
    unit.gradient_shard =
        make("gradient_shard", BufferKind::gradient, p.parameter, part, streams.post_backward);
    std::vector<Placed> placed;
    for (std::size_t i = 0; i < numels.size(); ++i) {
      placed.push_back({wrap.parameters[i], numels[i], unit.flat.offsets[i], 0});
    }
    builder.layout(unit.shard, Cut::flat, Axis::shard, part, placed);
    if (unit.unsharded != unit.shard) whole_layout(builder, unit.unsharded, placed);
    whole_layout(builder, unit.flat_gradient, placed);
    unit.wrap = std::move(wrap);
    units.push_back(std::move(unit));
  }
  return units;
}

}  // namespace stepcast::fsdp1

#include "sim/strategies/fsdp2/unit.hpp"

#include <fmt/format.h>

#include "sim/strategies/common/layouts.hpp"
#include "sim/strategies/common/optimizer.hpp"

namespace stepcast::fsdp2 {
namespace {

// Padding beyond this share of the model is worth a sentence in the report.
constexpr double notable_padding = 0.01;

void note_padding(ScheduleBuilder& builder, const std::vector<Unit>& units, int ranks) {
  std::int64_t elements = 0;
  std::int64_t padded = 0;
  const Unit* worst = nullptr;
  for (const Unit& unit : units) {
    elements += unit.size.elements;
    padded += unit.size.padded_elements;
    const auto ratio = [](const Unit& u) {
      return static_cast<double>(u.size.padded_elements) /
             static_cast<double>(std::max<std::int64_t>(u.size.elements, 1));
    };
    if (worst == nullptr || ratio(unit) > ratio(*worst)) worst = &unit;
  }
  if (static_cast<double>(padded) <= (1.0 + notable_padding) * static_cast<double>(elements))
    return;
  builder.note(fmt::format(
      "rows are padded to the shard group of {} ranks: unit {} gathers {} elements, not {} "
      "({:.2f} times; the whole model {:.2f} times)",
      ranks, worst->wrap.name.str(), worst->size.padded_elements, worst->size.elements,
      static_cast<double>(worst->size.padded_elements) / static_cast<double>(worst->size.elements),
      static_cast<double>(padded) / static_cast<double>(elements)));
}

// Rows of each parameter: a rank's in the shard, every rank's after a gather and before a
// reduce-scatter, and together again (padded at their end) where compute uses them.
void declare_layouts(ScheduleBuilder& builder, const TrainingStep& step, const Unit& unit,
                     const WrapUnit& wrap) {
  const int ranks = shard_ranks(step);
  // Under reshard_after_forward = n the shard axis is the group of n.
  const Axis axis = ranks == step.mesh.shard ? Axis::shard : Axis::world;
  const int within = step.strategy.reshard_group;
  std::vector<Placed> chunks;
  std::vector<Placed> slices;
  std::vector<Placed> whole;
  std::int64_t part = 0;
  std::int64_t slice_part = 0;
  for (const int index : wrap.parameters) {
    const ShardedParameter sharded =
        shard_dim0(step.model.parameters[static_cast<std::size_t>(index)].shape, ranks);
    const std::int64_t chunk = sharded.rows_per_rank * sharded.row_elements;
    chunks.push_back({index, sharded.elements, part, chunk});
    whole.push_back({index, sharded.elements, part * ranks, 0});
    part += chunk;
    if (unit.slice < 0) continue;
    slices.push_back({index, sharded.elements, slice_part, sharded.padded_elements / within});
    slice_part += sharded.padded_elements / within;
  }
  builder.layout(unit.shard, Cut::chunks, axis, part, chunks);
  builder.layout(unit.gathered, Cut::by_rank, axis, part, chunks);
  builder.layout(unit.reduce_input, Cut::by_rank, axis, part, chunks);
  if (unit.slice >= 0) {
    builder.layout(unit.slice, Cut::chunks, Axis::shard, slice_part, slices);
    builder.layout(unit.regathered, Cut::by_rank, Axis::shard, slice_part, slices);
  }
  whole_layout(builder, unit.unsharded, whole);
  if (unit.accumulated >= 0) {
    whole_layout(builder, unit.accumulated, one_after_another(step.model, wrap.parameters));
  }
}

}  // namespace

// Under fp8 all-gather a block's linears are cast before they are gathered. FSDP2 then gathers
// bytes (uint8), since a group's tensors have several dtypes. Norms' weights, a few KB a block,
// travel in the compute dtype; they are counted with the rest at one byte.
Dtype gather_dtype(const TrainingStep& step, const WrapUnit& wrap) {
  if (!step.strategy.fp8_all_gather || wrap.layers.empty()) return step.precision.gather;
  for (const int layer : wrap.layers) {
    if (step.model.layers[static_cast<std::size_t>(layer)].kind != LayerKind::block) {
      return step.precision.gather;
    }
  }
  return Dtype::int8;
}

int shard_ranks(const TrainingStep& step) {
  return step.strategy.kind == StrategyKind::hsdp ? step.mesh.shard : step.mesh.world_size();
}

std::vector<Unit> declare_units(ScheduleBuilder& builder, const TrainingStep& step,
                                const Streams& streams) {
  const int ranks = shard_ranks(step);
  const Precision& p = step.precision;
  std::vector<Unit> units;
  for (WrapUnit& wrap : wrap_units(step.model, step.strategy.wrap)) {
    if (wrap.parameters.empty()) continue;
    Unit unit;
    unit.name = builder.unit(wrap.name);
    unit.size = unit_size(step.model, wrap, ranks);
    unit.gather = gather_dtype(step, wrap);
    const std::string suffix = "." + wrap.name.str();
    const std::int64_t full = unit.size.padded_elements;
    const std::int64_t part = unit.size.shard_elements(ranks);
    const auto bytes = [](std::int64_t elements, Dtype dtype) {
      return elements * bytes_per_element(dtype);
    };
    unit.shard = builder.persistent("shard" + suffix, BufferKind::parameter, p.parameter,
                                    bytes(part, p.parameter));
    unit.state =
        declare_optimizer_state(builder, step, "optimizer_state" + suffix, part, streams.compute);
    if (unit.gather != p.parameter) {
      unit.cast_shard = builder.buffer("cast_shard" + suffix, BufferKind::gather_output,
                                       unit.gather, bytes(part, unit.gather), streams.copy_in);
    }
    unit.gathered = builder.buffer("gathered" + suffix, BufferKind::gather_output, unit.gather,
                                   bytes(full, unit.gather), streams.copy_in);
    unit.unsharded = builder.buffer("unsharded" + suffix, BufferKind::unsharded, unit.gather,
                                    bytes(full, unit.gather), streams.compute);
    const int within = step.strategy.reshard_group;
    if (within > 0 && !wrap.root && !wrap.keep_after_forward) {
      unit.slice = builder.buffer("slice" + suffix, BufferKind::unsharded, unit.gather,
                                  bytes(full / within, unit.gather), streams.compute);
      unit.regathered = builder.buffer("regathered" + suffix, BufferKind::gather_output,
                                       unit.gather, bytes(full, unit.gather), streams.copy_in);
    }
    unit.unshard_in_backward =
        step.strategy.unshard_embedding_in_backward || wrap.layers.size() != 1 ||
        step.model.layers[static_cast<std::size_t>(wrap.layers.front())].kind !=
            LayerKind::embedding;
    if (step.accumulation > 1 && step.strategy.accumulation_sync == AccumulationSync::last) {
      unit.accumulated = builder.buffer("accumulated" + suffix, BufferKind::gradient, p.reduce,
                                        bytes(unit.size.elements, p.reduce), streams.compute);
    }
    unit.reduce_input = builder.buffer("reduce_input" + suffix, BufferKind::reduce_input, p.reduce,
                                       bytes(full, p.reduce), streams.compute);
    if (p.reduce != p.parameter) {
      unit.reduce_output = builder.buffer("reduce_output" + suffix, BufferKind::reduce_output,
                                          p.reduce, bytes(part, p.reduce), streams.reduce_scatter);
    }
    unit.gradient_shard =
        builder.buffer("gradient_shard" + suffix, BufferKind::gradient, p.parameter,
                       bytes(part, p.parameter), streams.reduce_scatter);
    if (step.accumulation > 1 && step.strategy.accumulation_sync != AccumulationSync::last) {
      unit.fresh_shard = builder.buffer("fresh_shard" + suffix, BufferKind::reduce_output, p.reduce,
                                        bytes(part, p.reduce), streams.reduce_scatter);
    }
    declare_layouts(builder, step, unit, wrap);
    unit.wrap = std::move(wrap);
    units.push_back(std::move(unit));
  }
  note_padding(builder, units, ranks);
  return units;
}

}  // namespace stepcast::fsdp2

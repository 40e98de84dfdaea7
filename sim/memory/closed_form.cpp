#include "sim/memory/closed_form.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/error.hpp"

namespace stepcast {
namespace {

constexpr std::int64_t most_parameters = 1'000'000'000'000'000;

void check(const char* key, std::int64_t value, std::int64_t most, std::int64_t least = 1) {
  if (value >= least && value <= most) return;
  throw InputError({{}, 0, key},
                   fmt::format("{} is out of range; accepted: {} to {}", value, least, most));
}

StateRecipe recipe(const char* name, Bytes parameter, Bytes gradient, Bytes optimizer,
                   Bytes bucket = 0, Bytes gathered = 0) {
  StateRecipe result;
  result.name = name;
  result.parameter = parameter;
  result.gradient = gradient;
  result.optimizer = optimizer;
  result.bucket = bucket;
  result.gathered = gathered;
  return result;
}

}  // namespace

StateRecipe mixed_16bit() { return recipe("16-bit, fp32 master", 2, 2, 12); }
StateRecipe autocast() { return recipe("fp32, autocast", 4, 4, 8, 4, 2); }
StateRecipe pure_bf16() { return recipe("bf16 throughout", 2, 2, 4, 2); }
StateRecipe fp32_main_gradients() { return recipe("16-bit, fp32 main gradients", 2, 4, 12); }
StateRecipe fp32_shard() { return recipe("fp32 shard, bf16 gathered", 4, 4, 8, 0, 2); }
StateRecipe zero2_estimator() { return recipe("DeepSpeed's estimator", 2, 6, 12); }
StateRecipe zero3_estimator() { return recipe("DeepSpeed's estimator", 2, 4, 12); }

std::string_view to_string(Partition partition) {
  switch (partition) {
    case Partition::nothing: return "nothing sharded";
    case Partition::optimizer: return "optimizer state sharded";
    case Partition::optimizer_and_gradients: return "optimizer state and gradients sharded";
    case Partition::everything: return "fully sharded";
  }
  return "";
}

StateBytes persistent_state(std::int64_t parameters, Partition partition, std::int64_t shards,
                            const StateRecipe& recipe) {
  check("parameters", parameters, most_parameters);
  check("shards", shards, most_parameters);
  const std::int64_t shard = ceil_div(parameters, shards);
  const auto held = [&](Partition from) { return partition >= from ? shard : parameters; };
  StateBytes bytes;
  bytes.optimizer = recipe.optimizer * held(Partition::optimizer);
  bytes.gradients = recipe.gradient * held(Partition::optimizer_and_gradients);
  bytes.parameters = recipe.parameter * held(Partition::everything);
  return bytes;
}

Bytes StateRow::framework_always() const {
  Bytes sum = framework.total();
  for (const StateExtra& extra : extras) sum += extra.always ? extra.bytes : 0;
  return sum;
}

Bytes StateRow::framework_in_step() const {
  Bytes sum = framework.total();
  for (const StateExtra& extra : extras) sum += extra.bytes;
  return sum;
}

std::vector<StateRow> state_table(const TableSizes& sizes) {
  const std::int64_t psi = sizes.parameters;
  const std::int64_t world = sizes.world;
  const std::int64_t group = sizes.shard_group;
  check("shard group", group, world);
  check("root parameters", sizes.root_parameters, psi, 0);
  check("largest layer", sizes.largest_layer, psi, 0);
  std::vector<StateRow> rows;
  const auto row = [&](const char* strategy, Partition partition, std::int64_t shards,
                       const StateRecipe& kept, std::vector<StateExtra> extras = {}) {
    StateRow result;
    result.strategy = strategy;
    result.recipe = kept.name;
    result.textbook = persistent_state(psi, partition, shards, mixed_16bit());
    result.framework = persistent_state(psi, partition, shards, kept);
    for (StateExtra& extra : extras) {
      if (extra.bytes > 0) result.extras.push_back(std::move(extra));
    }
    rows.push_back(std::move(result));
  };
  const auto buckets = [&](const StateRecipe& kept) {
    return StateExtra{"reducer buckets (none beside the gradients with gradient_as_bucket_view)",
                      kept.bucket * psi, true};
  };
  const Bytes gathered = fp32_shard().gathered;
  const StateExtra root{"the root unit stays unsharded", gathered * sizes.root_parameters, false};

  row("ddp", Partition::nothing, 1, mixed_16bit());
  row("ddp", Partition::nothing, 1, autocast(),
      {buckets(autocast()), {"autocast's copies of weights", autocast().gathered * psi, false}});
  row("ddp", Partition::nothing, 1, pure_bf16(), {buckets(pure_bf16())});
  row("ddp", Partition::nothing, 1, fp32_main_gradients());
  row("distributed optimizer", Partition::optimizer, world, fp32_main_gradients());
  row("zero1", Partition::optimizer, world, mixed_16bit());
  row("zero2", Partition::optimizer_and_gradients, world, mixed_16bit());
  row("zero3", Partition::everything, world, mixed_16bit());
  row("zero3 hpZ", Partition::everything, world, mixed_16bit(),
      {{"a second shard of the parameters within the group", 2 * ceil_div(psi, group), true}});
  row("zero2", Partition::optimizer_and_gradients, world, zero2_estimator());
  row("zero3", Partition::everything, world, zero3_estimator(),
      {{"the largest layer's parameters, gathered", 4 * sizes.largest_layer, true}});
  row("fsdp full_shard, fsdp2", Partition::everything, world, fp32_shard(), {root});
  row("fsdp shard_grad_op", Partition::everything, world, fp32_shard(),
      {{"parameters stay unsharded from forward to backward", gathered * psi, false}});
  row("hsdp", Partition::everything, group, fp32_shard(), {root});
  row("fsdp no_shard", Partition::nothing, 1, fp32_shard());
  return rows;
}

UnitTransients fsdp2_transients(std::int64_t elements, Dtype gather, Dtype gradient, Dtype reduce) {
  check("elements", elements, most_parameters);
  UnitTransients unit;
  unit.gather_output = elements * bytes_per_element(gather);
  unit.unsharded = unit.gather_output;
  unit.gradients = elements * bytes_per_element(gradient);
  unit.reduce_input = elements * bytes_per_element(reduce);
  unit.forward_peak = 2 * unit.gather_output + unit.unsharded;
  unit.backward_peak = unit.unsharded + unit.gather_output + unit.gradients + unit.reduce_input;
  unit.copy_out_traffic = unit.gather_output + unit.unsharded;
  unit.reduce_copy_in_traffic = unit.gradients + unit.reduce_input;
  return unit;
}

ZeroTransients zero12_transients(std::int64_t parameters, std::int64_t world,
                                 std::int64_t bucket_elements, bool overlap_comm) {
  check("parameters", parameters, most_parameters);
  check("world size", world, most_parameters);
  check("bucket elements", bucket_elements, most_parameters);
  const Bytes bucket = 2 * bucket_elements;
  return {overlap_comm ? 2 * bucket : bucket, bucket, 4 * ceil_div(parameters, world),
          2 * ceil_div(parameters, world)};
}

}  // namespace stepcast

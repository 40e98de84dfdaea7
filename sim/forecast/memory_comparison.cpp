#include "sim/forecast/memory_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "sim/forecast/fit.hpp"
#include "sim/memory/closed_form.hpp"

namespace stepcast {
namespace {

// DeepSpeed's defaults.
constexpr std::int64_t reduce_bucket = 500'000'000;  // elements
constexpr std::int64_t max_live = 1'000'000'000;

class Rows {
 public:
  explicit Rows(const MemoryComparison& c)
      : q_(c.question),
        psi_(c.question.parameters),
        world_(c.question.gpus),
        group_(c.question.shard_group),
        unit_(c.unit_parameters),
        root_(c.root_parameters) {}

  std::vector<MemoryComparisonRow> all() {
    replicated();
    zero();
    fsdp();
    return std::move(rows_);
  }

 private:
  // What the framework's states are, what is beside them always, and within a step at most.
  void add(const char* strategy, const char* formula, Partition partition, std::int64_t shards,
           const StateRecipe& recipe, Bytes always, Bytes in_step, std::string reason) {
    MemoryComparisonRow& row = rows_.emplace_back();
    row.strategy = strategy;
    row.formula = formula;
    row.precision =
        fmt::format("{} + {} + {}", recipe.parameter, recipe.gradient, recipe.optimizer);
    row.textbook = persistent_state(psi_, partition, shards, mixed_16bit()).total();
    row.framework = persistent_state(psi_, partition, shards, recipe).total() + always;
    row.in_step = row.framework + in_step;
    row.reason = std::move(reason);
  }

  // Under no_sync (accumulation_sync last, the default) whole gradients wait on every GPU for the
  // last micro-batch. FSDP1 keeps them as backward makes them, FSDP2 in the reduce dtype.
  Bytes kept(StrategyKind kind) const {
    if (q_.accumulation == 1) return 0;
    const Precision precision = precision_recipe(default_precision(kind));
    return psi_ *
           bytes_per_element(kind == StrategyKind::fsdp1 ? precision.gradient : precision.reduce);
  }
  std::string kept_hint(StrategyKind kind) const {
    if (q_.accumulation == 1) return "";
    return fmt::format(
        "; until the last micro-batch the gradients are kept whole, {}Ψ (none with "
        "accumulation_sync every)",
        kept(kind) / psi_);
  }

  void replicated() {
    if (q_.has_dp()) {
      // GPU 0's gradients are there as backward made them and as they come back reduced; of a later
      // micro-batch also the sum so far.
      const Bytes gradients = autocast().gradient * psi_;
      add("dp", "16Ψ on GPU 0", Partition::nothing, 1, autocast(), 0,
          q_.accumulation > 1 ? 2 * gradients : gradients,
          fmt::format("GPU 0's row: fp32 parameters, gradients and two moments; at the end of "
                      "backward its own gradients beside the reduced ones (4Ψ{}). The others hold "
                      "nothing between steps, and within one a replica and its gradients, 8Ψ",
                      q_.accumulation > 1 ? ", and 4Ψ of the sum over micro-batches" : ""));
    }
    add("ddp", "16Ψ", Partition::nothing, 1, autocast(), autocast().bucket * psi_,
        autocast().gathered * psi_,
        "fp32 parameters, gradients and two moments make 16Ψ as well; the reducer's buckets are a "
        "second copy of the gradients (4Ψ, none with gradient_as_bucket_view), autocast's 16-bit "
        "copies of the weights up to 2Ψ in forward");
  }

  void zero() {
    const std::int64_t bucket = std::min(reduce_bucket, psi_);
    const ZeroTransients z = zero12_transients(psi_, world_, bucket, false);
    const Bytes in_step = std::max(z.buckets + z.flatten, z.step_slice + z.step_flatten);
    const auto reason = [](const char* gradients) {
      return fmt::format(
          "{}; within a step a bucket of reduce_bucket_size 5e8 elements and its flat copy (1 GB "
          "each; overlap_comm has two buckets), and in the optimizer 2Ψ/N of flattened and 4Ψ/N of "
          "fp32 gradients",
          gradients);
    };
    add("zero1", "(4 + 12/N)Ψ", Partition::optimizer, world_, mixed_16bit(), 0, in_step,
        reason("the states agree"));
    add("zero2", "(2 + 14/N)Ψ", Partition::optimizer_and_gradients, world_, mixed_16bit(), 0,
        in_step, reason("the states agree (DeepSpeed's estimator adds an fp32 gradient: 18/N)"));
    const Bytes live = 2 * std::min(max_live, psi_);
    const Bytes zero3_in_step = 2 * z.buckets + live;
    add("zero3", "16Ψ/N", Partition::everything, world_, mixed_16bit(), 0, zero3_in_step,
        "the states agree; within a step up to stage3_max_live_parameters 1e9 gathered parameters "
        "(2 GB), the gradient bucket of 5e8 elements and the reduce-scatter's copy of it (1 GB "
        "each)");
    if (!q_.has_hpz()) return;
    add("zero3 hpZ", "16Ψ/N + 2Ψ/g", Partition::everything, world_, mixed_16bit(), 0,
        zero3_in_step + 2 * ceil_div(psi_, group_),
        "zero3, and from a parameter's first release to the optimizer a second 16-bit shard of it "
        "within the group g: 2Ψ/g (zero_hpz_partition_size)");
    // The textbook's count of it has the second shard among the states.
    rows_.back().textbook += 2 * ceil_div(psi_, group_);
  }

  void fsdp() {
    const StateRecipe shard = fp32_shard();
    const Bytes root = shard.gathered * root_;
    const std::string unit_hint = unit_ > 0 ? "" : " (a model says how much)";
    add("fsdp1 NO_SHARD", "16Ψ", Partition::nothing, 1, shard, 0, shard.gathered * psi_,
        "the states agree; within a step the parameters are there in 16 bit as well");
    add("fsdp1 SHARD_GRAD_OP", "(2 + 14/N)Ψ", Partition::everything, world_, shard, 0,
        shard.gathered * psi_ + kept(StrategyKind::fsdp1),
        "between steps everything is sharded, parameters too: 16Ψ/N; from forward to the end of "
        "each unit's backward the 16-bit parameters stay whole: 2Ψ more" +
            kept_hint(StrategyKind::fsdp1));
    // The textbook's count of it is ZeRO-2's.
    rows_.back().textbook =
        persistent_state(psi_, Partition::optimizer_and_gradients, world_, mixed_16bit()).total();
    add("fsdp1 FULL_SHARD", "16Ψ/N", Partition::everything, world_, shard, 0,
        root + 12 * unit_ + kept(StrategyKind::fsdp1),
        "the states agree; within a step the root unit stays whole (2Ψ_root) and a unit in "
        "backward takes 12 bytes a parameter, more without the limiter: flat parameters of two "
        "units, gradients, their concatenation and its fp32 cast" +
            unit_hint + kept_hint(StrategyKind::fsdp1));
    add("fsdp2", "16Ψ/N", Partition::everything, world_, shard, 0,
        root + 10 * unit_ + kept(StrategyKind::fsdp2),
        "the states agree; within a step the root unit stays whole (2Ψ_root) and a unit in "
        "backward takes 10 bytes a parameter: unsharded, next gather, gradients, fp32 reduce "
        "input" +
            unit_hint + kept_hint(StrategyKind::fsdp2));
    add("hsdp", "16Ψ/g", Partition::everything, group_, shard, 0,
        root + 10 * unit_ + kept(StrategyKind::hsdp),
        "fsdp2 within the shard group g: the states do not shrink with more groups" +
            kept_hint(StrategyKind::hsdp));
  }

  const Compared& q_;
  std::int64_t psi_, world_, group_, unit_, root_;
  std::vector<MemoryComparisonRow> rows_;
};

void add_units(MemoryComparison& c) {
  if (!c.question.loaded) return;
  const Model& model = *c.question.loaded;
  for (const WrapUnit& unit : wrap_units(model, WrapPolicy::block)) {
    std::int64_t elements = 0;
    for (const int p : unit.parameters) {
      elements += model.parameters[static_cast<std::size_t>(p)].elements();
    }
    if (unit.root) {
      c.root_parameters = elements;
    } else {
      c.unit_parameters = std::max(c.unit_parameters, elements);
    }
  }
}

void add_peaks(const Scenario& scenario, MemoryComparison& c) {
  if (!c.question.loaded || !c.question.cluster) return;
  for (const StrategyVariant& variant : compared_strategies(c.question)) {
    const auto row = std::find_if(c.rows.begin(), c.rows.end(), [&](const MemoryComparisonRow& r) {
      return r.strategy == variant.name;
    });
    STEPCAST_ASSERT(row != c.rows.end(), "a compared strategy without a row: " + variant.name);
    try {
      const Resolved r = resolve(with_strategy(scenario, variant, c.question.shard_group));
      for (const RoleMemory& role : memory_of_roles(r, build_schedule(r.step))) {
        if (row->peak && *row->peak >= role.peak) continue;
        row->peak = role.peak;
        row->peak_role = role.role;
      }
    } catch (const InputError& error) {
      row->not_built = error.what();
    }
  }
}

}  // namespace

MemoryComparison memory_comparison(const Scenario& scenario, std::optional<LoadMode> load) {
  MemoryComparison c;
  c.question = compared(scenario);
  add_units(c);
  c.rows = Rows(c).all();
  add_peaks(scenario, c);
  HostLoadQuestion question;
  question.parameters = c.question.parameters;
  question.bytes_per_parameter = c.load_bytes_per_parameter;
  question.ranks_per_node = std::min(c.question.gpus, c.question.gpus_per_node);
  question.shards = c.question.gpus;
  c.host = load ? std::vector<HostLoad>{host_bytes_at_load(question, *load)}
                : host_bytes_at_load(question);
  if (c.question.cluster) c.host_capacity = c.question.cluster->machine.host_memory_bytes;
  return c;
}

}  // namespace stepcast

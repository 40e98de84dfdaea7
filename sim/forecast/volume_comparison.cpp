#include "sim/forecast/volume_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "sim/collectives/volume.hpp"

namespace stepcast {
namespace {

class Rows {
 public:
  explicit Rows(const Compared& q) : q_(q) {}

  std::vector<VolumeComparisonRow> all() {
    using S = VolumeStrategy;
    const VolumeSync last = q_.accumulation > 1 ? VolumeSync::last : VolumeSync::every;
    const VolumeSync every = VolumeSync::every;
    const std::string again =
        q_.accumulation > 1 ? "; gradients are reduced in every micro-batch" : "";
    if (q_.has_dp()) data_parallel();
    add("ddp", "2Ψ", S::ddp, S::ddp, last, 4, "1 all-reduce fp32",
        "PyTorch's AMP keeps gradients in fp32 and reduces them so: twice the 16-bit bytes (a "
        "bf16 or fp16 compress hook halves them)");
    add("zero1", "2Ψ", S::shard_grad_op, S::zero1, last, 2, "1 all-reduce, 1 all-gather",
        "DeepSpeed all-reduces each bucket (use_multi_rank_bucket_allreduce) instead of "
        "reduce-scattering it, so a reduction costs 2Ψ; the parameters are all-gathered at the "
        "step");
    add("zero2", "2Ψ", S::shard_grad_op, S::zero2, every, 2, "1 all-reduce, 1 all-gather",
        "as zero1: each bucket is all-reduced; with use_multi_rank_bucket_allreduce false it is "
        "reduced to its owners, 2Ψ in all" +
            again);
    add("zero3", "3Ψ", S::full_shard, S::zero3, every, 2, "2 all-gather, 1 reduce-scatter",
        "the same; parameters that are used again within stage3_max_reuse_distance 1e9 are "
        "gathered once, so a model below 0.5e9 sends 2Ψ" +
            again);
    if (q_.has_hpz()) secondary(again);
    add("fsdp1 NO_SHARD", "2Ψ", S::ddp, S::ddp, last, fsdp1_reduce(), "1 all-reduce" + in_fp32(),
        "an all-reduce of each flat parameter's gradients" + fp32_reason());
    add("fsdp1 SHARD_GRAD_OP", "2Ψ", S::shard_grad_op, S::shard_grad_op, last, fsdp1_reduce(),
        "1 all-gather, 1 reduce-scatter" + in_fp32(),
        "gathered once, reduce-scattered once" + fp32_reason());
    add("fsdp1 FULL_SHARD", "3Ψ", S::full_shard, S::full_shard, last, fsdp1_reduce(),
        "2 all-gather, 1 reduce-scatter" + in_fp32(),
        "gathered in forward and in backward, of every micro-batch" + fp32_reason());
    add("fsdp2", "3Ψ", S::full_shard, S::full_shard, last, 4, "2 all-gather, 1 reduce-scatter fp32",
        "gathered in 16 bit in forward and in backward, reduced in fp32 (reduce_dtype), which "
        "counts twice");
    hybrid(last);
    return std::move(rows_);
  }

 private:
  static double fsdp1_reduce() {
    const Precision precision = precision_recipe(default_precision(StrategyKind::fsdp1));
    return static_cast<double>(bytes_per_element(precision.reduce));
  }
  static std::string in_fp32() { return fsdp1_reduce() == 4 ? " fp32" : ""; }
  static std::string fp32_reason() {
    return fsdp1_reduce() == 4 ? "; reduced in fp32, which counts twice" : "";
  }

  VolumeOptions options(VolumeSync sync, double reduce) const {
    VolumeOptions o;
    o.parameters = static_cast<double>(q_.parameters);
    o.ranks = static_cast<int>(q_.gpus);
    o.micro_batches = q_.accumulation;
    o.sync = sync;
    o.reduce_bytes = reduce;
    return o;
  }

  // A ring over whole nodes leaves each of them once.
  SentBytes over_nodes(double total, std::int64_t ranks) const {
    if (ranks <= q_.gpus_per_node) return {total, 0};
    const double between = total / static_cast<double>(q_.gpus_per_node);
    return {total - between, between};
  }

  // The textbook's traffic: of one micro-batch, or of the step's last one (it knows no more).
  void add(const char* strategy, const char* formula, VolumeStrategy textbook,
           VolumeStrategy framework, VolumeSync sync, double reduce, std::string collectives,
           std::string reason) {
    VolumeOptions one = options(VolumeSync::every, 2);
    one.micro_batches = 1;
    VolumeComparisonRow& row = rows_.emplace_back();
    row.strategy = strategy;
    row.formula = formula;
    row.textbook = over_nodes(strategy_volume(one, textbook).total(), q_.gpus);
    row.framework = over_nodes(strategy_volume(options(sync, reduce), framework).total(), q_.gpus);
    row.collectives = std::move(collectives);
    row.reason = std::move(reason);
  }

  // nn.DataParallel, from GPU 0, in every micro-batch: it has no no_sync.
  void data_parallel() {
    const auto psi = static_cast<double>(q_.parameters);
    const auto others = static_cast<double>(q_.gpus - 1);
    VolumeComparisonRow& row = rows_.emplace_back();
    row.strategy = "dp";
    row.formula = "(N-1)Ψ";
    row.textbook.intra = others * 2 * psi;
    row.framework.intra = q_.gpus > 1 ? q_.accumulation * 4 * psi : 0;
    row.collectives = "1 broadcast fp32, 1 reduce fp32";
    row.reason =
        "what GPU 0 sends; outputs and their gradients apart. Textbooks give each of the N-1 "
        "others "
        "a copy; NCCL broadcasts along a chain, so GPU 0 sends 4Ψ once and every GPU but the last "
        "hands them on (N-1 copies in all). The reduction is a chain to GPU 0, which sends "
        "nothing: "
        "the GPUs in the middle send 8Ψ";
    if (q_.accumulation > 1) row.reason += "; there is no no_sync: both in every micro-batch";
  }

  // ZeRO++ hpZ: the step's first gather is global, further ones are within the group.
  void secondary(const std::string& again) {
    const double size = 2 * static_cast<double>(q_.parameters);
    const auto sent = [&](int micro_batches) {
      const int world = static_cast<int>(q_.gpus);
      const double gather = ring_all_gather_bytes(size, world);
      const double reduce = micro_batches * ring_reduce_scatter_bytes(size, world);
      const double within =
          (2 * micro_batches - 1) * ring_all_gather_bytes(size, static_cast<int>(q_.shard_group));
      const SentBytes global = over_nodes(gather + reduce, q_.gpus);
      const SentBytes group = over_nodes(within, q_.shard_group);
      return SentBytes{global.intra + group.intra, global.inter + group.inter};
    };
    VolumeComparisonRow& row = rows_.emplace_back();
    row.strategy = "zero3 hpZ";
    row.formula = "2Ψ + Ψ in g";
    row.textbook = sent(1);
    row.framework = sent(q_.accumulation);
    row.collectives = "1 all-gather, 1 in the group, 1 reduce-scatter";
    row.reason =
        "zero3 whose first gather of a step is global and leaves a second shard within the group "
        "g; "
        "later gathers, backward's too, stay in the group" +
        again;
  }

  void hybrid(VolumeSync sync) {
    const int shards = static_cast<int>(q_.shard_group);
    const int replicas = static_cast<int>(q_.gpus / q_.shard_group);
    const auto sent = [&](const VolumeOptions& o) {
      const HybridVolume v = hybrid_volume(o, shards, replicas);
      SentBytes bytes = over_nodes(v.intra, q_.shard_group);
      // Replica groups of whole nodes have a rank a node: all of their bytes are between nodes.
      (q_.shard_group >= q_.gpus_per_node ? bytes.inter : bytes.intra) += v.inter;
      if (q_.shard_group < q_.gpus_per_node && q_.gpus > q_.gpus_per_node) {
        const double in_node =
            static_cast<double>(q_.gpus_per_node) / static_cast<double>(q_.shard_group);
        bytes.intra -= v.inter / in_node;
        bytes.inter += v.inter / in_node;
      }
      return bytes;
    };
    VolumeOptions one = options(VolumeSync::every, 2);
    one.micro_batches = 1;
    VolumeComparisonRow& row = rows_.emplace_back();
    row.strategy = "hsdp";
    row.formula = "3Ψ + 2Ψ/g";
    row.textbook = sent(one);
    row.framework = sent(options(sync, 4));
    row.collectives = "fsdp2's in the group, 1 all-reduce fp32 of a shard";
    row.reason =
        "fsdp2 within the shard group g; between groups each GPU all-reduces its shard of the "
        "gradients, 2 (R-1)/R Ψ/g, in fp32";
  }

  const Compared& q_;
  std::vector<VolumeComparisonRow> rows_;
};

// What GPU 0 of nn.DataParallel sends: it is the root of all of them. A broadcast is a chain from
// it, a scatter gives each other GPU its part; reductions and gathers end at it.
SentBytes sent_by_gpu0(const Schedule& schedule) {
  SentBytes sent;
  const double ranks = schedule.mesh.world_size();
  for (const Op& op : schedule.roles.front().steps.back().ops) {
    if (op.kind != OpKind::collective || ranks == 1) continue;
    const auto bytes = static_cast<double>(bytes_of(op));
    if (op.collective == CollectiveKind::broadcast) sent.intra += bytes;
    if (op.collective == CollectiveKind::scatter) sent.intra += bytes * (ranks - 1) / ranks;
  }
  return sent;
}

// What the steady step's collectives send, each as NCCL routes it.
SentBytes scheduled_bytes(const Resolved& r) {
  const Schedule schedule = build_schedule(r.step);
  if (r.step.strategy.kind == StrategyKind::dp) return sent_by_gpu0(schedule);
  const Collectives collectives(r.cluster, r.step.mesh, r.collectives);
  SentBytes sent;
  for (const Op& op : schedule.roles.front().steps.back().ops) {
    if (op.kind != OpKind::collective) continue;
    const Axis axis = schedule.communicators[static_cast<std::size_t>(op.comm)].axis;
    if (schedule.mesh.size(axis) == 1) continue;
    const CollectiveCost cost =
        collectives.cost(axis, op.collective, bytes_of(op), op.dtype, op.reduction);
    sent.intra += cost.bytes_sent_intra;
    sent.inter += cost.bytes_sent_inter;
  }
  return sent;
}

}  // namespace

VolumeComparison volume_comparison(const Scenario& scenario) {
  VolumeComparison c;
  c.question = compared(scenario);
  c.rows = Rows(c.question).all();
  if (!c.question.loaded || !c.question.cluster) return c;
  for (const StrategyVariant& variant : compared_strategies(c.question)) {
    const auto row = std::find_if(c.rows.begin(), c.rows.end(), [&](const VolumeComparisonRow& r) {
      return r.strategy == variant.name;
    });
    STEPCAST_ASSERT(row != c.rows.end(), "a compared strategy without a row: " + variant.name);
    try {
      row->scheduled =
          scheduled_bytes(resolve(with_strategy(scenario, variant, c.question.shard_group)));
    } catch (const InputError& error) {
      row->not_built = error.what();
    }
  }
  return c;
}

}  // namespace stepcast

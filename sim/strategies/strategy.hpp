#pragma once
// A strategy turns a model and a mesh into a schedule. One folder a strategy; each rule of PyTorch
// is a small file with its essay and its test.
//
//   TrainingStep step;            // what to train and how
//   step.model = load_model("llama-3-8b");
//   step.strategy.kind = StrategyKind::fsdp2;
//   step.mesh = {1, 64};
//   Schedule schedule = build_schedule(step);

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast {

enum class StrategyKind : std::uint8_t { dp, ddp, zero1, zero2, zero3, fsdp1, fsdp2, hsdp };

// Which dtype each thing has. Named recipes (docs/sources.md section 4.1):
//   amp-bf16     fp32 parameters, autocast compute, fp32 gradients and reduction  (DDP's default)
//   bf16-mixed   fp32 shard, bf16 gather and compute, fp32 reduction              (FSDP2's default)
//   bf16-mixed-reduce-bf16   the same with bf16 reduction
//   bf16-master  bf16 parameters and gradients (-grad-fp32: fp32, nanotron), fp32 master, moments
//   bf16-pure    everything bf16, moments too
//   amp-fp16, fp16-mixed, fp16-master   the same with fp16, for GPUs without bf16 matrix products:
//                gradients are unscaled and the host reads whether any overflowed (GradScaler)
//   fp32, tf32   everything fp32; tf32 computes matrix products in TF32
struct Precision {
  std::string name = "bf16-mixed";
  Dtype parameter = Dtype::fp32;  // the persistent parameter (or its shard)
  Dtype compute = Dtype::bf16;    // matrix products, activations
  Dtype gather = Dtype::bf16;     // all-gather payload and the unsharded parameter
  Dtype gradient = Dtype::bf16;   // as backward produces it
  Dtype reduce = Dtype::fp32;     // reduce-scatter / all-reduce payload
  Dtype moments = Dtype::fp32;    // two Adam moments
  bool master_copy = false;       // an fp32 copy of the parameters beside them
  bool autocast = false;          // weights are cast for every use in forward (AMP)
};

Precision precision_recipe(const std::string& name);  // InputError lists the names
std::vector<std::string> precision_recipes();
std::vector<std::string> precision_recipes_of(StrategyKind kind);  // the default first
// Where the GPU has no bf16 matrix products, the fp16 twin of the default.
std::string default_precision(StrategyKind kind, bool has_bf16 = true);

// When gradients are reduced across micro-batches of one step.
enum class AccumulationSync : std::uint8_t {
  last,   // only in the last micro-batch (DDP no_sync, FSDP2 set_requires_gradient_sync(False))
  every,  // in every micro-batch
  reduce_scatter_every,  // HSDP: reduce-scatter every micro-batch, all-reduce in the last
};

// FSDP1's names.
enum class ShardingStrategy : std::uint8_t {
  full_shard,          // FULL_SHARD: gather in forward and in backward
  shard_grad_op,       // SHARD_GRAD_OP: keep the parameters from forward to backward
  no_shard,            // NO_SHARD: all-reduce a flat gradient a unit
  hybrid_shard,        // HYBRID_SHARD: FULL_SHARD inside a group, all-reduce across groups
  hybrid_shard_zero2,  // _HYBRID_SHARD_ZERO2
};

// torch.optim's names with the implementation (common/optimizer.hpp).
enum class OptimizerKind : std::uint8_t {
  adamw_fused,    // fused=True: one kernel a pack of tensors
  adamw_foreach,  // foreach=True: a pass over memory an arithmetic operation
  adamw_unfused,  // the for-loop: a launch an operation and tensor
  sgd_momentum,
  sgd,
};

enum class BackwardPrefetchMode : std::uint8_t { pre, post, none };

// Whether an explicit bucket_cap_mb limits DDP's first bucket too (current) or that keeps 1 MiB; in
// 1.4 besides the constructor's buckets stay for good and each is divided in one kernel.
enum class BucketRule : std::uint8_t { current, pytorch_1_13, pytorch_1_4 };

// DDP's communication hooks, PyTorch's built-in ones.
enum class CommHook : std::uint8_t { none, allreduce, fp16_compress, bf16_compress, power_sgd };

struct StrategyOptions {
  StrategyKind kind = StrategyKind::ddp;

  // dp: the model computes its loss itself, on every GPU (Hugging Face's, given labels); otherwise
  // the training loop does, on GPU 0 over everybody's outputs.
  bool loss_in_forward = false;

  // ddp
  std::optional<double> bucket_cap_mib;    // MiB, as PyTorch's bucket_cap_mb; default 25
  std::optional<double> first_bucket_mib;  // default: 1 MiB, or the cap when that is given
  bool gradient_as_bucket_view = false;
  BucketRule bucket_rule = BucketRule::current;
  std::vector<double> bucket_caps_mib;  // bucket_cap_mb_list: one a bucket; empty: not said
  bool small_last_bucket = false;       // DDP_SET_LAST_BUCKET_CAP=1
  bool batched_grad_copy = false;
  bool find_unused_parameters = false;
  bool static_graph = false;
  std::vector<std::string> unused_parameters;  // names or globs: no gradient ...
  std::vector<int> unused_on_ranks;            // ... on these ranks; empty: on all
  CommHook comm_hook = CommHook::none;
  int powersgd_rank = 1;  // matrix_approximation_rank
  double powersgd_min_compression_rate = 2;
  std::optional<int> join_early_ranks;  // runs under join(), so many ranks have run out of data
  bool join_divides_by_initial_world_size = true;
  bool broadcast_buffers = true;
  bool zero_grad_set_to_none = true;

  // fsdp2, hsdp
  bool reshard_after_forward = true;
  // reshard_after_forward = n: a 1/n slice is kept after forward and backward gathers within groups
  // of n; fsdp2's mesh is then {W/n, n}. 0: everything goes, backward gathers as forward did.
  int reshard_group = 0;
  bool reshard_after_backward = true;
  WrapPolicy wrap = WrapPolicy::block;
  bool separate_reduce_scatter_group = false;
  int forward_prefetch_units = 0;             // explicit lists of the next units; 0: none set
  int backward_prefetch_units = 0;            // and of the units before; 0: the implicit one
  bool unshard_embedding_in_backward = true;  // set_unshard_in_backward; torchtitan's wrap only
  bool keep_last_block = false;               // reshard_after_forward=False on the last block

  // fsdp1
  ShardingStrategy sharding = ShardingStrategy::full_shard;
  BackwardPrefetchMode backward_prefetch = BackwardPrefetchMode::pre;
  bool forward_prefetch = false;
  bool limit_all_gathers = true;
  bool use_orig_params = true;
  std::optional<std::int64_t> wrap_min_params;  // size_based_auto_wrap_policy; none: by block

  // fsdp1, fsdp2, hsdp: the checkpoint wraps the unit instead of lying within it. FSDP1 gathers
  // again for the recomputation; FSDP2 skips its hooks in it and gathers nothing.
  bool checkpoint_outside_unit = false;

  // zero1, zero2, zero3 (DeepSpeed's zero_optimization section; elements, not bytes)
  std::int64_t reduce_bucket_elements = 500'000'000;  // reduce_bucket_size
  std::optional<bool> overlap_comm;                   // default: stage 3 true, else false
  bool contiguous_gradients = true;
  bool reduce_scatter = true;                          // false: the bucket is all-reduced in place
  bool multi_rank_all_reduce = true;                   // use_multi_rank_bucket_allreduce
  std::int64_t prefetch_bucket_elements = 50'000'000;  // stage3_prefetch_bucket_size
  std::int64_t persistence_threshold = 100'000;        // stage3_param_persistence_threshold
  std::int64_t max_live_parameters = 1'000'000'000;    // stage3_max_live_parameters
  std::int64_t max_reuse_distance = 1'000'000'000;     // stage3_max_reuse_distance
  std::int64_t sub_group_elements = 1'000'000'000;     // sub_group_size
  // zero_hpz_partition_size: stage 3's later gathers stay within groups of so many; its mesh is
  // then {W/g, g}. 0: off.
  int hpz_group = 0;
  bool leaf_layers = false;  // each layer one fetch (set_z3_leaf_modules)

  AccumulationSync accumulation_sync = AccumulationSync::last;

  // fsdp2, hsdp: torchao's enable_fsdp_float8_all_gather: blocks' weights are gathered in fp8;
  // their scales one by one, or (precompute_float8_dynamic_scale_for_fsdp) all at once after the
  // optimizer.
  bool fp8_all_gather = false;
  bool fp8_precompute_scale = false;
};

// torch.utils.data.DataLoader (common/loader.hpp). What a batch costs is the machine's.
struct LoaderOptions {
  bool modelled = false;   // otherwise batches are there when they are wanted
  int workers = 0;         // num_workers; 0: the training process reads them itself
  int prefetch = 2;        // prefetch_factor, batches a worker
  Bytes sample_bytes = 0;  // read from storage
};

struct TrainingStep {
  Model model;
  Workload workload;
  // ddp {n,1}; fsdp2 and zero3 {1,n}, or {n/g,g} where part of it gathers within groups of g; hsdp
  // {n/g,g}
  Mesh mesh;
  Precision precision;
  int accumulation = 1;  // micro-batches a step
  StrategyOptions strategy;
  OptimizerKind optimizer = OptimizerKind::adamw_fused;
  LoaderOptions loader;
  bool clip_grad_norm = false;      // common/clip.hpp
  bool sync_after_forward = false;  // the host reads the loss before backward (loss.item())
  bool sync_every_step = false;     // the host waits for the device after every step (loss.item())
  // Also make the StepPrograms before the steady one ("first", "second").
  bool first_step = false;
};

// Throws InputError for what a user can get wrong (world size not divisible, a precision recipe of
// another strategy).
Schedule build_schedule(const TrainingStep& step);

std::string_view to_string(ShardingStrategy sharding);     // as PyTorch writes it
ShardingStrategy parse_sharding(const std::string& name);  // names or numbers 1 to 5
std::string_view to_string(BackwardPrefetchMode mode);
CommHook parse_comm_hook(const std::string& name);
std::string_view to_string(StrategyKind kind);
StrategyKind parse_strategy(const std::string& name);  // InputError lists the names
std::string_view to_string(AccumulationSync sync);
std::string_view to_string(OptimizerKind kind);          // "adamw-fused"
OptimizerKind parse_optimizer(const std::string& name);  // InputError lists the names

}  // namespace stepcast

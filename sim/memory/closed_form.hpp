#pragma once
// Memory by formula: what the states of a training run take on a GPU, from the number of parameters
// alone. docs/sources.md section 4.1; E-19 and E-20 are the tests.
//
//   persistent_state(7e9, Partition::everything, 8, mixed_16bit()).total()  == 14e9
//
// Two columns. The textbook one counts 2 bytes of parameter, 2 of gradient and 12 of fp32 master
// and Adam moments, as the ZeRO paper does. The framework one counts what the software really
// keeps: other dtypes, DDP's buckets beside the gradients, the unsharded root, a second shard.
//
// A shard of n elements over w ranks has ceil(n / w) of them: padding by tensor (FSDP2's rows) is
// not known here; sim/strategies knows it.
//
// Parameters beyond 1e15 or below 1, and ranks below 1: InputError.
// Tested by tests/unit/memory/closed_form_test.cpp.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace stepcast {

// What is cut among the ranks of the shard group: ZeRO stages 0 to 3.
enum class Partition : std::uint8_t {
  nothing,                  // DDP, NO_SHARD
  optimizer,                // ZeRO-1
  optimizer_and_gradients,  // ZeRO-2
  everything,               // ZeRO-3, FULL_SHARD, FSDP2; HSDP within its shard group
};

// Bytes an element.
struct StateRecipe {
  std::string name;
  Bytes parameter = 0;
  Bytes gradient = 0;
  Bytes optimizer = 0;  // master copy and moments
  Bytes bucket = 0;     // DDP's reducer buckets, kept beside the gradients
  Bytes gathered = 0;   // of the parameter in use, where that is another tensor than the shard
};

StateRecipe mixed_16bit();          // 2 + 2 + 12: 16-bit with fp32 master (Megatron, DeepSpeed)
StateRecipe autocast();             // 4 + 4 + 8, fp32 parameters, buckets 4
StateRecipe pure_bf16();            // 2 + 2 + 4, moments in bf16, buckets 2
StateRecipe fp32_main_gradients();  // 2 + 4 + 12 (Megatron)
StateRecipe fp32_shard();           // 4 + 4 + 8, bf16 gathered (FSDP mixed precision)
// DeepSpeed's own estimators count an fp32 gradient: beside the 16-bit one for ZeRO-2, in its place
// for ZeRO-3.
StateRecipe zero2_estimator();  // 2 + 6 + 12
StateRecipe zero3_estimator();  // 2 + 4 + 12

struct StateBytes {
  Bytes parameters = 0;
  Bytes gradients = 0;
  Bytes optimizer = 0;
  Bytes total() const { return parameters + gradients + optimizer; }
};

// `shards` is W, or the shard group g of HSDP; it does not matter for Partition::nothing.
StateBytes persistent_state(std::int64_t parameters, Partition partition, std::int64_t shards,
                            const StateRecipe& recipe);

// ---- the table ----------------------------------------------------------------------------------
struct StateExtra {
  std::string name;  // "reducer buckets"
  Bytes bytes = 0;
  bool always = true;  // false: only within a step, and then at most this much
};

struct StateRow {
  std::string strategy;  // "zero2", "fsdp shard_grad_op"
  std::string recipe;
  StateBytes textbook;
  StateBytes framework;
  std::vector<StateExtra> extras;   // of the framework
  Bytes framework_always() const;   // framework and the extras that are always there
  Bytes framework_in_step() const;  // and those of a step
};

struct TableSizes {
  std::int64_t parameters = 0;       // of the model
  std::int64_t world = 1;            // W
  std::int64_t shard_group = 1;      // g, of HSDP and hpZ
  std::int64_t root_parameters = 0;  // of FSDP's root unit; 0 where it is not known
  std::int64_t largest_layer = 0;    // parameters, for DeepSpeed's ZeRO-3 estimator
};
std::vector<StateRow> state_table(const TableSizes& sizes);

// ---- bytes that come and go ---------------------------------------------------------------------
// One FSDP2 unit of `elements` gathered elements (padding included).
struct UnitTransients {
  Bytes gather_output = 0;
  Bytes unsharded = 0;
  Bytes gradients = 0;
  Bytes reduce_input = 0;
  Bytes forward_peak = 0;      // two gather outputs and one unsharded
  Bytes backward_peak = 0;     // unsharded, the next gather's output, gradients, last reduce input
  Bytes copy_out_traffic = 0;  // HBM: gather output read, unsharded written
  Bytes reduce_copy_in_traffic = 0;  // HBM: gradients read, reduce input written
};
UnitTransients fsdp2_transients(std::int64_t elements, Dtype gather, Dtype gradient, Dtype reduce);

// DeepSpeed ZeRO-1 and -2 with 16-bit gradients.
struct ZeroTransients {
  Bytes buckets = 0;     // one, two with overlap_comm
  Bytes flatten = 0;     // a bucket is copied flat for the all-reduce; at most this
  Bytes step_slice = 0;  // fp32 gradients of this rank's part, within optimizer.step
  // The 16-bit flat tensor that those are made from; both are there at once.
  Bytes step_flatten = 0;
};
ZeroTransients zero12_transients(std::int64_t parameters, std::int64_t world,
                                 std::int64_t bucket_elements = 500'000'000,
                                 bool overlap_comm = true);

// ---- does it fit --------------------------------------------------------------------------------
struct FitQuestion {
  std::int64_t parameters = 0;
  Partition partition = Partition::nothing;
  StateRecipe recipe;
  std::int64_t gpus = 1;
  std::int64_t shard_group = 0;    // 0: all GPUs
  std::int64_t gpus_per_node = 1;  // more GPUs come in whole nodes
  Bytes capacity = 0;              // of one GPU
  Bytes beside = 0;                // what else it holds: activations, CUDA context, ...
};

struct FitAnswer {
  bool fits = false;
  Bytes needed = 0;  // on a GPU, `beside` included
  // When it does not fit, the smallest change that does, tried in this order: cut more of the state
  // on the GPUs there are; a larger shard group among them; more GPUs, fully sharded.
  std::optional<Partition> partition;         // of the change; none: nothing fits
  std::optional<std::int64_t> fewest_shards;  // that fit, whole nodes or not
  std::int64_t gpus = 0;
  std::int64_t shard_group = 0;
  Bytes needed_then = 0;
  std::string sentence;  // "fits: ..." or what to change
};
FitAnswer smallest_change_that_fits(const FitQuestion& question);

// The fewest ranks among which the state must be cut so that it takes at most `room` bytes a rank;
// none where no number is enough.
std::optional<std::int64_t> fewest_shards(std::int64_t parameters, Partition partition,
                                          const StateRecipe& recipe, Bytes room);

std::string_view to_string(Partition partition);

}  // namespace stepcast

#pragma once
// What one rank does at each op, worked out before the run: places in memory, nothing symbolic.
// Made by Planner, carried out by Trainer. Views are numbered as in OpContext: reads, then writes.

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/train/moves.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast::runtime {

// Elements [first, first + count) of a tensor, at a place.
struct Part {
  std::int64_t first = 0;
  std::int64_t count = 0;
  Place place;
};
struct TensorParts {
  int tensor = 0;
  std::vector<Part> parts;
};

struct Activation {
  int view = -1;  // none
  Dtype dtype = Dtype::fp32;
  std::int64_t at = 0;
  Bytes bytes = 0;
};

enum class LayerPass : std::uint8_t { forward, recompute, backward };

struct LayerPlan {
  LayerPass pass = LayerPass::forward;
  int layer = 0;
  Activation tokens, input, hidden, saved, recomputed, workspace, grad_in, grad_out;
  std::vector<TensorParts> weights;    // those that are complete
  std::vector<TensorParts> gradients;  // those to compute
  std::vector<Part> tied;              // the head's share of a tied tensor's gradient, to be added
};

// A stretch of elements that AdamW updates.
struct AdamPart {
  std::int64_t count = 0;
  Place gradient;
  Place parameter;  // view < 0: only the master copy is written
  Place first_moment, second_moment;
  Place master;  // view < 0: none
};
struct AdamPlan {
  std::vector<AdamPart> parts;
};

struct MovePlan {
  std::vector<Move> moves;
};
struct NormPlan {
  std::vector<std::pair<Place, std::int64_t>> from;
  Place to;
};
struct LoadPlan {
  Activation tokens;
};
struct OrderPlan {  // DDP's bucket order: rank 0 knows it
  Activation numbers;
  bool check = false;
};
struct ZeroPlan {
  std::vector<Activation> views;
};
struct CollectivePlan {
  int send = 0;
  Bytes send_at = 0;
  int receive = 0;
  Bytes receive_at = 0;
  std::vector<Move> before;  // into this rank's slot of the output
  // reduce to an owner: only the owner's elements of the views take part, one after another
  std::vector<std::pair<Place, std::int64_t>> owned;
};

using OpPlan = std::variant<std::monostate, MovePlan, LayerPlan, AdamPlan, NormPlan, LoadPlan,
                            OrderPlan, ZeroPlan, CollectivePlan>;

struct StepPlan {
  std::vector<OpPlan> ops;
};

// Where the fp32 master copies of elements lie in the optimizer state.
struct MasterCopy {
  BufferIndex state = -1;
  std::vector<Run> runs;
};

}  // namespace stepcast::runtime

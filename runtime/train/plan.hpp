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
  bool exact = false;  // its elements have the declared dtype, however large the view is
};

enum class LayerPass : std::uint8_t { forward, recompute, backward };

struct LayerPlan {
  LayerPass pass = LayerPass::forward;
  int layer = 0;
  Activation tokens, input, hidden, saved, recomputed, workspace, grad_in, grad_out;
  std::vector<Activation> scratch;     // workspaces: what was in them before the layer is gone
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
  std::vector<Activation> scratch;  // temporaries: what was in them is gone
};
struct SgdPlan {
  std::vector<AdamPart> parts;  // first_moment is the momentum's buffer, view < 0: none
  std::vector<Activation> scratch;
};

struct MovePlan {
  std::vector<Move> moves;
  // Times the clip coefficient of the gradient norm that the host has read before (ZeRO's step).
  bool clipped = false;
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

// Gradient clipping: norms of tensors, one number a slot; the coefficient of their sum of squares,
// in its place; gradients times the coefficient.
struct NormsPlan {
  struct From {
    std::int64_t slot = 0;
    Place place;
    std::int64_t count = 0;
  };
  std::vector<From> from;
  Place to;
  std::int64_t slots = 0;
};
struct CoefficientPlan {
  Place at;
};
struct ScalePlan {
  Place coefficient;
  std::vector<Move> moves;
};

// nn.DataParallel's loss, apart from the layers.
struct LossPlan {
  bool backward = false;
  Activation labels, logits, saved, gradient;
  Place upstream;  // gradient of this loss; view < 0: it is the whole loss
  std::vector<Activation> scratch;
};

// Numbers that hosts agree on: written, and read back.
struct FillPlan {
  Activation numbers;
  double value = 0;
};
struct CheckPlan {
  Activation numbers;
  double least = 0;
  double most = 0;
};
// A rank that only sends receives where it sends, and the other way round.
struct CollectivePlan {
  int send = 0;
  Bytes send_at = 0;
  int receive = 0;
  Bytes receive_at = 0;
  std::vector<Move> before;  // into this rank's slot of the output
  // reduce to an owner: only the owner's elements of the views take part, one after another
  std::vector<std::pair<Place, std::int64_t>> owned;
  bool losses = false;  // sends the rank's loss, which lies in no buffer
};

using OpPlan = std::variant<std::monostate, MovePlan, LayerPlan, AdamPlan, NormPlan, LoadPlan,
                            OrderPlan, ZeroPlan, CollectivePlan, SgdPlan, NormsPlan,
                            CoefficientPlan, ScalePlan, LossPlan, FillPlan, CheckPlan>;

struct StepPlan {
  std::vector<OpPlan> ops;
};

// Where the fp32 master copies of elements lie in an optimizer state's buffer.
struct MasterCopy {
  BufferIndex state = -1;
  std::vector<Run> runs;
};

}  // namespace stepcast::runtime

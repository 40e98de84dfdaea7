#pragma once
// What each verb of the strategies means in numbers: the one place where that is decided.
//
// Most ops move elements; where to follows from the layouts (planner.hpp), so the table says only
// by which factor. A verb that is not in the table is a mistake: the trainer refuses the schedule.

#include "runtime/train/shape.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast::runtime {

enum class Meaning : std::uint8_t {
  move,         // elements go where the written buffers want them; several sources are added
  scale,        // in place, by the factor
  interleave,   // whole tensors one after another -> each rank's chunks together (ZeRO-3)
  own_part,     // this rank's part of a whole, declared as an average rank's
  norm,         // sum of squares of the gradients that are read, one number
  norms,        // a norm for every tensor
  sum_squares,  // of the numbers that are read
  coefficient,  // of clipping, from the sum of squares
  clip,         // gradients times the coefficient
  update,       // optimizer
  from_master,  // parameters from the fp32 master copy in the optimizer state
  layer,        // a layer of the model: forward, recompute or backward
  load,         // token ids and labels
  order,        // DDP's rebuilt bucket order: numbers that everybody must get from rank 0
  zero,         // fills what it writes with zeros
  fill,         // numbers of the hosts' to agree on (join, used map) ...
  check,        // ... and what they agreed on
  numbers,      // of the hosts', to compare shapes with: no tensor, and not looked at here
};

struct VerbMeaning {
  Meaning meaning = Meaning::move;
  double factor = 1;
};

// Where a schedule unscales gradients before the optimizer, the loss is scaled by this.
inline constexpr double loss_scale = 1024;
double loss_scale_of(const Schedule& schedule);

// Ranks that take batches: all but those that have run out of data under join().
int ranks_at_work(const Schedule& schedule);
// What DDP divides gradients by: the world size, or under
// join(divide_by_initial_world_size=False) the ranks at work.
int gradient_divisor(const Schedule& schedule);

// Throws std::runtime_error naming the op where the verb is not known, or cannot be trained.
VerbMeaning meaning_of(const Schedule& schedule, const Op& op, int divisor);

// What the optimizer's kernel does.
UpdateRule update_rule_of(const Schedule& schedule, const Op& op);

}  // namespace stepcast::runtime

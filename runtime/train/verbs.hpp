#pragma once
// What each verb of the strategies means in numbers: the one place where that is decided.
//
// Most ops move elements; where to follows from the layouts (planner.hpp), so the table says only
// by which factor. A verb that is not in the table is a mistake: the trainer refuses the schedule.

#include "sim/schedule/schedule.hpp"

namespace stepcast::runtime {

enum class Meaning : std::uint8_t {
  move,         // elements go where the written buffers want them; several sources are added
  scale,        // in place, by the factor
  interleave,   // whole tensors one after another -> each rank's chunks together (ZeRO-3)
  norm,         // sum of squares of what is read, one number
  adamw,        // optimizer
  from_master,  // parameters from the fp32 master copy in the optimizer state
  layer,        // a layer of the model: forward, recompute or backward
  load,         // token ids and labels
  order,        // DDP's rebuilt bucket order: numbers that everybody must get from rank 0
  zero,         // fills what it writes with zeros
  numbers,      // of the hosts', to compare shapes with: no tensor, and not looked at here
};

struct VerbMeaning {
  Meaning meaning = Meaning::move;
  double factor = 1;
};

// Where a schedule unscales gradients before the optimizer, the loss is scaled by this.
inline constexpr double loss_scale = 1024;
double loss_scale_of(const Schedule& schedule);

// Throws std::runtime_error naming the op where the verb is not known.
VerbMeaning meaning_of(const Schedule& schedule, const Op& op);

}  // namespace stepcast::runtime

#include "sim/advise/unit_bytes.hpp"

#include <algorithm>

#include "sim/memory/closed_form.hpp"
#include "sim/memory/overheads.hpp"

namespace stepcast {

UnitBytes largest_unit(const TrainingStep& step) {
  Workload workload = step.workload;
  workload.micro_batch = 1;
  workload.checkpointing = Checkpointing::full;
  UnitBytes most;
  for (const WrapUnit& unit : wrap_units(step.model, step.strategy.wrap)) {
    UnitBytes here;
    here.unit = unit.name.str();
    for (const int parameter : unit.parameters) {
      here.parameters += step.model.parameters[static_cast<std::size_t>(parameter)].elements();
    }
    here.states = fsdp2_transients(here.parameters, step.precision.gather, step.precision.gradient,
                                   step.precision.reduce)
                      .backward_peak;
    for (const int layer : unit.layers) {
      const LayerWork work = work_of(step.model, layer, workload);
      here.activations =
          std::max(here.activations, work.recomputed_activations +
                                         std::max(work.forward_workspace, work.backward_workspace));
    }
    if (here.total() > most.total()) most = here;
  }
  most.overhead = sum_of(overheads(step.mesh.world_size()));
  return most;
}

int model_parallel_degree(const UnitBytes& unit, Bytes capacity) {
  const Bytes room = capacity - unit.overhead;
  if (room <= 0) return 0;
  int degree = 1;
  while (ceil_div(unit.states + unit.activations, Bytes{degree}) > room) degree *= 2;
  return degree;
}

}  // namespace stepcast

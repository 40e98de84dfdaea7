#pragma once
// One run by the fluid engine in this process; with `messages` collectives go as these, over the
// carrier that begin_messages() made. Internal to sim/engines.

#include "sim/engines/message_carrier.hpp"
#include "sim/engines/run_plan.hpp"
#include "sim/engines/step_messages.hpp"

namespace stepcast {

Timeline run_fluid(RunPlan& plan);
Timeline run_fluid(RunPlan& plan, const StepMessages& messages, MessageCarrier& carrier);

}  // namespace stepcast

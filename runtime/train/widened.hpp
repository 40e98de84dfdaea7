#pragma once
// The same schedule with numbers of twice the width: every fp32 is an fp64, and every byte count of
// such buffers twice as large. The order, the layouts and all other dtypes stay. With it an fp32
// recipe is proven in double: what is left of a difference is a mistake, not rounding.

#include "sim/schedule/schedule.hpp"

namespace stepcast::runtime {

Schedule widened(Schedule schedule);

}  // namespace stepcast::runtime

#pragma once
// Which models selective-op checkpointing is known for: which products are the first, the third,
// ... is said for blocks with q, k, v, gate and up apart.

#include "models/model.hpp"

namespace stepcast {

bool takes_selective_op(const Architecture& architecture);

}  // namespace stepcast

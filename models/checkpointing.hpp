#pragma once
// Which levels of activation checkpointing a model's blocks have. A ResNet's have nothing between
// all and none; which products are the first, the third, ... of selective-op is said for blocks
// with q, k, v, gate and up apart.
//
// Tested by tests/unit/models/activations_test.cpp.

#include <string>
#include <vector>

#include "models/model.hpp"

namespace stepcast {

bool takes_checkpointing(const Architecture& architecture, Checkpointing level);

// In words, least first: "none", "selective", "selective-op", "full" or fewer.
std::vector<std::string> checkpointing_levels(const Architecture& architecture);

}  // namespace stepcast

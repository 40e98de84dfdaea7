#pragma once
// The optimizer's step on the elements that a rank updates: read, computed in double, written in
// the dtypes of the buffers.

#include <cstddef>
#include <string>

#include "runtime/train/plan.hpp"
#include "runtime/train/shape.hpp"

namespace stepcast::runtime {

// `step` is counted from 1.
void run_adam(const AdamPlan& plan, const AdamW& adam, int step, std::byte* const* memory,
              const std::string& name);
// PyTorch's SGD without weight decay: buffer = momentum x buffer + gradient, where there is one.
void run_sgd(const SgdPlan& plan, const Sgd& sgd, std::byte* const* memory,
             const std::string& name);

}  // namespace stepcast::runtime

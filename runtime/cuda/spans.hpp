#pragma once
// From times to a timeline: what CUDA's events say about each op, as spans with the constraint that
// was met last. An op could have begun when it was issued, the op before it on its stream had
// ended, what its stream waited for had ended, and (a collective) the one before it on its
// communicator had ended; the latest of these bound it. Tested by tests/unit/cuda/spans_test.cpp.

#include <vector>

#include "runtime/cuda/gpu_rank.hpp"

namespace stepcast::runtime {

// The spans of one rank, by step and op.
std::vector<Span> spans_of(const Schedule& schedule, int role, const std::vector<int>& programs,
                           const std::vector<std::vector<OpTimes>>& times);

}  // namespace stepcast::runtime

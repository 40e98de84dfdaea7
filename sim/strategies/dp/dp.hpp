#pragma once
// nn.DataParallel: one process, one machine, a thread a GPU under one interpreter lock.
//
//   load       each GPU's inputs come from the host on a copy stream of its own
//   replicate  the parameters are broadcast from GPU 0, in every forward (replicate.hpp)
//   forward    a Python thread a GPU; all take turns on the GIL, so issuing takes G times as long
//   loss       outputs gathered to GPU 0, loss there (loss.hpp)
//   backward   an engine thread a GPU, without the GIL; the gradient of the outputs is scattered
//   reduce     to GPU 0, after the backward (reduce.hpp)
//   step       on GPU 0 alone; the others wait for its broadcasts
//
// Two roles: gpu0 and the rest. The main thread drives all GPUs; each role has it as its lane
// "main", doing the same host work at the same times. With one GPU there is one role and the module
// runs as it is. Workload::micro_batch stays sequences a GPU: DataParallel is given G times as
// many.
//
// Source: PyTorch parallel/data_parallel.py and what it calls (docs/sources.md 1.1). Tested by
// tests/unit/strategies/dp_test.cpp.

#include "sim/strategies/strategy.hpp"

namespace stepcast::dp {

Schedule build(const TrainingStep& step);

}  // namespace stepcast::dp

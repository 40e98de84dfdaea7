#pragma once
// Where a micro-batch comes from: PyTorch's DataLoader.
//
// With workers (processes), each has `prefetch` batches asked of it: the loader is up to
// workers x prefetch batches ahead of the training loop, and asks for the next one when a batch is
// taken. The loop waits only when the batch that it wants is not there:
//
//   loader  | read 0 | read 1 | read 2 | (four ahead: waits until batch 0 is taken)
//   main             ^ takes 0, trains ...        ^ takes 1: already there, nothing is exposed
//
// All workers are one lane here, which makes batches at the rate that they reach together
// (LoaderRates, sim/forecast/bind.hpp): with equal batches that is the same but for the first one.
// Without workers (PyTorch's default, num_workers = 0) the loop itself reads every batch and all of
// it is exposed, unless the GPU still has work that was issued before.
//
// The step boundary is no boundary: with one micro-batch a step and two workers of two, the read
// for this step waits for the batch that was taken four steps ago.
// Source: torch.utils.data, docs/sources.md R9. Tested by tests/unit/strategies/loader_test.cpp.

#include <vector>

#include "sim/schedule/builder.hpp"
#include "sim/strategies/strategy.hpp"

namespace stepcast {

class Loader {
 public:
  Loader(ScheduleBuilder& builder, const TrainingStep& step) : builder_(builder), step_(step) {}

  // The main lane has this micro-batch after it. Nothing where loading is not modelled. Call for
  // the micro-batches of a step in order.
  void next_batch(int micro_batch);

 private:
  void read_ahead(int micro_batch);

  ScheduleBuilder& builder_;
  const TrainingStep& step_;
  std::vector<OpIndex> taken_;           // this step, by micro-batch: the main lane's wait for it
  std::vector<std::int32_t> unsettled_;  // by micro-batch: the reference that waits for it, or -1
};

}  // namespace stepcast

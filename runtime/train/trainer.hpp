#pragma once
// Trains a residual MLP with real numbers, op by op, as a schedule says: forward, loss, backward,
// recomputation, accumulation, casts, buckets, AdamW. What every schedule is proven with: after a
// few steps its parameters are those of one rank on the whole batch (reference.hpp).
//
//   Schedule schedule = build_schedule(step);             // step.model of family mlp
//   Trainer trainer(schedule, shape, data);
//   execute(schedule, trainer, {.steps = data.steps});
//   trainer.parameters(0);                                // what rank 0 holds
//
// The loss of a micro-batch is its mean over tokens, divided by the number of micro-batches, so
// that what accumulates is the mean; the reductions average over ranks. nn.DataParallel's loss is
// the mean over the gathered batch (or the mean of every GPU's), and its gradients are summed.
// Numbers have the dtypes that the schedule's buffers declare, arithmetic is float (double for
// fp64: see widened.hpp). Tested by tests/unit/runtime/train_test.cpp.

#include <map>
#include <memory>
#include <vector>

#include "runtime/train/data.hpp"
#include "runtime/train/planner.hpp"
#include "runtime/work.hpp"

namespace stepcast::runtime {

class Trainer : public Work {
 public:
  // Plans the whole run. Throws std::runtime_error naming the op that cannot be given a meaning.
  Trainer(const Schedule& schedule, const MlpShape& shape, TrainingData data);
  ~Trainer() override;

  bool has_memory() const override { return true; }
  void start(int rank, std::byte* const* memory) override;
  void end(int rank, std::byte* const* memory) override;
  void run(const OpContext& context) override;
  Operands operands(const OpContext& context) override;
  void finished(const OpContext& context) override;
  Seconds duration(const OpContext&) const override { return 0; }
  Seconds host_duration(const OpContext&) const override { return 0; }

  // Programs to execute: the steps, and DDP's constructor before them where the schedule has it.
  int executed_steps() const { return data_.steps + before_; }

  // What rank `rank` holds at the end, from its process to that of rank 0.
  std::vector<double> result(int rank) const override;
  void adopt(int rank, const std::vector<double>& result);

  // After the run: the elements that a rank's persistent parameters hold, by tensor; NaN where it
  // holds none.
  const Tensors& parameters(int rank) const;
  // The mean loss of each step over all ranks and micro-batches.
  std::vector<double> losses() const;
  // The squared norms of the gradients before its updates, as a rank knew them: ZeRO's checks, and
  // clipping.
  const std::vector<double>& norms(int rank) const;

  // For who carries the plans out elsewhere (runtime/cuda/gpu_trainer.hpp).
  const OpPlan& plan_of(const OpContext& context) const;
  std::string name_of(const OpContext& context) const;
  int training_step_of(const OpContext& c) const { return c.step - before_; }
  const MlpShape& shape() const { return shape_; }
  const TrainingData& data() const { return data_; }
  double loss_scale() const { return loss_scale_; }
  int takers() const { return takers_; }
  // Whether the op makes a gradient's norm known: to the host (ZeRO) or to the clipping after it.
  bool learns_norm(const OpContext& context) const;
  // What an op that loads a batch writes: token ids, the labels behind them, or one of the two.
  std::vector<std::int64_t> batch_of(const LoadPlan& plan, const OpContext& context) const;

 private:
  struct RankState {
    std::vector<std::shared_ptr<const StepPlan>> steps;
    std::vector<MasterCopy> masters;
    std::vector<std::pair<BufferIndex, std::vector<Run>>> parameters;
    std::map<int, std::vector<std::byte>> staged;  // by communicator: elements of a reduction
    Tensors final_parameters;
    std::vector<double> loss;  // by step: sum over micro-batches
    double last_loss = 0;      // of the last micro-batch
    std::vector<double> norms;
  };
  RankState& state_of(const OpContext& c) { return ranks_[static_cast<std::size_t>(c.rank)]; }
  // By plan; a plan that is not here is no op's of its own.
  void carry_out(const MovePlan& plan, const OpContext& context);
  void carry_out(const LayerPlan& plan, const OpContext& context);
  void carry_out(const LossPlan& plan, const OpContext& context);
  void carry_out(const NormPlan& plan, const OpContext& context);
  void carry_out(const CoefficientPlan& plan, const OpContext& context);
  void carry_out(const LoadPlan& plan, const OpContext& context);
  void carry_out(const OrderPlan& plan, const OpContext& context);
  double clip_coefficient(double squares) const;
  void learn_norm(const CollectivePlan& plan, const OpContext& context);
  void begin_mean_of_losses(const CollectivePlan& plan, const OpContext& context);
  std::vector<std::byte>& staged(const OpContext& context);

  const Schedule& schedule_;
  int before_ = 0;  // programs that train on nothing
  int takers_ = 1;  // ranks that take batches
  MlpShape shape_;
  TrainingData data_;
  double loss_scale_ = 1;
  std::vector<RankState> ranks_;
  std::vector<std::vector<std::vector<std::string>>> names_;  // by role, program, op
};

// ‖a - b‖ / ‖b‖ of the elements that a holds (NaN: it does not).
double relative_difference(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace stepcast::runtime

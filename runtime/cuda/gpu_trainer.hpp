#pragma once
// Trains the residual MLP on GPUs: the plans of Trainer (train/trainer.hpp), carried out by
// kernels.
//
//   GpuTrainer work(schedule, shape, data, tables);
//   work.compare_with(train_on_one_rank(...).parameters);
//   GpuExecution run = execute_on_gpus(schedule, work, tables, {.steps = work.executed_steps()});
//   Verdict verdict = work.verdict(run);
//
// Not trained on GPUs: nn.DataParallel, SGD, gradient clipping, join() and unused parameters; the
// constructor says which op it cannot carry out.
//
// What a kernel reads is checked for poison where it is read; the first op that finds some leaves
// its number on the device and is named at the end of the run (PoisonRead).
// Tested by tests/unit/cuda/gpu_train_test.cpp, on the fake.

#include <map>
#include <memory>

#include "runtime/cuda/gpu_executor.hpp"
#include "runtime/cuda/scratch.hpp"
#include "runtime/train/trainer.hpp"

namespace stepcast::runtime {

class GpuTrainer : public GpuWork {
 public:
  // Plans the whole run; throws as Trainer does.
  GpuTrainer(const Schedule& schedule, const MlpShape& shape, TrainingData data,
             const GpuTables& tables);
  ~GpuTrainer() override;

  int executed_steps() const { return plans_.executed_steps(); }
  void compare_with(Tensors one_rank) { one_rank_ = std::move(one_rank); }

  struct Verdict {
    double difference = 0;       // largest of a tensor on a rank, of its norm
    std::vector<double> losses;  // by step: mean over ranks and micro-batches
    std::vector<double> norms;   // rank 0's squared gradient norms, where the schedule takes them
  };
  Verdict verdict(const GpuExecution& run) const;

  bool poisons() const override { return true; }
  void start(int rank, std::byte* const* memory, GpuStream* stream) override;
  void end(int rank, std::byte* const* memory, GpuStream* stream) override;
  void run(const OpContext& context, GpuStream* stream) override;
  Operands operands(const OpContext& context, GpuStream* stream) override;
  void after(const OpContext& context, GpuStream* stream) override;
  void done(const OpContext& context) override;
  Seconds host_duration(const OpContext&) const override { return 0; }
  std::string summary(int rank) const override;

 private:
  void refuse_unknown() const;
  struct RankState {
    std::map<GpuStream*, std::unique_ptr<Scratch>> scratch;
    std::byte* cells = nullptr;  // device: the fault, losses by step, norms
    int norms = 0;
    std::map<std::pair<int, OpIndex>, std::byte*> sending;  // pinned, until the op is done
    std::vector<std::byte*> idle;
    std::vector<std::byte*> pinned;
    double difference = 0;
    std::vector<double> loss, norm;
  };
  RankState& state(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  Scratch& scratch(int rank, GpuStream* stream);
  FaultCell fault(const OpContext& context);
  GpuPlace at(const OpContext& context, const Place& place) const;
  void run_moves(const std::vector<Move>& moves, const OpContext& context, GpuStream* stream);
  void load(const LoadPlan& plan, const OpContext& context, GpuStream* stream);
  void order(const OrderPlan& plan, const OpContext& context, GpuStream* stream);
  void adam(const AdamPlan& plan, const OpContext& context, GpuStream* stream);
  std::byte* pinned(const OpContext& context, Bytes size);

  const Schedule& schedule_;
  Gpu& gpu_;
  GpuMath& math_;
  Trainer plans_;
  double loss_scale_ = 1;
  Tensors one_rank_;
  std::vector<RankState> ranks_;
  std::vector<Bytes> needed_;
};

}  // namespace stepcast::runtime

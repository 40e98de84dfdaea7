#pragma once
// Trains the residual MLP on GPUs: the plans of Trainer (train/trainer.hpp), carried out by
// kernels.
//
//   GpuTrainer work(schedule, shape, data, tables);
//   work.compare_with(train_on_one_rank(...).parameters);
//   GpuExecution run = execute_on_gpus(schedule, work, tables, {.steps = work.executed_steps()});
//   Verdict verdict = work.verdict(run);
//
// What a kernel reads is checked for poison where it is read; the first op that finds some leaves
// its number on the device and is named at the end of the run (PoisonRead).
//
// A rank keeps a few numbers of its own in device memory (`cells`): the fault, the last loss, the
// loss of each step, the norm of each gradient. Nothing is read back before the end.
//
// In two files: gpu_trainer.cpp (beginning, end, verdict), gpu_trainer_ops.cpp (what an op does).
// Tested by tests/unit/cuda/gpu_train_test.cpp, on the fake.

#include <map>
#include <memory>

#include "runtime/cuda/gpu_executor.hpp"
#include "runtime/cuda/scratch.hpp"
#include "runtime/train/reference.hpp"
#include "runtime/train/trainer.hpp"

namespace stepcast::runtime {

class GpuTrainer : public GpuWork {
 public:
  // Plans the whole run; throws as Trainer does.
  GpuTrainer(const Schedule& schedule, const MlpShape& shape, TrainingData data,
             const GpuTables& tables);
  ~GpuTrainer() override;

  int executed_steps() const { return plans_.executed_steps(); }
  // Ranks whose share is nothing have run out of data, and are not compared.
  void compare_with(Tensors one_rank, std::vector<RankShare> shares = {}) {
    one_rank_ = std::move(one_rank);
    shares_ = std::move(shares);
  }

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
  // Where the numbers of a rank lie, 8 bytes each.
  enum Cell : std::int64_t { fault_cell, last_loss, first_loss };
  std::int64_t first_norm() const { return first_loss + plans_.data().steps; }

  struct RankState {
    std::map<GpuStream*, std::unique_ptr<Scratch>> scratch;
    std::byte* cells = nullptr;                             // in device memory
    int norms = 0;                                          // that ops have been issued for
    std::map<std::pair<int, OpIndex>, std::byte*> sending;  // pinned, until the op is done
    std::vector<std::byte*> idle;
    std::vector<std::byte*> pinned;
    double difference = 0;
    std::vector<double> loss, norm;
  };
  RankState& state(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  OpContext context_of(int rank, int step) const;
  int norms_of(int rank) const;
  [[noreturn]] void throw_fault(int rank, std::int64_t fault) const;
  GpuPlace cell(int rank, std::int64_t number) { return {state(rank).cells, Dtype::fp64, number}; }
  double* cell_of_loss(int rank, std::int64_t number) {
    return reinterpret_cast<double*>(state(rank).cells) + number;
  }
  Scratch& scratch(int rank, GpuStream* stream);
  FaultCell fault(const OpContext& context);
  GpuPlace at(const OpContext& context, const Place& place) const;
  void spoil(const std::vector<Activation>& views, const OpContext& context, GpuStream* stream);
  void run_moves(const std::vector<Move>& moves, const OpContext& context, GpuStream* stream,
                 GpuPlace times = {});
  void learn_norm(GpuPlace squares, double factor, const OpContext& context, GpuStream* stream);
  std::byte* pinned(const OpContext& context, Bytes size);

  // By plan; a collective's is carried out by operands() and after().
  void carry_out(const std::monostate&, const OpContext&, GpuStream*) {}
  void carry_out(const CollectivePlan&, const OpContext&, GpuStream*) {}
  void carry_out(const MovePlan& plan, const OpContext& context, GpuStream* stream);
  void carry_out(const LayerPlan& plan, const OpContext& context, GpuStream* stream);
  void carry_out(const LossPlan& plan, const OpContext& context, GpuStream* stream);
  void carry_out(const AdamPlan& plan, const OpContext& context, GpuStream* stream);
  void carry_out(const SgdPlan& plan, const OpContext& context, GpuStream* stream);
  void carry_out(const NormPlan& plan, const OpContext& context, GpuStream* stream);
  void carry_out(const NormsPlan& plan, const OpContext& context, GpuStream* stream);
  void carry_out(const CoefficientPlan& plan, const OpContext& context, GpuStream* stream);
  void carry_out(const ScalePlan& plan, const OpContext& context, GpuStream* stream);
  void carry_out(const LoadPlan& plan, const OpContext& context, GpuStream* stream);
  void carry_out(const OrderPlan& plan, const OpContext& context, GpuStream* stream);
  void carry_out(const ZeroPlan& plan, const OpContext& context, GpuStream* stream);
  void carry_out(const FillPlan& plan, const OpContext& context, GpuStream* stream);
  void carry_out(const CheckPlan& plan, const OpContext& context, GpuStream* stream);

  const Schedule& schedule_;
  Gpu& gpu_;
  GpuMath& math_;
  Trainer plans_;
  Tensors one_rank_;
  std::vector<RankShare> shares_;
  std::vector<RankState> ranks_;
  std::vector<Bytes> needed_;
  Bytes pinned_size_ = 0;
};

}  // namespace stepcast::runtime

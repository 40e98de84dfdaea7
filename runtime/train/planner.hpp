#pragma once
// Gives every op of a rank's program a meaning in memory, step by step, in the order of issue.
//
// It follows what lies where (Contents). Elements of a view written by an op go
//   to the places of its buffer's layout, where the schedule declares one;
//   where they are, when the view is also read (an accumulation, a division);
//   else one after another, as they come from the views read (a bucket, a flat copy, a cast).
// An element that several read views hold is added up: that is all accumulation is.
//
//   concatenate_gradients   reads gradients of a, b; writes flat, whose layout has b at 16
//                           -> a to 0, b to 16, the gap stays as it is
//   add_gradient            reads a fresh shard and the sum; writes the sum -> fresh added to it
//
// Views of which every rank has another part (FSDP2's own slot of a gather, ZeRO's own slice) are
// declared as an average rank's; a layout that cuts by rank says where this rank's part is.
//
// In five files: planner.cpp (steps, views, numbers that hosts agree on), planner_moves.cpp,
// planner_collectives.cpp, planner_layers.cpp (layers, losses), planner_update.cpp (norms,
// clipping, optimizers).
//
// A step whose program and contents are those of the step before has the same plan.
// Tested by tests/unit/runtime/train_test.cpp.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/train/contents.hpp"
#include "runtime/train/plan.hpp"
#include "runtime/train/shape.hpp"

namespace stepcast::runtime {

class Planner {
 public:
  Planner(const Schedule& schedule, const MlpShape& shape, int rank, int role);

  // The next executed step, which runs this program.
  std::shared_ptr<const StepPlan> next_step(int program);

  // After all steps: what must be in the state before the first.
  const std::vector<MasterCopy>& masters() const { return masters_; }
  // What the persistent parameter buffers hold on this rank.
  std::vector<std::pair<BufferIndex, std::vector<Run>>> parameters() const;

 private:
  struct Extent {  // a view in elements
    int view = 0;
    BufferIndex buffer = -1;
    Dtype dtype = Dtype::fp32;
    std::int64_t begin = 0, end = 0;
    std::int64_t count() const { return end - begin; }
    Place place(std::int64_t at) const { return {view, dtype, at}; }
  };
  struct Source {  // a run in a view that is read
    Run run;
    Place place;
  };

  OpPlan plan(const Op& op);
  OpPlan plan_move(const std::vector<Extent>& reads, const Op& op, double factor);
  OpPlan plan_own_part(const Op& op);
  OpPlan plan_scale(const Op& op, double factor);
  OpPlan plan_interleave(const Op& op);
  OpPlan plan_zero(const Op& op);
  OpPlan plan_fill(const Op& op) const;
  OpPlan plan_check(const Op& op) const;
  OpPlan plan_layer(const Op& op);
  OpPlan plan_loss(const Op& op) const;

  OpPlan plan_norm(const Op& op);
  OpPlan plan_norms(const Op& op) const;
  OpPlan plan_sum_squares(const Op& op) const;
  OpPlan plan_coefficient(const Op& op) const;
  OpPlan plan_clip(const Op& op) const;
  OpPlan plan_update(const Op& op);
  OpPlan plan_from_master(const Op& op);

  OpPlan plan_collective(const Op& op);
  void gathers(const Op& op, const std::vector<Extent>& reads, CollectivePlan& plan);
  void owned_by_root(const Op& op, const std::vector<Extent>& reads, CollectivePlan& plan) const;

  Extent extent(const View& view, int index) const;
  std::vector<Extent> reads_of(const Op& op) const;
  std::vector<Extent> writes_of(const Op& op) const;
  const BufferLayout* layout_of(BufferIndex buffer) const;
  std::vector<Run> layout_runs(BufferIndex buffer) const;
  std::vector<Source> sources_of(const std::vector<Extent>& reads) const;
  // Where the elements of a written view belong; `packed` elements of the reads are used up.
  std::vector<Run> targets_of(const Extent& to, const std::vector<Extent>& reads,
                              std::int64_t& packed) const;
  std::vector<Part> parts_of(int tensor, const std::vector<Source>& sources) const;
  bool complete(const TensorParts& parts) const;
  Activation activation(const Extent& extent) const;
  Activation exact(const Extent& extent) const;
  // Where the elements of an optimizer state's tensors lie, one slot after another.
  struct StatePlaces {
    std::vector<Run> runs;  // the order of the gradients when the optimizer first ran
    std::int64_t slots = 0;
    std::int64_t master = -1;  // begin of the master copies; -1: none
  };
  std::vector<Run> one_after_another(const std::vector<Extent>& extents) const;
  const StatePlaces& places_of(const Op& op, const Extent& state, int moments, bool master,
                               const std::vector<Extent>& gradients);
  void check_updated_in_place(const Op& op, const std::vector<Extent>& all) const;
  const std::string& name_of(const Extent& extent) const;
  BufferKind kind_of(const Extent& extent) const;
  [[noreturn]] void fail(const Op& op, const std::string& why) const;

  const Schedule& schedule_;
  MlpShape shape_;
  int rank_;
  int role_;
  int divisor_;  // DDP's
  int at_work_;  // ranks that take batches
  bool takes_batches_;
  bool norm_read_ = false;  // the host of a ZeRO step knows the gradient norm
  std::map<BufferIndex, const BufferLayout*> layouts_;
  std::map<std::string, int> layer_of_unit_;
  Contents contents_;
  Contents before_;  // contents when the step before began
  int last_program_ = -1;
  std::shared_ptr<const StepPlan> last_plan_;
  std::map<std::pair<BufferIndex, std::int64_t>, StatePlaces> states_;  // by where the view begins
  std::vector<MasterCopy> masters_;
};

}  // namespace stepcast::runtime

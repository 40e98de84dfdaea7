#pragma once
// What the ops of a schedule do, apart from their order. An executor keeps the order (lanes,
// streams, communicators, waits, memory); a Work says what happens when an op's turn has come.
//
//   Replay   nothing, for as long as a cost table says (replay.hpp)
//   Trainer  real numbers: a residual MLP, so that every schedule is proven (train/trainer.hpp)

#include <cstddef>
#include <vector>

#include "runtime/cpu/ring.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast::runtime {

// An op whose turn has come on one rank.
struct OpContext {
  int rank = 0;
  int role = 0;
  int step = 0;     // counted from the start of the run
  int program = 0;  // which StepProgram that step runs
  OpIndex index = -1;
  const Op* op = nullptr;
  // Start of the memory of each view's buffer (add View::offset), reads first, then writes: the
  // buffers as they were when the host issued the op. Null where a Work has no memory.
  std::byte* const* memory = nullptr;
};

class Work {
 public:
  virtual ~Work() = default;

  // Whether buffers are to exist.
  virtual bool has_memory() const = 0;
  // Whether collectives move bytes, in tensors of the Work's own where buffers do not exist; they
  // then take the time that takes.
  virtual bool moves() const { return has_memory(); }
  // Persistent buffers get their first content; `memory` by buffer, null for the others.
  virtual void start(int rank, std::byte* const* memory) = 0;
  // Everything is done; the persistent buffers once more.
  virtual void end(int rank, std::byte* const* memory) = 0;

  // What a rank that is a process tells rank 0 after the end.
  virtual std::vector<double> result(int) const { return {}; }

  // compute, copy, storage. Called from the thread of the rank; several ranks at a time.
  virtual void run(const OpContext& context) = 0;
  // Where the tensors of a collective lie, before the ranks meet ...
  virtual Operands operands(const OpContext& context) = 0;
  // ... and after they have parted.
  virtual void finished(const OpContext& context) = 0;

  // How long an op takes at least on its stream (or lane), and its lane with issuing it. A
  // collective counts from when all ranks are there.
  virtual Seconds duration(const OpContext& context) const = 0;
  virtual Seconds host_duration(const OpContext& context) const = 0;
};

}  // namespace stepcast::runtime

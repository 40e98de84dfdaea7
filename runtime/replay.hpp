#pragma once
// Replay: ops compute nothing but take their time. A GPU computes without the CPU, so waiting is
// what its host sees; lanes, streams, waits, communicators and ranks are real. What a run adds to
// the forecast is everything that is not in a cost: ranks that come late, the wake-up of threads.
//
// Buffers have no memory (a model of 8 G parameters would not fit), their bytes are counted.
//
// `stretch`: everything takes so many times as long, and whoever reads the timeline divides again.
// An operating system wakes a thread some 50 us late; stretched 100 times that is half a
// microsecond of the step.

#include <vector>

#include "runtime/work.hpp"
#include "sim/schedule/timeline.hpp"

namespace stepcast::runtime {

struct OpSeconds {
  Seconds on_stream = 0;  // alone; of storage: on its lane
  Seconds on_host = 0;    // issuing it, or the host work itself
};
// By role, program, op.
using Durations = std::vector<std::vector<std::vector<OpSeconds>>>;

class Replay : public Work {
 public:
  Replay(const Schedule& schedule, Durations durations, double stretch = 1);

  bool has_memory() const override { return false; }
  void start(int, std::byte* const*) override {}
  void end(int, std::byte* const*) override {}
  void run(const OpContext&) override {}
  Operands operands(const OpContext&) override { return {}; }
  void finished(const OpContext&) override {}
  Seconds duration(const OpContext& context) const override;
  Seconds host_duration(const OpContext& context) const override;

 private:
  const OpSeconds& seconds(const OpContext& context) const;

  const Schedule& schedule_;
  Durations durations_;
  double stretch_;
};

// All times of the timeline times a factor.
Timeline scaled(Timeline timeline, double factor);

}  // namespace stepcast::runtime

#pragma once
// One step as people look at it, shared by every drawing of a timeline (picture.hpp,
// gantt_text.hpp, timeline_json.hpp): what an op stands for, and when the device gets to what the
// host issued.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/schedule/schedule.hpp"
#include "sim/schedule/timeline.hpp"

namespace stepcast {

enum class Shade : std::uint8_t {
  forward,
  recompute,
  backward,
  optimizer,
  gather,
  scatter,
  reduce,
  copy,
  host,
};

struct ShadeName {
  Shade shade;
  const char* key;     // of a style sheet: "ag"
  const char* legend;  // "all-gather"
  char letter;         // of a plain terminal
};

inline constexpr std::array<ShadeName, 9> shades{{
    {Shade::forward, "fwd", "forward", 'F'},
    {Shade::recompute, "rec", "recompute", 'R'},
    {Shade::backward, "bwd", "backward", 'B'},
    {Shade::optimizer, "opt", "optimizer", 'O'},
    {Shade::gather, "ag", "all-gather", 'G'},
    {Shade::scatter, "rs", "reduce-scatter", 'S'},
    {Shade::reduce, "ar", "other collectives", 'A'},
    {Shade::copy, "cp", "copies and casts", 'C'},
    {Shade::host, "ho", "host", 'H'},
}};

Shade shade_of(const Op& op);
constexpr const ShadeName& name_of(Shade shade) { return shades[static_cast<std::size_t>(shade)]; }

std::string_view to_string(Bound bound);  // "host", "wait", ...

// The spans of one executed step, of one role, that take any time within the step's period, by
// where they ran. A host that has run ahead of the step is left out.
struct StepRow {
  std::string label;               // "host", "compute"; with several roles "gpu0 compute"
  std::vector<const Span*> spans;  // in the timeline's order
};

class StepView {
 public:
  // `step`: index of the executed step, -1: the last. `role`: whose host row and memory are shown.
  // Rows of the other roles follow, streams only. The timeline must have a step.
  StepView(const Schedule& schedule, const Timeline& timeline, int step = -1,
           std::int32_t role = 0);

  int step() const { return step_; }
  std::int32_t role() const { return role_; }
  Seconds begin() const { return begin_; }
  Seconds end() const { return end_; }
  const std::vector<StepRow>& rows() const { return rows_; }
  const Op& op_of(const Span& span) const;
  const StepProgram& program(std::int32_t role) const {
    return *programs_[static_cast<std::size_t>(role)];
  }
  // Of the role, in host order.
  const std::vector<const MemorySample*>& memory() const { return samples_; }

  // When the compute stream gets to what the host issued at `op`: the start of its next kernel.
  // `from` walks along with ops in host order; it begins at 0.
  Seconds reached(OpIndex op, std::size_t& from) const;

 private:
  void collect(const Schedule& schedule, const Timeline& timeline, std::int32_t role);

  int step_ = 0;
  std::int32_t role_ = 0;
  Seconds begin_ = 0, end_ = 0;
  std::vector<const StepProgram*> programs_;  // the step's, by role
  std::vector<StepRow> rows_;
  std::vector<const Span*> compute_;  // of the role, on the first stream, in host order
  std::vector<const MemorySample*> samples_;
};

}  // namespace stepcast

#pragma once
// One step as a few lines of text, one a stream: `stepcast simulate --gantt`.
//
//                0          300         600         900        1266 ms
//   compute      FFFFFFFFFFFFFFFFFFFFFRBBBRBBBRBBBRBBBRBBBRBBBO
//   all_gather   gGgGgGgGgGgGgGgG...gG..gG..gG..gG..gG..gG.....
//                F forward  R recompute  B backward  O optimizer  G all-gather
//
// A column is a slice of the step and shows what ran longest in it: a letter, large where the
// stream was busy for at least half of the slice, small otherwise, a point where it was idle. With
// `colour` (a terminal) a block whose height is the share of the slice in which the stream was
// busy, in the colours of the report page. The letters or colours used stand below. Nothing is
// wider than `width`. Tested by tests/unit/report/gantt_text_test.cpp.

#include <string>

#include "sim/report/step_view.hpp"

namespace stepcast {

struct GanttOptions {
  bool colour = false;  // ANSI colours and blocks of Unicode
  int width = 80;       // columns; at least 40
};

// The timeline must have a step; its last one is drawn.
std::string gantt_text(const Schedule& schedule, const Timeline& timeline,
                       const GanttOptions& options = {});

}  // namespace stepcast

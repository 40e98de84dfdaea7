#pragma once
// One step as a picture: a self-contained SVG with a row for the host, a row for each stream and
// the allocated memory below, on one time axis. For people who would rather look than read; it is
// the figure of the README and of docs/strategies. Light and dark follow the viewer's system.
//
//   host        |issue|   |wait|
//   compute     [fwd][fwd][fwd][bwd][bwd][bwd][adam]
//   all_gather  [ag][ag][ag]  [ag][ag]
//   memory      ___/^^^\____
//
// The axis is the step's period; a host that has run ahead of it is not drawn. Memory is counted in
// host order and drawn when the compute stream gets there.
//
// Spans shorter than a third of a pixel are drawn together with their neighbours, so 16
// micro-batches of 80 layers stay below a megabyte. Tested by tests/unit/report/picture_test.cpp.

#include <string>

#include "sim/memory/replay.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/schedule/timeline.hpp"

namespace stepcast {

struct PictureOptions {
  int step = -1;  // executed step to draw; -1: the last
  std::int32_t role = 0;
  int width = 1100;                    // pixels
  std::string title;                   // "" takes the schedule's name
  Bytes capacity = 0;                  // of the GPU: a line in the memory curve; 0: none
  const RoleReplay* replay = nullptr;  // of that role: the reserved memory as a second line
};

std::string to_picture(const Schedule& schedule, const Timeline& timeline,
                       const PictureOptions& options = {});

}  // namespace stepcast

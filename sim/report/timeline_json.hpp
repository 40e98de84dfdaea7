#pragma once
// What the report page draws of a step, as JSON text: the streams with their spans, the memory over
// time, the machine with how busy its links are. docs/page.md describes the documents.
//
// Spans go out column by column ("start_us": [...], "length_us": [...]): a quarter of the bytes of
// an object a span. Neighbours are folded where they are shorter than the page could show, from a
// four-thousandth of the step on, and further until at most PageLimits::spans are left; a folded
// span says of how many it is made and how long they ran together, and carries the shade of most of
// that time and the worst provenance. Memory that changes more often than PageLimits::samples is
// thinned so that every peak stays: of each run of changes its lowest and its highest.
//
// Example: 32 optimizer kernels of 2 us each in a step of 1 s become one span, "count" 32,
// "busy_us" 64. Tested by tests/unit/report/timeline_json_test.cpp.

#include <string>

#include "sim/engines/cost_table.hpp"
#include "sim/memory/replay.hpp"
#include "sim/report/step_view.hpp"
#include "sim/report/summary.hpp"
#include "topologies/topology.hpp"

namespace stepcast {

struct PageLimits {
  std::size_t spans = 6000;
  std::size_t samples = 4000;  // of each memory curve
};

// {"period_us", "legend", "rows", "names", "details", "spans": {...}} of the last step of all
// roles.
std::string timeline_json(const Schedule& schedule, const CostTable& costs,
                          const Timeline& timeline, const PageLimits& limits = {});

// {"capacity_bytes", "allocated": {"t_us", "bytes"}, "reserved": {...} or null} of the first role,
// drawn when the compute stream gets there. `replay`: of that role, or null.
std::string memory_json(const Schedule& schedule, const Timeline& timeline, Bytes capacity,
                        const RoleReplay* replay, const PageLimits& limits = {});

// {"devices", "links", "fabric", "busy"}: the graph of one node, the network between nodes, and of
// each resource of a rank the share of the step's period for which the last step uses it.
// `collectives`: the step's (summary.hpp), for the links.
std::string topology_json(const Cluster& cluster, const Schedule& schedule, const CostTable& costs,
                          const Timeline& timeline, const std::vector<CollectiveRow>& collectives);

}  // namespace stepcast

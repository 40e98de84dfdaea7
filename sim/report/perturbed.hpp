#pragma once
// The same step with some ranks slow, late or missing, or links broken: what it loses, and where
// each class of rank waits for the others. sim/forecast fills it; the page and the JSON document
// print it.

#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/schedule/timeline.hpp"

namespace stepcast {

// One collective at which a class waited for ranks of another.
struct PeerWait {
  std::string op;  // "backward.all_reduce.bucket.2"
  Seconds seconds = 0;
};

struct PerturbedClass {
  std::string name;   // "rank 17", "its shard group", "the rest"
  std::string ranks;  // "16, 18..23"
  int count = 0;
  bool perturbed = false;
  // Time of the step in which at least one of its collectives stood for another class. Its kernels
  // may have run beside: a gather that was prefetched waits early.
  Seconds waited = 0;
  std::vector<PeerWait> waits;  // longest first
  // What its broken links, or another machine, make longer, each op alone: "all_reduce", "kernels".
  std::vector<PeerWait> slower;
  // A step that never ends: where the class stands, since when, and for whom. Empty otherwise.
  std::string stalled_at;
  Seconds stalled_since = 0;
  std::vector<std::string> stalled_for;
};

// Kernels that vary over ranks: what the step loses by it, on average and in one draw of all ranks.
struct JitteredStep {
  double persistent = 0, kernel = 0;  // standard deviations
  Seconds expected = 0;
  std::optional<Seconds> drawn;  // unless that would take long
};

struct PerturbedStep {
  std::vector<std::string> asked;  // "rank=17:late=5s"
  bool once = false;               // late and missing: of this step only; slow: of every step
  Seconds before = 0;              // the step as it is otherwise
  Seconds step_time = 0;
  double samples_per_second = 0;
  double tokens_per_second = 0;  // 0 of images
  double goodput = 0;            // before / step_time; 0 when the job ends
  // The communicator's timeout ran out: the step never ends, and the job does, this long after the
  // step began.
  bool torn_down = false;
  Seconds timeout = 0;
  Seconds ended_at = 0;
  std::string timed_out_at;  // the collective
  std::vector<PerturbedClass> classes;
  std::optional<JitteredStep> jitter;  // in step_time with what is expected

  Seconds lost() const { return step_time - before; }
};

// The peer waits of a role in the last step, longest first. `names`: op_names() of its program.
std::vector<PeerWait> peer_waits(const Timeline& timeline, int role,
                                 const std::vector<std::string>& names);
// And the time of the step in which there was one, overlapping ones counted once.
Seconds peer_wait_time(const Timeline& timeline, int role);

// The page's section, some lines.
std::string to_text(const PerturbedStep& step);

}  // namespace stepcast

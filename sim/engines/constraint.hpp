#pragma once
// Small rules that the list walk and the ready queue share to the letter, so that the two differ
// only in how they get there. Internal to sim/engines.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "sim/engines/run_plan.hpp"

namespace stepcast {

// The latest of several constraints and which one it was. Of equals the first one told wins; the
// order of telling is: what held the stream (op before it, or a wait), the communicator, the host,
// the peers.
struct Constraint {
  Seconds at = 0;
  Bound bound = Bound::start;
  OpAt cause;

  void later(Seconds other, Bound why, OpAt of = {}) {
    if (other > at) {
      at = other;
      bound = why;
      cause = of;
    }
  }
};

inline std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

inline bool runs_on_stream(const Op& op) {
  return op.kind == OpKind::compute || op.kind == OpKind::copy || op.kind == OpKind::collective;
}

// Issuing an op of n launches takes `host` seconds; the op may start when the first n-th is paid.
inline int parts(const Op& op) { return std::max(1, op.launches); }
inline Seconds first_launch(Seconds begin, const Op& op, Seconds host) {
  return begin + host / parts(op);
}
// ... and its last n-th of work cannot start before the last launch.
inline Seconds earliest_end(const Op& op, Seconds last_launch, Seconds solo) {
  return last_launch + solo / parts(op);
}

}  // namespace stepcast

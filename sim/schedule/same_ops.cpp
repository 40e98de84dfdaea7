#include "sim/schedule/same_ops.hpp"

namespace stepcast {

OpIndex SameOps::operator()(std::size_t here, std::size_t there, OpIndex op) {
  if (here == there) return op;
  const std::pair<std::size_t, std::size_t> key(here, there);
  auto found = known_.find(key);
  if (found == known_.end()) {
    found = known_.emplace(key, SameOp((*programs_)[here], (*programs_)[there])).first;
  }
  return found->second(op);
}

}  // namespace stepcast

#include "models/tape.hpp"

namespace stepcast {

void Tape::grouped(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t rows,
                   std::int64_t count, std::vector<int> ready, std::int64_t extra_elements) {
  const LinearNames names(name);
  Entry& entry = entries_.emplace_back();
  const std::int64_t elements = count * in * out + extra_elements;
  const int casts = static_cast<int>(ready.size());  // each tensor in a launch of its own
  if (z_.casts) {
    entry.forward.push_back(
        memory_bound(names.cast, z_.dtype, z_.parameter * elements, z_.element * elements, casts));
    copies_ += z_.element * elements;
  }
  entry.forward.push_back(gemm(names.forward, z_.dtype, rows, out, in, count));
  entry.backward.push_back(marks_nothing(gemm(names.dgrad, z_.dtype, rows, in, out, count)));
  entry.backward.push_back(marks_nothing(gemm(names.wgrad, z_.dtype, out, in, rows, count)));
  if (z_.casts) {
    entry.backward.push_back(marks_nothing(memory_bound(
        names.grad_cast, z_.dtype, z_.element * elements, z_.parameter * elements, casts)));
  }
  entry.backward.back().ready = std::move(ready);
}

void Tape::fork(int readers, std::int64_t elements, Bytes element) {
  static const Name name{"grad_add"};
  if (z_.workload->fused_elementwise) return;  // the norm before it takes all gradients
  Entry& entry = entries_.emplace_back();
  for (int i = 1; i < readers; ++i) {
    entry.backward.push_back(
        marks_nothing(memory_bound(name, z_.dtype, 2 * element * elements, element * elements)));
  }
}

}  // namespace stepcast

// What stands between the products of an MLP: GELU, or SwiGLU's silu and product.
//
// Tested by tests/unit/models/work_test.cpp.

#include "models/experts.hpp"
#include "models/layout.hpp"
#include "models/work_parts.hpp"

namespace stepcast {
namespace {

Name forward_name() {
  static const Name name("activation");
  return name;
}
Name backward_name() {
  static const Name name("activation.backward");
  return name;
}

}  // namespace

// SwiGLU: silu (1 read, 1 written), product (2, 1), together (2, 1); GELU: (1, 1).
Kernel activation_forward(const Sizes& z) {
  const std::int64_t inner = inner_elements(z);
  if (!has_gated_mlp(z.architecture->family)) {
    return elementwise(z, forward_name(), inner, inner);
  }
  return z.workload->fused_elementwise ? elementwise(z, forward_name(), 2 * inner, inner)
                                       : elementwise(z, forward_name(), 3 * inner, 2 * inner, 2);
}

// SwiGLU: the product's two gradients (2, 1 each), silu's (2, 1); together gradient, gate and up
// in, two gradients out. GELU: (2, 1). The up projection's gradients come before silu's, which the
// single kernel leaves out: no parameter waits longer for it than one elementwise kernel.
Kernel activation_backward(const Sizes& z) {
  const std::int64_t inner = inner_elements(z);
  if (!has_gated_mlp(z.architecture->family)) {
    return elementwise(z, backward_name(), 2 * inner, inner);
  }
  return z.workload->fused_elementwise ? elementwise(z, backward_name(), 3 * inner, 2 * inner)
                                       : elementwise(z, backward_name(), 6 * inner, 3 * inner, 3);
}

Kernel silu_forward(const Sizes& z) {
  const std::int64_t inner = inner_elements(z);
  return elementwise(z, forward_name(), inner, inner);
}

}  // namespace stepcast

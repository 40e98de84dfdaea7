#include "models/experts.hpp"

#include <algorithm>

namespace stepcast {
namespace {

struct Names {
  LinearNames router{"router"}, gate{"experts_gate"}, up{"experts_up"}, down{"experts_down"};
  Name choose{"top_k"}, choose_backward{"top_k.backward"};
  Name permute{"permute"}, permute_backward{"permute.backward"};
  Name combine{"combine"}, combine_backward{"combine.backward"};
  Name add_gradients{"grad_add"};
};

const Names& names() {
  static const Names instance;
  return instance;
}

// One projection of all experts.
struct Grouped {
  const LinearNames& names;
  std::int64_t in = 0, out = 0;
  int first = 0;  // the first expert's tensor
};

class Experts {
 public:
  Experts(const Sizes& sizes, const BlockLayout& layout)
      : z_(sizes),
        layout_(layout),
        count_(sizes.architecture->experts),
        chosen_(sizes.architecture->experts_per_token),
        rows_(ceil_div(sizes.tokens * chosen_, count_)),
        copied_(sizes.tokens * chosen_ * sizes.hidden),
        routed_(sizes.tokens * count_),
        fused_(sizes.workload->fused_elementwise) {}

  Linear router() const {
    return Linear{names().router, z_.hidden, count_, layout_.at(Role::router_weight), -1};
  }
  Grouped gate() const { return {names().gate, z_.hidden, z_.ffn, layout_.at(Role::gate_weight)}; }
  Grouped up() const { return {names().up, z_.hidden, z_.ffn, layout_.at(Role::up_weight)}; }
  Grouped down() const { return {names().down, z_.ffn, z_.hidden, layout_.at(Role::down_weight)}; }

  // Softmax in fp32, top k, their sum, the division.
  Kernel choose() const {
    return memory_bound(names().choose, z_.dtype, (z_.element + 4) * routed_ + 8 * weights(),
                        4 * routed_ + (8 + 4 + z_.element) * weights(), 4);
  }
  Kernel choose_backward() const {
    return memory_bound(names().choose_backward, z_.dtype, 8 * routed_ + 12 * weights(),
                        8 * routed_ + z_.element * routed_, 4);
  }

  // Sorted by expert, then each row read and written.
  Kernel permute() const { return elementwise(z_, names().permute, copied_, copied_, 2); }
  Kernel permute_backward() const {
    return elementwise(z_, names().permute_backward, copied_, z_.tokens * z_.hidden, 1);
  }

  // Eager: rows times weights, then added to their tokens (which are read too).
  Kernel combine() const {
    return fused_ ? elementwise(z_, names().combine, copied_, z_.tokens * z_.hidden)
                  : elementwise(z_, names().combine, 3 * copied_, 2 * copied_, 2);
  }
  // Rows of the gradient copied, times weights; for the weights' gradient times the results.
  Kernel combine_backward() const {
    return fused_ ? elementwise(z_, names().combine_backward, 2 * copied_, copied_)
                  : elementwise(z_, names().combine_backward, 5 * copied_, 3 * copied_, 4);
  }

  void product(const Grouped& g, std::vector<Kernel>& list) const {
    if (z_.casts) list.push_back(cast(g.names.cast, g, z_.parameter, z_.element));
    list.push_back(gemm(g.names.forward, z_.dtype, rows_, g.out, g.in, count_));
  }

  void gradients(const Grouped& g, std::vector<BackwardKernel>& list) const {
    list.push_back(marks_nothing(gemm(g.names.dgrad, z_.dtype, rows_, g.in, g.out, count_)));
    list.push_back(marks_nothing(gemm(g.names.wgrad, z_.dtype, g.out, g.in, rows_, count_)));
    if (z_.casts) {
      list.push_back(marks_nothing(cast(g.names.grad_cast, g, z_.element, z_.parameter)));
    }
    for (auto e = static_cast<int>(count_); e-- > 0;) {
      list.back().ready.push_back(g.first + e * expert_tensors);
    }
  }

  void add_copies(std::vector<BackwardKernel>& list) const {
    if (fused_) return;  // into the gate's gradient, by the product itself
    list.push_back(marks_nothing(elementwise(z_, names().add_gradients, 2 * copied_, copied_)));
  }

 private:
  std::int64_t weights() const { return z_.tokens * chosen_; }
  Kernel cast(Name name, const Grouped& g, Bytes from, Bytes to) const {
    const std::int64_t elements = count_ * g.in * g.out;
    return memory_bound(name, z_.dtype, from * elements, to * elements,
                        static_cast<int>(count_));  // each expert's tensor in a launch of its own
  }

  const Sizes& z_;
  const BlockLayout& layout_;
  std::int64_t count_;   // E
  std::int64_t chosen_;  // k
  std::int64_t rows_;    // of one expert
  std::int64_t copied_;  // elements of the copied rows
  std::int64_t routed_;  // elements of the router's result
  bool fused_;
};

}  // namespace

void experts_forward(const Sizes& z, const BlockLayout& layout, std::vector<Kernel>& list) {
  const Experts experts(z, layout);
  linear_forward(z, experts.router(), list);
  list.push_back(experts.choose());
  list.push_back(experts.permute());
  experts.product(experts.gate(), list);
  experts.product(experts.up(), list);
  list.push_back(activation_forward(z));
  experts.product(experts.down(), list);
  list.push_back(experts.combine());
}

void experts_backward(const Sizes& z, const BlockLayout& layout,
                      std::vector<BackwardKernel>& list) {
  const Experts experts(z, layout);
  list.push_back(marks_nothing(experts.combine_backward()));
  experts.gradients(experts.down(), list);
  list.push_back(marks_nothing(activation_backward(z)));
  experts.gradients(experts.up(), list);
  experts.gradients(experts.gate(), list);
  experts.add_copies(list);
  list.push_back(marks_nothing(experts.permute_backward()));
  list.push_back(marks_nothing(experts.choose_backward()));
  linear_backward(z, experts.router(), list);
}

std::int64_t inner_elements(const Sizes& z) {
  return z.tokens * std::max<std::int64_t>(1, z.architecture->experts_per_token) * z.ffn;
}

Bytes experts_kept(const Sizes& z) {
  const Architecture& a = *z.architecture;
  if (a.experts == 0) return 0;
  const std::int64_t rows = z.tokens * a.experts_per_token;
  // Rows and results; probabilities in fp32; choice (int64) and weight of each copy.
  return 2 * z.element * rows * z.hidden + 4 * z.tokens * a.experts + (8 + z.element) * rows;
}

}  // namespace stepcast

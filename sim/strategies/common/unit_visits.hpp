#pragma once
// Which unit a layer belongs to, and where the forward and backward of a unit begin and end: what
// FSDP's hooks hang on, the same for FSDP1 and FSDP2.
//
// A visit is a run of consecutive layers of one unit. The root has none: it spans the step.
//
//   layers   embedding  layers.0  layers.1  norm  head
//   unit     root       0         1         root  root
//   visits              [0]       [1]

#include <algorithm>
#include <cstddef>
#include <vector>

namespace stepcast {

class UnitVisits {
 public:
  // Any list of units with `wrap.layers` and `wrap.root`; those without parameters are not in it.
  template <typename Unit>
  UnitVisits(std::size_t layers, const std::vector<Unit>& units) : unit_of_layer_(layers, -1) {
    for (std::size_t u = 0; u < units.size(); ++u) {
      for (const int layer : units[u].wrap.layers) {
        unit_of_layer_[static_cast<std::size_t>(layer)] = static_cast<int>(u);
      }
      if (units[u].wrap.root) root_ = static_cast<int>(u);
    }
  }

  int unit_of(int layer) const { return unit_of_layer_[static_cast<std::size_t>(layer)]; }  // or -1
  // Units by their first visit; the root is not among them.
  std::vector<int> order() const {
    std::vector<int> order;
    for (std::size_t layer = 0; layer < unit_of_layer_.size(); ++layer) {
      const int unit = unit_of_layer_[layer];
      if (first_of_visit(static_cast<int>(layer)) &&
          std::find(order.begin(), order.end(), unit) == order.end()) {
        order.push_back(unit);
      }
    }
    return order;
  }
  int root() const { return root_; }  // -1: the root has no parameters of its own

  // In layer order: the first and the last layer of a visit. Backward walks the other way.
  bool first_of_visit(int layer) const { return is_edge(layer, layer - 1); }
  bool last_of_visit(int layer) const { return is_edge(layer, layer + 1); }

 private:
  bool is_edge(int layer, int neighbour) const {
    const int mine = unit_of(layer);
    if (mine < 0 || mine == root_) return false;
    if (neighbour < 0 || neighbour >= static_cast<int>(unit_of_layer_.size())) return true;
    return unit_of(neighbour) != mine;
  }

  std::vector<int> unit_of_layer_;  // -1: a layer without parameters
  int root_ = -1;
};

}  // namespace stepcast

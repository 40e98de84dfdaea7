#include "sim/forecast/double_tree.hpp"

namespace stepcast {
namespace {

int parent_in_first(int k, int n) {
  if (k == 0) return -1;
  const int bit = k & -k;
  const int up = (k ^ bit) | (bit << 1);
  return up < n ? up : k ^ bit;
}

}  // namespace

int tree_parent(int k, int n, bool second) {
  if (!second) return parent_in_first(k, n);
  if (n % 2 == 0) {
    const int up = parent_in_first(n - 1 - k, n);
    return up < 0 ? -1 : n - 1 - up;
  }
  const int up = parent_in_first((k + n - 1) % n, n);
  return up < 0 ? -1 : (up + 1) % n;
}

}  // namespace stepcast

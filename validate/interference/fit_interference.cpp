// fit_interference: fits the factor of what collectives take from kernels beside them and prints
// forecasts beside what was measured. For developers; docs/interference.md holds the table.

#include <fmt/format.h>

#include "validate/interference/overlap.hpp"

int main() {
  using namespace stepcast::validate;
  const Overlaps published = published_overlaps();
  const double factor = fit_interference(published);
  fmt::print("overlap_interference = {:.3f}\n\n{}", factor, table(published, factor));
  return 0;
}

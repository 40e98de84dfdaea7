// fit_collectives: fits the corrections of collectives on the published calls and prints
// sim/collectives/data/collective-corrections.toml; the tables go to the error stream. For
// developers; the build that printed it must be made again to use it.

#include <fmt/format.h>

#include <cstdio>

#include "validate/collectives/errors.hpp"
#include "validate/collectives/fit.hpp"

int main() {
  using namespace stepcast::validate;
  const std::vector<PublishedCall> calls = published_calls();
  const Fit fitted = fit(calls);
  fmt::print(stderr, "{}", to_text(published_errors(fitted.corrections, calls)));
  for (const std::string& name : fitted.rejected) {
    fmt::print(stderr, "{}: its check machines came out worse; no correction\n", name);
  }
  fmt::print("{}", to_toml(fitted, calls));
  return 0;
}

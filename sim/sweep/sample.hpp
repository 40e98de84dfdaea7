#pragma once
// Points drawn instead of a grid: independent random ones, or Sobol's sequence, which fills the
// space evenly at every length (I. M. Sobol, 1967; directions of Joe and Kuo, as in Boost.Random).
//
//   parse_sampling("sobol:500", 1)
//
// The same seed draws the same points. Of Sobol's sequence the seed shifts all points around the
// space (a Cranley-Patterson rotation), seed 0 leaves it as it is; its first point, the corner, is
// left out, as Boost does. Tested by tests/unit/sweep/points_test.cpp.

#include <cstdint>
#include <string>
#include <vector>

namespace stepcast {

struct Sampling {
  bool sobol = true;
  int count = 0;
  std::uint64_t seed = 0;
};

// "sobol:N" or "random:N". Throws InputError at --sample.
Sampling parse_sampling(const std::string& text, std::uint64_t seed);

// `count` rows of `dimensions` numbers in [0, 1).
std::vector<std::vector<double>> draw(const Sampling& sampling, int dimensions);

}  // namespace stepcast
